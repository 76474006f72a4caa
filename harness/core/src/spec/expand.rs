//! Expanding loops into checkpoints, one per combination of axis values.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bounds;
use super::checkpoint::Draft;
use super::checkpoints::{Checkpoint, Checkpoints};
use super::choice;
use super::decode::{At, Reader};
use super::positions::Positions;
use super::positions_key::PositionsDraft;
use super::problem::{Problem, SourceSpan, quoted};
use super::rules::name_fault;
use super::template::NameTemplate;
use crate::text::suggest::did_you_mean;

/// The trials that every spec has; no checkpoint may have such a name.
pub const RESERVED: [&str; 6] = ["spec", "fixture", "weights", "adapters", "stats", "memory"];

/// All checkpoints of a spec.
pub(super) struct Expanded {
    pub(super) checkpoints: Checkpoints,
    /// Names of loops, as written, with the range of their checkpoints.
    pub(super) loops: BTreeMap<String, Range<usize>>,
    /// Whether every checkpoint was expanded; `false` after a mistake.
    pub(super) complete: bool,
}

/// Expands every draft in order, within the limits of a spec.
pub(super) fn expand(drafts: Vec<Draft>, reader: &mut Reader<'_>) -> Expanded {
    let mut expander = Expander {
        expanded: Expanded { checkpoints: Checkpoints::default(), loops: BTreeMap::new(), complete: true },
        places: Vec::new(),
        combinations: 0,
    };
    for draft in &drafts {
        let start = expander.expanded.checkpoints.len();
        let whole = expander.draft(draft, reader).is_some();
        expander.expanded.complete &= whole;
        if !draft.axes.is_empty() {
            let end = expander.expanded.checkpoints.len();
            expander.expanded.loops.insert(draft.written.clone(), start..end);
        }
    }
    expander.hits(reader);
    let Expander { mut expanded, places, .. } = expander;
    // After a mistake, names may be missing.
    if expanded.complete {
        choice::resolve(&mut expanded.checkpoints, &places, reader);
    }
    expanded
}

struct Expander<'d> {
    expanded: Expanded,
    /// The place of each checkpoint in the file.
    places: Vec<&'d SourceSpan>,
    combinations: usize,
}

impl<'d> Expander<'d> {
    /// `None` after reporting a problem.
    fn draft(&mut self, draft: &'d Draft, reader: &mut Reader<'_>) -> Option<()> {
        let template = draft.name.as_ref()?;
        // Counted before anything is built, so that a huge range costs nothing.
        let lengths: Vec<usize> = draft.axes.iter().map(|(_, axis)| axis.len()).collect();
        let count = lengths.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
        let total = count.and_then(|count| self.combinations.checked_add(count));
        let Some(total) = total.filter(|&total| total <= bounds::COMBINATIONS) else {
            let message = "the loops have too many combinations".to_owned();
            let allowed = format!("expected at most {} in a spec", bounds::COMBINATIONS);
            reader.problem(&draft.place, message, allowed);
            return None;
        };
        self.combinations = total;
        let mut made = 0;
        let mut values = vec![0; draft.axes.len()];
        for combination in 0..count.unwrap_or(0) {
            // The last axis runs fastest.
            let mut rest = combination;
            for (index, (_, axis)) in draft.axes.iter().enumerate().rev() {
                values[index] = axis.at(rest % lengths[index]);
                rest /= lengths[index];
            }
            if let Some((condition, at)) = &draft.when {
                match condition.holds(&values) {
                    Ok(false) => continue,
                    Ok(true) => {}
                    Err(error) => {
                        let place = reader.within(&at.place, &at.value, error.at);
                        let message = format!("`when`: {} for {}", error.message, bindings(draft, &values));
                        reader.problem(&place, message, "");
                        return None;
                    }
                }
            }
            if self.expanded.checkpoints.len() >= bounds::CHECKPOINTS {
                let message = format!("the spec has more than {} checkpoints", bounds::CHECKPOINTS);
                reader.problem(&draft.place, message, "split it, or select fewer with `when`");
                return None;
            }
            self.checkpoint(draft, template.value.fill(&values), &values, reader)?;
            made += 1;
        }
        if let (0, Some((_, at))) = (made, &draft.when) {
            let message = format!("`when` holds for none of {} combinations", count.unwrap_or(0));
            reader.problem(&at.place, message, "expected at least one, or nothing is checked");
            return None;
        }
        Some(())
    }

