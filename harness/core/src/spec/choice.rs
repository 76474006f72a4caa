//! The keys of a checkpoint that is judged as choices, and the checkpoints that it names.

use std::ops::Range;

use super::checkpoints::{Checkpoint, Checkpoints};
use super::decode::{Maybe, Reader};
use super::file::CheckpointFile;
use super::keywords::Compare;
use super::problem::{Problem, SourceSpan, quoted};
use super::rules::tolerance;
use crate::gate::{DistributionLimits, Gate, TopK};
use crate::text::suggest::did_you_mean;

/// The most ids of `topk`.
const MOST_TOP_K: u32 = 1000;
/// How many ids a golden of the most probable ones can have.
const TOP: Range<u32> = 2..65_537;

/// The gate of `compare`; `None` when the key is absent or something beside it is wrong, which is then reported.
pub(super) fn gate(file: &CheckpointFile, reader: &mut Reader<'_>) -> Option<Gate> {
    let at = file.compare.get()?;
    if let Some(against) = file.against.place() {
        let allowed = "expected a tolerance: another checkpoint is no reference for a choice";
        let problem = Problem::new(&at.place, "`compare` with `against`", allowed);
        reader.problems.push(problem.related(against, "`against`"));
        return None;
    }
    let is_logits = at.value == Compare::Distribution;
    if let Some(dtype) = file.dtype.get()
        && is_logits != dtype.value.is_float()
    {
        let message = format!("`compare: {}` on {}", at.value, dtype.value);
        let allowed =
            if is_logits { "expected logits, which are floats" } else { "expected ids, which are integers" };
        reader.problems.push(Problem::new(&at.place, message, allowed).related(&dtype.place, "`dtype`"));
        return None;
    }
    let needed = |key: &str, present: bool, allowed: &str, reader: &mut Reader<'_>| {
        if !present {
            reader.problem(&at.place, format!("`compare: {}` without `{key}`", at.value), allowed.to_owned());
        }
        present
    };
    match at.value {
        Compare::Distribution => limits(file, &at.place, reader).map(Gate::Distribution),
        Compare::Tokens => {
            let why = "expected the checkpoint of the logits, whose golden tells a tie from a mistake";
            let named = needed("with", !file.with.is_absent(), why, reader);
            let why = "expected how many floors two logits may be apart in a tie, e.g. 8";
            (needed("ties", !file.ties.is_absent(), why, reader) && named).then_some(())?;
            Some(Gate::Tokens { ties: ties(&file.ties, reader)? })
        }
        Compare::Set if file.ties.is_absent() && file.scores.is_absent() => Some(Gate::Set { ties: None }),
        Compare::Set => {
            let why = "expected the checkpoint of the scores, whose golden tells a tie from a mistake";
            let named = needed("scores", !file.scores.is_absent(), why, reader);
            let why = "expected how many floors two scores may be apart in a tie, e.g. 8";
            (needed("ties", !file.ties.is_absent(), why, reader) && named).then_some(())?;
            Some(Gate::Set { ties: Some(ties(&file.ties, reader)?) })
        }
        Compare::Text => Some(Gate::Text),
    }
}

fn ties(key: &Maybe<f64>, reader: &mut Reader<'_>) -> Option<f64> {
    let at = key.get()?;
    let right = at.value.is_finite() && at.value > 0.0;
    if !right {
        reader.problem(&at.place, format!("found ties {}", at.value), "expected a finite number above 0");
    }
    right.then_some(at.value)
}

