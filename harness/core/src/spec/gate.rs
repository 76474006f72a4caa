//! The value gate of a checkpoint: at most one, and a reason where it is loose.

use super::bounds;
use super::choice;
use super::decode::Reader;
use super::file::CheckpointFile;
use super::policy::{POLICIES, Policies, PoliciesState};
use super::problem::{Problem, SourceSpan, quoted};
use super::rules::tolerance;
use crate::gate::Gate;
use crate::tensor::Dtype;
use crate::text::suggest::did_you_mean;

/// The gate; `None` when the checkpoint has none or a wrong one, which is then reported.
pub(super) fn gate(
    file: &CheckpointFile,
    place: &SourceSpan,
    policies: &Policies,
    reader: &mut Reader<'_>,
) -> Option<Gate> {
    let given: Vec<(&str, &SourceSpan)> = [
        ("`rtol` and `atol`", file.rtol.place().or(file.atol.place())),
        ("`policy`", file.policy.place()),
        ("`noise`", file.noise.place()),
        ("`compare`", file.compare.place()),
    ]
    .into_iter()
    .filter_map(|(what, place)| Some((what, place?)))
    .collect();
    if let [first, second, ..] = given[..] {
        let message = format!("{} and {} in one checkpoint", first.0, second.0);
        let allowed = "expected exactly one of `rtol` with `atol`, `policy`, `noise`, `compare`";
        reader.problems.push(Problem::new(second.1, message, allowed).related(first.1, first.0));
        return None;
    }
    choice::misplaced(file, reader);
    if given.is_empty() {
        no_gate(file, place, reader);
        return None;
    }
    if file.dtype.is_absent() {
        let allowed = "expected the dtype that the port must produce, since values are compared";
        reader.problem(place, "key `dtype` is missing in a checkpoint with a value gate", allowed);
    }
    tolerances(file, reader)
        .or_else(|| named(file, policies, reader))
        .or_else(|| noise(file, reader))
        .or_else(|| choice::gate(file, reader))
}

fn no_gate(file: &CheckpointFile, place: &SourceSpan, reader: &mut Reader<'_>) {
    if let Some(against) = file.against.place() {
        let allowed = "expected `rtol` with `atol`, or `policy`: how near the two must be";
        reader.problem(against, "`against` without a value gate", allowed);
    } else if file.shape.is_absent() && file.range.is_absent() {
        let allowed =
            "expected `rtol` with `atol`, `policy`, `noise` or `compare`, or at least a `shape` or a `range`";
        reader.problem(place, "the checkpoint checks nothing", allowed);
    }
}

fn tolerances(file: &CheckpointFile, reader: &mut Reader<'_>) -> Option<Gate> {
    for (missing, given, place) in
        [("atol", "rtol", (&file.atol, &file.rtol)), ("rtol", "atol", (&file.rtol, &file.atol))]
    {
        if let (true, Some(place)) = (place.0.is_absent(), place.1.place()) {
            let message = format!("`{given}` without `{missing}`");
            reader.problem(place, message, "expected both: tolerances have no default, but may be 0");
        }
    }
    let (rtol, atol) = (file.rtol.get(), file.atol.get());
    let right = rtol.is_none_or(|at| tolerance(at, reader)) & atol.is_none_or(|at| tolerance(at, reader));
    let (rtol, atol) = (rtol?.value, atol?.value);
    right.then_some(Gate::Tolerance { rtol, atol, policy: None })
}

fn named(file: &CheckpointFile, policies: &Policies, reader: &mut Reader<'_>) -> Option<Gate> {
    let at = file.policy.get()?;
    let file_name = policies.path.display();
    if let Some(policy) = policies.named.get(&at.value) {
        return Some(Gate::Tolerance {
            rtol: policy.rtol,
            atol: policy.atol,
            policy: Some(at.value.clone()),
        });
    }
    match policies.state {
        PoliciesState::Read => {
            let names = policies.named.keys().map(String::as_str);
            let near = did_you_mean(&at.value, names.clone());
            let all: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let allowed = format!("expected one of {} in `{file_name}`", all.join(", "));
            reader.problem(&at.place, format!("unknown policy {}{near}", quoted(&at.value)), allowed);
        }
        PoliciesState::Missing => {
            let message = format!("policy {} is used, but `{file_name}` does not exist", quoted(&at.value));
            reader.problem(&at.place, message, format!("write {POLICIES}, or give `rtol` and `atol` here"));
        }
        PoliciesState::Broken => {
            let message = format!("policy {} cannot be looked up", quoted(&at.value));
            reader.problem(
                &at.place,
                message,
                format!("`{file_name}` has problems of its own, fix it first"),
            );
        }
    }
    None
}

fn noise(file: &CheckpointFile, reader: &mut Reader<'_>) -> Option<Gate> {
    let at = file.noise.get()?;
    if !(at.value.is_finite() && at.value > 0.0) {
        reader.problem(&at.place, format!("found noise {}", at.value), "expected a finite number above 0");
        return None;
    }
    if let Some(dtype) = file.dtype.get()
        && dtype.value.epsilon().is_none()
    {
        let message = format!("`noise` on {}, which does not round", dtype.value);
        let problem = Problem::new(&at.place, message, "expected `policy` or `rtol` with `atol`");
        reader.problems.push(problem.related(&dtype.place, "`dtype`"));
    }
    if let Some(against) = file.against.place() {
        let message = "`noise` with `against`";
        let allowed = "expected `policy` or `rtol` with `atol`: another checkpoint has no floor";
        reader.problems.push(Problem::new(&at.place, message, allowed).related(against, "`against`"));
    }
    Some(Gate::Noise { k: at.value })
}

