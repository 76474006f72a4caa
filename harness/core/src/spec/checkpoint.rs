//! The rules for one checkpoint as written, before its loop is expanded.

use std::sync::Arc;

use super::bounds;
use super::checkpoints::{Checkpoint, Dim};
use super::decode::{At, Maybe, Reader};
use super::expr::Condition;
use super::file::CheckpointFile;
use super::gate::{at_least, gate, why};
use super::keywords::Compare;
use super::policy::Policies;
use super::positions_key::{PositionsDraft, positions};
use super::problem::{Problem, SourceSpan, quoted};
use super::rules;
use super::template::{NameTemplate, template};
use super::values::Axis;

/// A checkpoint before its loop is expanded: what the loop repeats, and the loop.
pub(super) struct Draft {
    /// The checkpoint, still without its name and its `against`.
    pub(super) checkpoint: Checkpoint,
    pub(super) place: SourceSpan,
    pub(super) axes: Vec<(At<String>, Axis)>,
    pub(super) when: Option<(Condition, At<String>)>,
    /// `None` when it is wrong, which has been reported; the draft is then not expanded.
    pub(super) name: Option<At<NameTemplate>>,
    pub(super) against: Option<At<NameTemplate>>,
    pub(super) positions: Option<PositionsDraft>,
    /// The checkpoint of the scores that ids are chosen by.
    pub(super) scores: Option<At<NameTemplate>>,
    /// The checkpoint of the weights that belong to ids.
    pub(super) weights: Option<At<NameTemplate>>,
    /// The name as written, with its braces.
    pub(super) written: String,
}

/// Checks one checkpoint by itself.
pub(super) fn check_checkpoint(
    file: &CheckpointFile,
    place: &SourceSpan,
    policies: &Policies,
    reader: &mut Reader<'_>,
) -> Draft {
    let axes: Vec<(At<String>, Axis)> = match file.r#for.value() {
        Some(axes) => axes.0.iter().map(|(name, axis)| (name.clone(), axis.clone())).collect(),
        None => Vec::new(),
    };
    let names: Vec<&str> = axes.iter().map(|(name, _)| name.value.as_str()).collect();
    // With a broken `for`, every axis would be unknown.
    let readable = !file.r#for.is_broken();
    let mut name = file.name.get().filter(|_| readable).and_then(|at| template(at, &names, reader));
    let against = file.against.get().filter(|_| readable).and_then(|at| template(at, &names, reader));
    let mut other =
        |key: &Maybe<String>| key.get().filter(|_| readable).and_then(|at| template(at, &names, reader));
    let (with, scores) = (other(&file.with), other(&file.scores));
    let is_tokens = file.compare.value() == Some(&Compare::Tokens);
    let (scores, weights) = if is_tokens { (with, None) } else { (scores, with) };
    let unused = |name: &At<NameTemplate>| (0..axes.len()).find(|&axis| !name.value.uses(axis));
    if let Some(axis) = name.as_ref().and_then(unused) {
        let axis = &axes[axis].0;
        let message = format!("axis `{}` is not in the name", axis.value);
        let allowed = format!("expected `{{{}}}` in the name, or names would repeat", axis.value);
        reader.problem(&axis.place, message, allowed);
        name = None;
    }
    let when = file.when.get().filter(|_| readable).and_then(|at| condition(at, &names, reader));
    let gate = gate(file, place, policies, reader);
    why(file, place, gate.as_ref(), policies, reader);
    transforms(file, gate.is_some() || gate_is_broken(file), reader);
    let at_least = at_least(file, gate.as_ref(), reader);
    let positions =
        file.positions.get().filter(|_| readable).and_then(|at| positions(file, at, &names, reader));
    Draft {
        checkpoint: Checkpoint {
            name: String::new(),
            line: place.line,
            hits: hits(&file.hits, reader),
            level: rules::level(&file.level, reader),
            stage: file.stage.value().copied(),
            dtype: file.dtype.value().copied(),
            shape: shape(&file.shape, reader),
            gate,
            nan_equal: file.nan.value().is_some(),
            range: file.range.value().map(|range| (range.0, range.1)),
            squeeze: squeeze(&file.squeeze, reader),
            layout: layout(file, reader),
            cast: file.cast.value().copied(),
            positions: None,
            against: None,
            scores: None,
            weights: None,
            ids: None,
            at_least,
            counterpart: None,
            gated: file.gate.is_absent(),
            why: rules::shared(&file.why),
        },
        place: file.name.place().unwrap_or(place).clone(),
        axes,
        when,
        name,
        against,
        positions,
        scores,
        weights,
        written: file.name.value().cloned().unwrap_or_default(),
    }
}

fn condition(at: &At<String>, axes: &[&str], reader: &mut Reader<'_>) -> Option<(Condition, At<String>)> {
    if axes.is_empty() {
        reader.problem(&at.place, "`when` without `for`", "expected a `for`, whose axes it selects from");
        return None;
    }
    match Condition::parse(&at.value, axes) {
        Ok(condition) => Some((condition, at.clone())),
        Err(error) => {
            let place = reader.within(&at.place, &at.value, error.at);
            reader.problem(&place, format!("`when`: {}", error.message), "");
            None
        }
    }
}