fn limits(file: &CheckpointFile, place: &SourceSpan, reader: &mut Reader<'_>) -> Option<DistributionLimits> {
    if file.kl.is_absent() && file.top1.is_absent() && file.topk.is_absent() {
        let allowed = "expected `kl`, `top1` or `topk`: limits have no default";
        reader.problem(place, "`compare: distribution` without a limit", allowed);
        return None;
    }
    let before = reader.problems.len();
    let mut found = DistributionLimits::default();
    if let Some(kl) = file.kl.get() {
        let mut limit = |key: &Maybe<f64>| key.get().filter(|at| tolerance(at, reader)).map(|at| at.value);
        (found.kl_mean, found.kl_p99, found.kl_max) =
            (limit(&kl.value.mean), limit(&kl.value.p99), limit(&kl.value.max));
        if [&kl.value.mean, &kl.value.p99, &kl.value.max].iter().all(|key| key.is_absent()) {
            reader.problem(&kl.place, "`kl` is empty", "expected `mean`, `p99` or `max`");
        }
    }
    let mut share = |key: &Maybe<f64>, name: &str| {
        let at = key.get()?;
        if !(at.value > 0.0 && at.value <= 1.0) {
            reader.problem(
                &at.place,
                format!("found {name} {}", at.value),
                "expected a share above 0, up to 1",
            );
        }
        Some(at.value)
    };
    found.top1 = share(&file.top1, "top1");
    if let Some(topk) = file.topk.value() {
        let overlap = share(&topk.overlap, "overlap");
        found.topk = topk.k.value().zip(overlap).map(|(&k, overlap)| TopK { k, overlap });
        if let Some(k) = topk.k.get()
            && !(1..=MOST_TOP_K).contains(&k.value)
        {
            reader.problem(&k.place, format!("found k {}", k.value), format!("expected 1 to {MOST_TOP_K}"));
        }
    }
    found.top = file.top.value().copied();
    if let Some(top) = file.top.get() {
        if !TOP.contains(&top.value) {
            let allowed = format!("expected {} to {}", TOP.start, TOP.end - 1);
            reader.problem(&top.place, format!("found top {}", top.value), allowed);
        }
        if let Some(topk) = found.topk.filter(|topk| topk.k > top.value) {
            let message = format!("`topk` compares {} ids, but the golden has {}", topk.k, top.value);
            reader.problem(&top.place, message, "expected at least as many");
        }
        for (key, place) in
            [("layout", file.layout.place()), ("squeeze", file.squeeze.place()), ("cast", file.cast.place())]
        {
            if let Some(place) = place {
                let allowed = "the golden of the most probable ids has a form of its own: leave it out";
                reader.problem(place, format!("`{key}` with `top`"), allowed);
            }
        }
    }
    (reader.problems.len() == before && file.broken_limit().is_none()).then_some(found)
}

impl CheckpointFile {
    /// A limit that could not be read, which has been reported.
    fn broken_limit(&self) -> Option<&SourceSpan> {
        let broken =
            [self.kl.is_broken(), self.top1.is_broken(), self.topk.is_broken(), self.top.is_broken()];
        broken.contains(&true).then(|| self.compare.place()).flatten()
    }
}

/// Reports keys that mean nothing under this `compare`, or without one.
pub(super) fn misplaced(file: &CheckpointFile, reader: &mut Reader<'_>) {
    use Compare::{Distribution, Set, Tokens};
    let keys: [(&str, Option<&SourceSpan>, &[Compare]); 7] = [
        ("kl", file.kl.place(), &[Distribution]),
        ("top1", file.top1.place(), &[Distribution]),
        ("topk", file.topk.place(), &[Distribution]),
        ("top", file.top.place(), &[Distribution]),
        ("ties", file.ties.place(), &[Tokens, Set]),
        ("with", file.with.place(), &[Tokens, Set]),
        ("scores", file.scores.place(), &[Set]),
    ];
    if file.compare.is_broken() {
        return;
    }
    for (key, place, goes_with) in keys {
        let Some(place) = place else { continue };
        let fits = file.compare.value().is_some_and(|compare| goes_with.contains(compare));
        if !fits {
            let with: Vec<String> = goes_with.iter().map(|word| format!("`compare: {word}`")).collect();
            let message = match file.compare.value() {
                Some(compare) => format!("`{key}` with `compare: {compare}`"),
                None => format!("`{key}` without `compare`"),
            };
            reader.problem(place, message, format!("expected it beside {}", with.join(" or ")));
        }
    }
}