/// The least difference from the other checkpoint; `None` when the key is absent or wrong, which is then reported.
pub(super) fn at_least(file: &CheckpointFile, gate: Option<&Gate>, reader: &mut Reader<'_>) -> Option<f64> {
    let at = file.at_least.get()?;
    if file.against.is_absent() {
        let allowed = "expected `against`, the checkpoint that the actual must differ from";
        reader.problem(&at.place, "`at_least` without `against`", allowed);
        return None;
    }
    if !(at.value.is_finite() && at.value > 0.0) {
        let message = format!("found at_least {}", at.value);
        reader.problem(&at.place, message, "expected a finite number above 0; 0.01 is 1 %");
        return None;
    }
    // When no element may differ by more than `rtol` of itself, the whole tensor cannot either.
    if let Some(Gate::Tolerance { rtol, atol: 0.0, .. }) = gate
        && at.value >= *rtol
    {
        let message = format!("at_least {:e} is not below rtol {rtol:e}", at.value);
        let problem = Problem::new(&at.place, message, "expected less: no actual could satisfy both");
        let gate = file.rtol.place().or(file.policy.place());
        reader.problems.push(match gate {
            Some(place) => problem.related(place, "the gate"),
            None => problem,
        });
        return None;
    }
    Some(at.value)
}

/// Reports a gate that is off or loose without a `why`, and other conflicts between the gate and the keys beside it.
pub(super) fn why(
    file: &CheckpointFile,
    place: &SourceSpan,
    gate: Option<&Gate>,
    policies: &Policies,
    reader: &mut Reader<'_>,
) {
    if let Some(at) = file.gate.get()
        && at.value
    {
        reader.problem(
            &at.place,
            "found `gate: true`",
            "expected `gate: false`; a gate is on when the key is absent",
        );
    }
    if let Some(at) = file.why.get()
        && at.value.trim().is_empty()
    {
        reader.problem(&at.place, "`why` is empty", "expected the reason");
    }
    if let (Some(range), Some(dtype)) = (file.range.place(), file.dtype.get())
        && dtype.value == Dtype::Complex64
    {
        let problem =
            Problem::new(range, "`range` on complex64", "expected real values, which have an order");
        reader.problems.push(problem.related(&dtype.place, "`dtype`"));
    }
    if !file.why.is_absent() {
        return;
    }
    if let Some(at) = file.gate.get()
        && !at.value
    {
        reader.problem(&at.place, "`gate: false` without `why`", "expected the reason in `why`");
        return;
    }
    if let (Some(gate), Some(dtype)) = (gate, file.dtype.value())
        && let Some((reason, at)) = looseness(file, gate, *dtype, policies)
    {
        reader.problem(at.unwrap_or(place), reason, "expected a tighter gate, or the reason in `why`");
    }
}

/// Why a gate on this dtype needs a reason, and the place of the number that is too loose.
fn looseness<'f>(
    file: &'f CheckpointFile,
    gate: &Gate,
    dtype: Dtype,
    policies: &Policies,
) -> Option<(String, Option<&'f SourceSpan>)> {
    match gate {
        Gate::Noise { k } => (*k > bounds::NOISE)
            .then(|| (format!("noise {k} is more than {}", bounds::NOISE), file.noise.place())),
        Gate::Tokens { ties } | Gate::Set { ties: Some(ties) } => (*ties > bounds::NOISE)
            .then(|| (format!("ties {ties} is more than {}", bounds::NOISE), file.ties.place())),
        // No number fits all models, and the others have none.
        Gate::Distribution(_) | Gate::Set { ties: None } | Gate::Text => None,
        Gate::Tolerance { policy: Some(name), .. } => {
            let policy = policies.named.get(name)?;
            (!policy.dtypes.contains(&dtype))
                .then(|| (format!("policy `{name}` is not meant for {dtype}"), file.policy.place()))
        }
        Gate::Tolerance { rtol, atol, policy: None } => {
            let path = policies.path.display();
            let Some((name, bound)) = policies.bound(dtype) else {
                // The broken file is reported separately.
                return (policies.state != PoliciesState::Broken).then(|| {
                    let state = match policies.state {
                        PoliciesState::Missing => format!("`{path}` does not exist"),
                        _ => format!("`{path}` has no bound for {dtype}"),
                    };
                    (format!("nothing bounds this tolerance: {state}"), file.rtol.place())
                });
            };
            let looser = [("rtol", *rtol, bound.rtol, &file.rtol), ("atol", *atol, bound.atol, &file.atol)];
            looser.into_iter().find(|(_, given, bound, _)| given > bound).map(|(key, given, bound, at)| {
                let message =
                    format!("{key} {given:e} is looser than {bound:e} of policy `{name}` for {dtype}");
                (message, at.place())
            })
        }
    }
}
