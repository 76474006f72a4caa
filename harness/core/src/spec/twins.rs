//! The rules for twins: what they are compared with, in which checkpoints, and how near both must be.

use std::sync::Arc;

use super::bounds;
use super::checkpoints::{Checkpoint, Checkpoints};
use super::counterpart::Counterpart;
use super::decode::{At, Maybe, Reader};
use super::expand::Expanded;
use super::file::{CheckpointFile, SpecFile, TwinFile, TwinPartFile};
use super::gate::{at_least, gate, why};
use super::keywords::{Device, TwinGate};
use super::model::{MAIN, Twin};
use super::policy::Policies;
use super::problem::{SourceSpan, quoted};
use super::rules::{names, shared};
use super::values::PartFile;
use crate::gate::Gate;
use crate::tensor::Dtype;
use crate::text::glob::matches;
use crate::text::suggest::did_you_mean;

/// Checks the twins of a spec, in their order in the file.
pub(super) fn twins(
    file: &SpecFile,
    expanded: &Expanded,
    inputs: &[String],
    policies: &Policies,
    reader: &mut Reader<'_>,
) -> Vec<Twin> {
    let Some(at) = file.twins.get() else { return Vec::new() };
    if at.value.0.is_empty() {
        reader.problem(&at.place, "`twins` is empty", "expected at least one; leave the key out otherwise");
    }
    if let Some(inject) = file.inject.place() {
        let allowed = "a twin is compared with a free run; remove one of the two";
        reader.problem(inject, "`inject` in a spec with `twins`", allowed);
    }
    let mut made: Vec<Twin> = Vec::new();
    for (name, twin) in &at.value.0 {
        twin_name(name, reader);
        let Some(of) = twin.value.of.get() else { continue };
        let other = made.iter().find(|other| other.name == of.value).map(|other| &other.checkpoints);
        let Some(all) = other.or((of.value == MAIN).then_some(&expanded.checkpoints)) else {
            let names = made.iter().map(|twin| twin.name.as_str());
            let near = did_you_mean(&of.value, names.chain([MAIN]));
            let message = format!("no run before this twin is called {}{near}", quoted(&of.value));
            reader.problem(&of.place, message, "expected `main`, or a twin that is declared before");
            continue;
        };
        let inputs = match twin.value.inputs.is_absent() {
            true => inputs.to_vec(),
            false => names(&twin.value.inputs, "input", reader),
        };
        // With a broken checkpoint, names would be missing.
        let checkpoints = match expanded.complete {
            true => Checker {
                twin,
                of: &of.value,
                main: &expanded.checkpoints,
                inputs: &inputs,
                policies,
                reader,
            }
            .checkpoints(all),
            false => Checkpoints::default(),
        };
        made.push(Twin {
            name: name.value.clone(),
            of: of.value.clone(),
            about: twin.value.about.value().cloned(),
            device: twin.value.device.value().or(file.device.value()).copied().unwrap_or(Device::Default),
            inputs,
            checkpoints,
            same_port: false,
        });
    }
    made
}

fn twin_name(name: &At<String>, reader: &mut Reader<'_>) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let text = &name.value;
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) || text.starts_with(['_', '-']) {
        let message = format!("{} cannot be a twin's name", quoted(text));
        reader.problem(&name.place, message, "expected up to 64 lower-case letters, digits, `_` and `-`");
    } else if text == MAIN {
        reader.problem(&name.place, "`main` cannot be a twin's name", "it is the main run of the spec");
    }
}

/// The keys that a twin and each of its parts have.
struct Keys<'f> {
    place: &'f SourceSpan,
    gate: &'f Maybe<TwinGate>,
    rtol: &'f Maybe<f64>,
    atol: &'f Maybe<f64>,
    policy: &'f Maybe<String>,
    noise: &'f Maybe<f64>,
    at_least: &'f Maybe<f64>,
    why: &'f Maybe<String>,
    slice: &'f Maybe<PartFile>,
    of_slice: &'f Maybe<PartFile>,
    along: &'f Maybe<u32>,
    hits: &'f Maybe<u32>,
    mask: &'f Maybe<String>,
}