/// Checks the checkpoints that choices name, and tells each checkpoint of weights whose ids they belong to. `places` are
/// those of the names in the file.
pub(super) fn resolve(checkpoints: &mut Checkpoints, places: &[&SourceSpan], reader: &mut Reader<'_>) {
    let mut matched: Vec<(usize, String)> = Vec::new();
    for (index, checkpoint) in checkpoints.iter().enumerate() {
        let mut fail = |name: &str, message: String, allowed: String| {
            let message =
                format!("checkpoint {} names {}, {message}", quoted(&checkpoint.name), quoted(name));
            reader.problem(places[index], message, allowed);
        };
        for name in [&checkpoint.scores, &checkpoint.weights].into_iter().flatten() {
            let Some(other) = checkpoints.position(name) else {
                let near = did_you_mean(name, checkpoints.iter().map(|other| other.name.as_str()));
                fail(
                    name,
                    format!("which is no checkpoint{near}"),
                    "expected a checkpoint of this spec".to_owned(),
                );
                continue;
            };
            let found = &checkpoints[other];
            let is_scores = checkpoint.scores.as_ref() == Some(name);
            let is_float = found.dtype.is_none_or(|dtype| dtype.is_float());
            if !found.needs_golden() || !is_float || found.name == checkpoint.name {
                let allowed = "expected a checkpoint of floats with a gate and a golden";
                fail(name, "which has no golden of floats".to_owned(), allowed.to_owned());
            } else if found.hits != checkpoint.hits {
                let message = format!("which has {} hits, not {}", found.hits, checkpoint.hits);
                fail(name, message, "expected the same number of hits".to_owned());
            } else if is_scores {
                continue;
            } else if other < index {
                let allowed =
                    "expected the ids first: their order decides which weights are compared".to_owned();
                fail(name, "which is declared before".to_owned(), allowed);
            } else if found.gate.as_ref().is_some_and(Gate::is_of_choices) {
                let allowed = "expected weights with `noise`, `policy` or `rtol` and `atol`".to_owned();
                fail(name, "which is judged as choices itself".to_owned(), allowed);
            } else if found.level < checkpoint.level {
                let message = format!("whose level {} is below {}", found.level, checkpoint.level);
                fail(name, message, "expected the level of the ids, or a higher one".to_owned());
            } else if let Some((_, first)) = matched.iter().find(|(at, _)| *at == other) {
                let message = format!("whose ids are already those of {}", quoted(first));
                fail(name, message, "expected weights of its own".to_owned());
            } else {
                matched.push((other, checkpoint.name.clone()));
            }
        }
    }
    if !matched.is_empty() {
        let mut list: Vec<Checkpoint> = checkpoints.to_vec();
        matched.into_iter().for_each(|(at, ids)| list[at].ids = Some(ids));
        *checkpoints = list.into_iter().collect();
    }
}

/// Reports an injection of ids without the weights that belong to them: the port would combine the golden's ids with its
/// own weights, which may be in another order.
pub(super) fn injected_alone(
    injected: &[String],
    checkpoints: &Checkpoints,
    place: Option<&SourceSpan>,
    reader: &mut Reader<'_>,
) {
    let Some(place) = place else { return };
    let has = |name: &String| injected.contains(name);
    for checkpoint in checkpoints.iter().filter(|checkpoint| has(&checkpoint.name)) {
        if let Some(other) =
            [&checkpoint.weights, &checkpoint.ids].into_iter().flatten().find(|name| !has(name))
        {
            let message = format!("{} is injected without {}", quoted(&checkpoint.name), quoted(other));
            reader.problem(place, message, "expected both: the weights belong to the ids, in their order");
            return;
        }
    }
}