fn hits(hits: &Maybe<u32>, reader: &mut Reader<'_>) -> u32 {
    let Some(at) = hits.get() else { return 1 };
    if !(1..=bounds::HITS).contains(&at.value) {
        let allowed = format!("expected 1 to {}", bounds::HITS);
        reader.problem(&at.place, format!("found hits {}", at.value), allowed);
    }
    at.value
}

fn shape(shape: &Maybe<Vec<At<super::values::DimFile>>>, reader: &mut Reader<'_>) -> Option<Arc<[Dim]>> {
    let at = shape.get()?;
    if at.value.len() > bounds::RANK {
        let message = format!("found a shape of {} axes", at.value.len());
        reader.problem(&at.place, message, format!("expected at most {}", bounds::RANK));
    }
    Some(at.value.iter().map(|dim| dim.value.0.clone()).collect())
}

fn squeeze(squeeze: &Maybe<Vec<At<u32>>>, reader: &mut Reader<'_>) -> Vec<usize> {
    let mut axes = Vec::new();
    for at in squeeze.value().into_iter().flatten() {
        let axis = usize::try_from(at.value).unwrap_or(usize::MAX);
        if axis >= bounds::RANK {
            let allowed = format!("expected an axis of the golden, 0 to {}", bounds::RANK - 1);
            reader.problem(&at.place, format!("found axis {axis}"), allowed);
        } else if axes.contains(&axis) {
            reader.problem(&at.place, format!("axis {axis} appears twice"), "expected it once");
        } else {
            axes.push(axis);
        }
    }
    axes
}

/// The layout of a checkpoint; `None` when it has none or a wrong one, which is then reported.
fn layout(file: &CheckpointFile, reader: &mut Reader<'_>) -> Option<Vec<usize>> {
    let at = file.layout.get()?;
    let order = match parse_layout(&at.value) {
        Ok(order) => order,
        Err((message, allowed)) => {
            reader.problem(&at.place, message, allowed);
            return None;
        }
    };
    if let Some(shape) = file.shape.get()
        && shape.value.len() != order.len()
    {
        let message = format!("layout has {} axes, `shape` has {}", order.len(), shape.value.len());
        let problem =
            Problem::new(&at.place, message, "expected the same number").related(&shape.place, "`shape`");
        reader.problems.push(problem);
    }
    Some(order)
}

/// Reads a layout such as `n c h w -> n h w c`: for each axis of the port, the axis of the golden.
///
/// # Errors
///
/// What was found and what is allowed, when the two sides do not have the same axes, each once, in different orders.
pub fn parse_layout(text: &str) -> Result<Vec<usize>, (String, &'static str)> {
    let Some((golden, port)) = text.split_once("->") else {
        let message = format!("layout {} has no arrow", quoted(text));
        return Err((message, "expected the golden's axes and the port's, as in `n c h w -> n h w c`"));
    };
    let golden: Vec<&str> = golden.split_whitespace().collect();
    let port: Vec<&str> = port.split_whitespace().collect();
    if golden.len() > bounds::RANK || port.len() > bounds::RANK {
        return Err((format!("layout has more than {} axes", bounds::RANK), ""));
    }
    for (side, axes) in [("golden", &golden), ("port", &port)] {
        if let Some(twice) = axes.iter().enumerate().find(|(at, axis)| axes[..*at].contains(axis)) {
            let message = format!("axis {} appears twice on the {side}'s side", quoted(twice.1));
            return Err((message, "expected each axis once on each side"));
        }
    }
    for (side, axes, other) in [("port", &golden, &port), ("golden", &port, &golden)] {
        if let Some(axis) = axes.iter().find(|axis| !other.contains(axis)) {
            let message = format!("axis {} is not on the {side}'s side", quoted(axis));
            return Err((message, "expected the same axes on both sides; `squeeze` drops axes of length 1"));
        }
    }
    let order: Vec<usize> =
        port.iter().filter_map(|axis| golden.iter().position(|golden| golden == axis)).collect();
    if order.iter().copied().eq(0..order.len()) {
        return Err((format!("layout {} changes nothing", quoted(text)), "leave it out"));
    }
    Ok(order)
}

/// Reports changes to a golden where no golden is compared.
fn transforms(file: &CheckpointFile, has_gate: bool, reader: &mut Reader<'_>) {
    let given = [
        ("layout", file.layout.place()),
        ("squeeze", file.squeeze.place()),
        ("cast", file.cast.place()),
        ("positions", file.positions.place()),
    ];
    for (key, place) in given {
        let Some(place) = place else { continue };
        if let Some(against) = file.against.place() {
            let message = format!("`{key}` with `against`");
            let problem = Problem::new(place, message, "no golden is compared here: leave it out");
            reader.problems.push(problem.related(against, "`against`"));
        } else if !has_gate {
            reader.problem(
                place,
                format!("`{key}` without a value gate"),
                "no golden is compared here: leave it out",
            );
        }
    }
    if let (Some(cast), Some(dtype)) = (file.cast.get(), file.dtype.get())
        && cast.value != dtype.value
    {
        let message = format!("`cast` is {}, `dtype` is {}", cast.value, dtype.value);
        let problem = Problem::new(&cast.place, message, "expected the dtype that the port must produce");
        reader.problems.push(problem.related(&dtype.place, "`dtype`"));
    }
}

fn gate_is_broken(file: &CheckpointFile) -> bool {
    let numbers = [&file.rtol, &file.atol, &file.noise].iter().any(|key| !key.is_absent());
    numbers || !file.policy.is_absent() || !file.compare.is_absent()
}