macro_rules! keys {
    ($at:expr) => {{
        let At { value, place } = $at;
        Keys {
            place,
            gate: &value.gate,
            rtol: &value.rtol,
            atol: &value.atol,
            policy: &value.policy,
            noise: &value.noise,
            at_least: &value.at_least,
            why: &value.why,
            slice: &value.slice,
            of_slice: &value.of_slice,
            along: &value.along,
            hits: &value.hits,
            mask: &value.mask,
        }
    }};
}

impl Keys<'_> {
    fn has_gate(&self) -> bool {
        let numbers = [self.rtol, self.atol, self.noise].iter().any(|key| !key.is_absent());
        numbers || !self.policy.is_absent() || !self.gate.is_absent()
    }

    /// The gate as a checkpoint of this dtype would have it.
    fn as_checkpoint(&self, dtype: Option<Dtype>) -> CheckpointFile {
        let given = |dtype| Maybe::Given(At { value: dtype, place: self.place.clone() });
        CheckpointFile {
            // Without a declared dtype, that of the other run counts.
            dtype: dtype.map_or_else(|| Maybe::Broken(self.place.clone()), given),
            rtol: self.rtol.clone(),
            atol: self.atol.clone(),
            policy: self.policy.clone(),
            noise: self.noise.clone(),
            at_least: self.at_least.clone(),
            why: self.why.clone(),
            ..CheckpointFile::default()
        }
    }
}

/// Checks one twin.
struct Checker<'c, 'r, 's> {
    twin: &'c At<TwinFile>,
    of: &'c str,
    /// The checkpoints of the main run, which may have goldens.
    main: &'c Checkpoints,
    inputs: &'c [String],
    policies: &'c Policies,
    reader: &'r mut Reader<'s>,
}