    fn checkpoint(
        &mut self,
        draft: &'d Draft,
        name: String,
        values: &[i64],
        reader: &mut Reader<'_>,
    ) -> Option<()> {
        if let Some(allowed) = name_fault(&name) {
            let message = format!("{} cannot be a checkpoint's name", quoted(&name));
            reader.problem(&draft.place, message, allowed);
            return None;
        }
        if RESERVED.contains(&name.as_str()) {
            let names = RESERVED.map(|name| format!("`{name}`")).join(", ");
            let message = format!("checkpoint name `{name}` is reserved");
            reader.problem(&draft.place, message, format!("every spec has trials called {names}"));
            return None;
        }
        if let Some(first) = self.expanded.checkpoints.position(&name) {
            let message = format!("checkpoint {} is declared twice", quoted(&name));
            let problem = Problem::new(&draft.place, message, "expected another name")
                .related(self.places[first], "first declared here");
            reader.problems.push(problem);
            return None;
        }
        let against = match &draft.against {
            None => None,
            Some(template) => {
                let other = template.value.fill(values);
                if self.expanded.checkpoints.position(&other).is_none() {
                    let earlier = self.expanded.checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
                    let near = did_you_mean(&other, earlier);
                    let message = format!("no earlier checkpoint is called {}{near}", quoted(&other));
                    let allowed = "expected one that is declared before this one";
                    // The name may be that of a checkpoint left out because of another mistake.
                    if self.expanded.complete {
                        reader.problem(&template.place, message, allowed);
                    }
                    return None;
                }
                Some(other)
            }
        };
        let positions = match &draft.positions {
            None => None,
            Some(positions) => Some(self.positions(draft, positions, &name, values, reader)?),
        };
        self.places.push(&draft.place);
        let fill = |template: &Option<At<NameTemplate>>| template.as_ref().map(|at| at.value.fill(values));
        let (scores, weights) = (fill(&draft.scores), fill(&draft.weights));
        let checkpoint = Checkpoint { name, against, positions, scores, weights, ..draft.checkpoint.clone() };
        self.expanded.checkpoints.push(checkpoint);
        Some(())
    }

    /// The positions of a checkpoint with this name; `None` after reporting a problem.
    fn positions(
        &mut self,
        draft: &Draft,
        positions: &PositionsDraft,
        name: &str,
        values: &[i64],
        reader: &mut Reader<'_>,
    ) -> Option<Positions> {
        let own = Checkpoint { name: name.to_owned(), ..draft.checkpoint.clone() };
        let found = positions.resolve(&own, values, &self.expanded.checkpoints);
        match found {
            Ok(found) => Some(found),
            Err((message, allowed)) => {
                // The name may be that of a checkpoint left out because of another mistake.
                if self.expanded.complete {
                    reader.problem(&positions.place, message, allowed);
                }
                None
            }
        }
    }

    /// Reports checkpoints with the name of another one's later hit: these record as `name@1`, `name@2` and so on.
    fn hits(&self, reader: &mut Reader<'_>) {
        for (index, checkpoint) in self.expanded.checkpoints.iter().enumerate() {
            let Some((name, hit)) = checkpoint.name.rsplit_once('@') else { continue };
            let Some(first) = self.expanded.checkpoints.position(name) else { continue };
            let hits = self.expanded.checkpoints[first].hits;
            if hit.parse::<u32>().is_ok_and(|hit| hit < hits) {
                let message = format!("checkpoint {} is declared twice", quoted(&checkpoint.name));
                let allowed = "expected another name, or fewer `hits` there";
                let what = format!("uses this name for one of its {hits} hits");
                let problem = Problem::new(self.places[index], message, allowed);
                reader.problems.push(problem.related(self.places[first], what));
            }
        }
    }
}

fn bindings(draft: &Draft, values: &[i64]) -> String {
    let pairs: Vec<String> =
        draft.axes.iter().zip(values).map(|((name, _), value)| format!("{} = {value}", name.value)).collect();
    pairs.join(", ")
}
