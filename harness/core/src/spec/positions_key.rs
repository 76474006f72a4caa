//! The rules for the key `positions`.

use super::bounds;
use super::checkpoints::{Checkpoint, Checkpoints};
use super::decode::{At, Reader};
use super::file::{CheckpointFile, PositionsFile};
use super::positions::Positions;
use super::problem::{Problem, SourceSpan, quoted};
use super::template::{NameTemplate, template};
use crate::text::suggest::did_you_mean;

/// The key `positions` before its loop is expanded.
pub(super) struct PositionsDraft {
    /// `None` for the checkpoint itself.
    tap: Option<At<NameTemplate>>,
    axis: usize,
    pub(super) place: SourceSpan,
}

/// Checks the key by itself; `None` after reporting a problem.
pub(super) fn positions(
    file: &CheckpointFile,
    at: &At<PositionsFile>,
    axes: &[&str],
    reader: &mut Reader<'_>,
) -> Option<PositionsDraft> {
    let axis = at.value.axis.get()?;
    let index = usize::try_from(axis.value).unwrap_or(usize::MAX);
    if index >= bounds::RANK {
        let allowed = format!("expected an axis of the port's tensor, 0 to {}", bounds::RANK - 1);
        reader.problem(&axis.place, format!("found axis {}", axis.value), allowed);
        return None;
    }
    if let Some(shape) = file.shape.get()
        && index >= shape.value.len()
    {
        let message = format!("found axis {index}, but `shape` has {} axes", shape.value.len());
        let problem = Problem::new(&axis.place, message, "expected the axis with the slots of the cache");
        reader.problems.push(problem.related(&shape.place, "`shape`"));
        return None;
    }
    if at.value.tap.is_broken() {
        return None;
    }
    let tap = at.value.tap.get();
    let parsed = tap.and_then(|tap| template(tap, axes, reader));
    if tap.is_some() != parsed.is_some() {
        return None;
    }
    let place = tap.map_or(&at.place, |tap| &tap.place).clone();
    Some(PositionsDraft { tap: parsed, axis: index, place })
}

impl PositionsDraft {
    /// The key of `own`, a checkpoint after those of `earlier`.
    ///
    /// # Errors
    ///
    /// What is wrong and what is allowed.
    pub(super) fn resolve(
        &self,
        own: &Checkpoint,
        values: &[i64],
        earlier: &Checkpoints,
    ) -> Result<Positions, (String, &'static str)> {
        let tap = self.tap.as_ref().map_or_else(|| own.name.clone(), |tap| tap.value.fill(values));
        let found = Positions { tap: tap.clone(), axis: self.axis };
        if tap == own.name {
            return match own.dtype {
                Some(dtype) if !dtype.is_integer() => Err((
                    format!("{} holds positions, but its dtype is {dtype}", quoted(&tap)),
                    "expected integers; `tap` names the checkpoint that holds the positions of these slots",
                )),
                _ if self.axis != 0 => Err((
                    format!("{} holds positions, but its slots are on axis {}", quoted(&tap), self.axis),
                    "expected axis 0: one position per slot",
                )),
                _ => Ok(found),
            };
        }
        let Some(holder) = earlier.position(&tap).map(|index| &earlier[index]) else {
            let near = did_you_mean(&tap, earlier.iter().map(|checkpoint| checkpoint.name.as_str()));
            let message = format!("no earlier checkpoint is called {}{near}", quoted(&tap));
            return Err((message, "expected one that is declared before this one"));
        };
        if holder.positions.as_ref().is_none_or(|positions| positions.tap != tap) {
            let message = format!("checkpoint {} in line {} holds no positions", quoted(&tap), holder.line);
            return Err((message, "expected one of integers with `positions: {axis: 0}`"));
        }
        if holder.level > own.level {
            let message =
                format!("checkpoint {} has level {}, above level {}", quoted(&tap), holder.level, own.level);
            return Err((message, "expected one that is checked whenever this one is"));
        }
        if holder.hits != own.hits {
            let message = format!("checkpoint {} has {} hits, not {}", quoted(&tap), holder.hits, own.hits);
            return Err((message, "expected as many: each hit has positions of its own"));
        }
        Ok(found)
    }
}