impl Checker<'_, '_, '_> {
    /// The checkpoints of the twin, from those of the run that it is compared with.
    fn checkpoints(&mut self, all: &Checkpoints) -> Checkpoints {
        let twin = &self.twin.value;
        let (only, except) = (self.patterns(&twin.only, all), self.patterns(&twin.except, all));
        let unseen = self.patterns(&twin.unseen, all);
        let parts: Vec<&At<TwinPartFile>> = twin.parts.value().into_iter().flatten().collect();
        let parts: Vec<(Vec<&str>, Keys<'_>)> =
            parts.iter().map(|at| (self.patterns(&at.value.checkpoints, all), keys!(*at))).collect();
        let own = keys!(self.twin);
        let names = |patterns: &[&str], name: &str| patterns.iter().any(|pattern| matches(pattern, name));
        let is_compared = |name: &str| (twin.only.is_absent() || names(&only, name)) && !names(&except, name);
        let mut used = vec![false; parts.len()];
        let mut made = Vec::new();
        for checkpoint in all.iter().filter(|checkpoint| is_compared(&checkpoint.name)) {
            let part = parts.iter().position(|(patterns, _)| names(patterns, &checkpoint.name));
            if let Some(part) = part {
                used[part] = true;
            }
            let keys = part.map_or(&own, |part| &parts[part].1);
            if names(&unseen, &checkpoint.name) {
                made.push(unseen_checkpoint(checkpoint, keys));
            } else {
                made.extend(self.checkpoint(checkpoint, keys, &own));
            }
        }
        for (_, (_, keys)) in used.iter().zip(&parts).filter(|(used, _)| !**used) {
            let allowed = "expected a checkpoint that is compared, and that no part before names";
            self.reader.problem(keys.place, "this part applies to no checkpoint", allowed);
        }
        self.positions(&made);
        if made.iter().all(Checkpoint::is_unseen) && self.reader.problems.is_empty() {
            let allowed = "expected at least one checkpoint that both runs reach and that can be evaluated";
            self.reader.problem(&self.twin.place, "the twin compares nothing", allowed);
        }
        self.choices(&mut made, all);
        made.into_iter().collect()
    }

    /// Reports checkpoints whose slots have their positions at a checkpoint that the twin does not compare.
    fn positions(&mut self, made: &[Checkpoint]) {
        for checkpoint in made.iter().filter(|checkpoint| !checkpoint.is_unseen()) {
            let Some(positions) = &checkpoint.positions else { continue };
            let is_compared = |other: &&Checkpoint| other.name == positions.tap && !other.is_unseen();
            let problem = match made.iter().find(is_compared) {
                None => "which the twin does not compare".to_owned(),
                Some(holder) if holder.hits != checkpoint.hits => {
                    format!("which has {} hits in the twin, not {}", holder.hits, checkpoint.hits)
                }
                Some(_) => continue,
            };
            let (name, tap) = (quoted(&checkpoint.name), quoted(&positions.tap));
            let message = format!("{name} has the positions of its slots at {tap}, {problem}");
            let allowed = "compare both in the same way, or neither";
            self.reader.problem(&self.twin.place, message, allowed);
            return;
        }
    }

    /// Fits the checkpoints of choices to the twin: the scores are those of the other run, and weights are compared by
    /// position where their ids are not compared as sets.
    fn choices(&mut self, made: &mut [Checkpoint], all: &Checkpoints) {
        let are_sets = |name: &String| {
            let is_set = |gate: &Gate| matches!(gate, Gate::Set { .. });
            made.iter().any(|other| other.name == *name && other.gate.as_ref().is_some_and(is_set))
        };
        let by_id: Vec<bool> = made.iter().map(|one| one.ids.as_ref().is_some_and(are_sets)).collect();
        for (checkpoint, by_id) in made.iter_mut().zip(by_id) {
            checkpoint.ids = checkpoint.ids.take().filter(|_| by_id);
            let is_of_ids = checkpoint.gate.as_ref().is_some_and(Gate::is_of_ids);
            checkpoint.scores = checkpoint.scores.take().filter(|_| is_of_ids);
            checkpoint.weights = checkpoint.weights.take().filter(|_| is_of_ids);
            if let Some(scores) = checkpoint.scores.as_ref().filter(|scores| all.position(scores).is_none()) {
                let message = format!(
                    "the ties of {} need {}, which `{}` does not compare",
                    quoted(&checkpoint.name),
                    quoted(scores),
                    self.of
                );
                let allowed = "expected it among the checkpoints of that run, or this one under `except`";
                self.reader.problem(&self.twin.place, message, allowed);
            }
        }
    }

    /// The patterns of a list. Reports those that name no checkpoint.
    fn patterns<'p>(&mut self, list: &'p Maybe<Vec<At<String>>>, all: &Checkpoints) -> Vec<&'p str> {
        let list = list.value().map_or(&[][..], Vec::as_slice);
        for at in list {
            if !all.iter().any(|checkpoint| matches(&at.value, &checkpoint.name)) {
                let near = did_you_mean(&at.value, all.iter().map(|checkpoint| checkpoint.name.as_str()));
                let message = format!("{} names no checkpoint of `{}`{near}", quoted(&at.value), self.of);
                self.reader.problem(&at.place, message, "expected a name, or a pattern with `*`");
            }
        }
        list.iter().map(|at| at.value.as_str()).collect()
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint, keys: &Keys<'_>, own: &Keys<'_>) -> Option<Checkpoint> {
        // A part has the gate of its twin unless it names one.
        let gates = if keys.has_gate() { keys } else { own };
        let (gate, why) = self.gate(checkpoint, gates)?;
        let as_file = gates.as_checkpoint(checkpoint.dtype);
        let against = At { value: self.of.to_owned(), place: gates.place.clone() };
        let as_file = CheckpointFile { against: Maybe::Given(against), ..as_file };
        let at_least = at_least(&as_file, Some(&gate), self.reader);
        let counterpart = self.counterpart(keys);
        if let (Some(along), Some(_)) = (keys.along.get(), &checkpoint.positions) {
            let name = quoted(&checkpoint.name);
            let message = format!("`along` for checkpoint {name}, whose slots are matched by position");
            let allowed = "each hit is the whole state of the cache; name it under `except`";
            self.reader.problem(&along.place, message, allowed);
            return None;
        }
        Some(Checkpoint {
            hits: self.hits(checkpoint, keys),
            gate: Some(gate),
            why,
            at_least,
            gated: true,
            shape: None,
            range: None,
            squeeze: Vec::new(),
            layout: None,
            cast: None,
            against: None,
            counterpart: Some(Arc::new(counterpart)),
            ..checkpoint.clone()
        })
    }

    /// The gate of a checkpoint, and its reason; `None` when there is none, which is then reported.
    fn gate(&mut self, checkpoint: &Checkpoint, keys: &Keys<'_>) -> Option<(Gate, Option<Arc<str>>)> {
        const GATES: &str = "expected `gate: same`, `noise`, `policy`, or `rtol` with `atol`";
        let name = quoted(&checkpoint.name);
        let Some(same) = keys.gate.get() else {
            if !keys.has_gate() {
                self.reader.problem(keys.place, "the twin has no gate", GATES);
                return None;
            }
            let of_main = self.main.position(&checkpoint.name).map(|index| &self.main[index]);
            let has_floor = of_main.is_some_and(Checkpoint::needs_golden);
            if let (Some(noise), false) = (keys.noise.get(), has_floor) {
                let message = format!("`noise` for checkpoint {name}, which has no golden and so no floor");
                let allowed = "name it in a part with `policy`, or `rtol` with `atol`";
                self.reader.problem(&noise.place, message, allowed);
                return None;
            }
            let as_file = keys.as_checkpoint(checkpoint.dtype);
            let gate = gate(&as_file, keys.place, self.policies, self.reader)?;
            why(&as_file, keys.place, Some(&gate), self.policies, self.reader);
            return Some((gate, shared(keys.why)));
        };
        let others = [keys.rtol, keys.atol, keys.noise].iter().any(|key| !key.is_absent());
        if others || !keys.policy.is_absent() {
            self.reader.problem(&same.place, "`gate: same` with another gate", "expected exactly one gate");
            return None;
        }
        let Some(gate) = checkpoint.gate.clone() else {
            let message = format!("`gate: same` for checkpoint {name}, which has no value gate");
            self.reader.problem(&same.place, message, "name it in a part with a gate, or under `except`");
            return None;
        };
        Some((gate.between_runs(), checkpoint.why.clone()))
    }

    fn counterpart(&mut self, keys: &Keys<'_>) -> Counterpart {
        if let Some(mask) = keys.mask.get()
            && !self.inputs.contains(&mask.value)
        {
            let near = did_you_mean(&mask.value, self.inputs.iter().map(String::as_str));
            let message = format!("no input is called {}{near}", quoted(&mask.value));
            self.reader.problem(
                &mask.place,
                message,
                "expected one of the `inputs` of the twin or of the spec",
            );
        }
        if let Some(along) = keys.along.get()
            && along.value as usize >= bounds::RANK
        {
            let allowed = format!("expected an axis, 0 to {}", bounds::RANK - 1);
            self.reader.problem(&along.place, format!("found axis {}", along.value), allowed);
        }
        if let (Some(along), true) = (keys.along.get(), keys.hits.is_absent()) {
            let allowed = "expected how many hits make up the other run's tensor";
            self.reader.problem(&along.place, "`along` without `hits`", allowed);
        }
        let part = |part: &Maybe<PartFile>| part.value().map(|part| part.0.clone());
        Counterpart {
            slice: part(keys.slice),
            of_slice: part(keys.of_slice),
            along: keys.along.value().map(|&axis| axis as usize),
            mask: keys.mask.value().cloned(),
            unseen: false,
        }
    }

    fn hits(&mut self, checkpoint: &Checkpoint, keys: &Keys<'_>) -> u32 {
        let Some(hits) = keys.hits.get() else { return checkpoint.hits };
        let most = if keys.along.is_absent() { checkpoint.hits } else { bounds::HITS };
        if !(1..=most).contains(&hits.value) {
            let message = format!("found hits {} for checkpoint {}", hits.value, quoted(&checkpoint.name));
            let allowed = match keys.along.is_absent() {
                true => format!("expected at most {most}, as often as `{}`; `along` joins hits", self.of),
                false => format!("expected 1 to {most}"),
            };
            self.reader.problem(&hits.place, message, allowed);
        }
        hits.value
    }
}

/// A checkpoint inside compiled code, which the twin reaches at most.
fn unseen_checkpoint(checkpoint: &Checkpoint, keys: &Keys<'_>) -> Checkpoint {
    Checkpoint {
        gate: None,
        at_least: None,
        gated: false,
        shape: None,
        range: None,
        squeeze: Vec::new(),
        layout: None,
        cast: None,
        against: None,
        why: shared(keys.why),
        counterpart: Some(Arc::new(Counterpart { unseen: true, ..Counterpart::default() })),
        ..checkpoint.clone()
    }
}
