//! Gates that are far looser than the newest run needed.
//!
//! A gate is slack when every checkpoint of its line used less than a fiftieth of it. That alone would also blame a port for
//! being good, so a gate must also be slack against what the arithmetic itself needs: one floor of the golden for an inline
//! tolerance, and eight floors, as in `noise: 8`, for a policy, which stands for many checkpoints. A noise gate up to 8 is
//! never slack.

use std::collections::HashMap;
use std::path::Path;

use super::finding::{Finding, some_of};
use super::names::lines;
use crate::tighten::{Use, tightest, use_of};
use mlx_parity_core::gate::{Gate, USUAL_NOISE};
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::report::multiple;
use mlx_parity_core::results::RunData;
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::spec::Inject;
use mlx_parity_core::spec::{Checkpoint, Policies, Spec, list::counted};

/// A gate may allow this many times what the run needed.
const SLACK: f64 = 50.0;

/// Returns the results of `spec` in the run in that folder, if they count for its gates.
pub(super) fn measured(spec: &Spec, run: &Path) -> Option<RunData> {
    let data = RunData::read(&Folder::at(run.join(&spec.id))).ok()??;
    // On golden inputs a stage uses less of its gate than in a free run, unless the spec itself injects them.
    (data.inject() == Inject::Declared).then_some(data)
}

/// Returns the gates of `spec` that are slack according to a run, and how many lines could be measured.
pub(super) fn slack(spec: &Spec, policies: &Policies, data: &RunData) -> (Vec<Finding>, usize) {
    let mut met: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in data.records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let (mut found, mut measured) = (Vec::new(), 0);
    for (line, checkpoints) in lines(spec) {
        let uses = checkpoints.iter().map(|checkpoint| {
            let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
            uses(checkpoint, records)
        });
        // If a run reached only part of a loop, the rest may be what needs the room.
        let Some(uses) = uses.collect::<Option<Vec<Use>>>() else { continue };
        let (Some(worst), Some(gate)) = (uses.into_iter().reduce(Use::worst), checkpoints[0].gate.as_ref())
        else {
            continue;
        };
        measured += 1;
        if let Some((message, help)) = assess(&names(&checkpoints), gate, worst, policies) {
            found.push(Finding {
                is_error: false,
                message,
                path: spec.path.clone(),
                line: Some(line),
                notes: Vec::new(),
                help: Some(help),
            });
        }
    }
    (found, measured)
}

/// Returns the gates of a twin that are slack according to its run, and how many could be measured.
///
/// Only gates that the twin names itself count. With `gate: same`, the run that needs the gate is the one with goldens. `of` is the
/// spec that the twin is compared with.
pub(super) fn slack_of_twin(
    twin: &Spec,
    of: &Spec,
    policies: &Policies,
    data: &RunData,
) -> (Vec<Finding>, usize) {
    let mut groups: Vec<(&Gate, Vec<&Checkpoint>)> = Vec::new();
    for checkpoint in &twin.checkpoints {
        let same = of.checkpoint(&checkpoint.name).and_then(|of| of.gate.clone()).map(Gate::between_runs);
        let Some(gate) = checkpoint.gate.as_ref().filter(|gate| same.as_ref() != Some(gate)) else {
            continue;
        };
        match groups.iter_mut().find(|(other, _)| *other == gate) {
            Some((_, checkpoints)) => checkpoints.push(checkpoint),
            None => groups.push((gate, vec![checkpoint])),
        }
    }
    let name = twin.twin.as_ref().map_or("", |twin| &twin.name);
    let (mut found, mut measured) = (Vec::new(), 0);
    for (gate, checkpoints) in groups {
        let uses = checkpoints.iter().map(|checkpoint| {
            let records = data.records().filter(|record| record.checkpoint == checkpoint.name);
            uses(checkpoint, &records.collect::<Vec<_>>())
        });
        let Some(worst) =
            uses.collect::<Option<Vec<Use>>>().and_then(|uses| uses.into_iter().reduce(Use::worst))
        else {
            continue;
        };
        measured += 1;
        // Both runs compute the same: floats with equal bits here may differ on another machine.
        let worst = Use { rounds: worst.rounds || worst.at_floor > 0.0, ..worst };
        let named: Vec<&str> = checkpoints.iter().map(|checkpoint| checkpoint.name.as_str()).collect();
        let names = format!("twin `{name}`: {}", some_of(&named));
        if let Some((message, help)) = assess(&names, gate, worst, policies) {
            found.push(Finding {
                is_error: false,
                message,
                path: twin.path.clone(),
                line: None,
                notes: Vec::new(),
                help: Some(help),
            });
        }
    }
    (found, measured)
}

/// The most that any hit of a checkpoint used; none unless every hit passed under the gate that the spec has now.
fn uses(checkpoint: &Checkpoint, records: &[&Record]) -> Option<Use> {
    if records.len() != checkpoint.hits as usize || !checkpoint.gated {
        return None;
    }
    let each = records.iter().map(|record| {
        let same = record.gate == checkpoint.gate
            && record.actual.as_ref().map(|actual| actual.dtype) == checkpoint.dtype;
        (record.verdict.status == Status::Pass && same).then(|| use_of(record)).flatten()
    });
    each.collect::<Option<Vec<Use>>>()?.into_iter().reduce(Use::worst)
}

/// The message about a gate with this use, and what to write instead; none if the gate is not slack.
fn assess(names: &str, gate: &Gate, worst: Use, policies: &Policies) -> Option<(String, String)> {
    if gate.is_usual() {
        return None;
    }
    let is_of_values = !gate.is_of_choices();
    if worst.used == 0.0 && !worst.rounds && !gate.needs_floor() && is_of_values {
        let exact = policies.named.iter().find(|(_, policy)| policy.rtol == 0.0 && policy.atol == 0.0);
        let exact = exact.map_or("rtol: 0, atol: 0".to_owned(), |(name, _)| format!("policy: {name}"));
        let message = format!("{names}: bit-equal to the golden, under {}", gate.text());
        return Some((message, format!("`{exact}` would pass")));
    }
    let floors = if gate.policy().is_some() { USUAL_NOISE } else { 1.0 };
    let needed = worst.used.max(floors * worst.at_floor);
    if needed * SLACK >= 1.0 {
        return None;
    }
    let used = if worst.used == 0.0 { "none".to_owned() } else { share(worst.used) };
    let times = multiple(1.0 / needed);
    let message = match needed == worst.used {
        true => {
            format!(
                "{names}: {} allows {times} what the run needed: {used} of the gate was used",
                gate.text()
            )
        }
        // The port did better than it had to.
        false => {
            format!(
                "{names}: {} allows {times} what rounding may need; {used} of the gate was used",
                gate.text()
            )
        }
    };
    let tight = tightest(gate, needed);
    let mut help = format!("`{}` would still allow 4x what is needed", tight.yaml());
    let fits = worst.times_floor.is_some_and(|times| times <= USUAL_NOISE);
    if fits && !gate.needs_floor() && is_of_values {
        help += &format!(", and `noise: {}` would pass", USUAL_NOISE);
    }
    Some((message, help))
}

fn share(used: f64) -> String {
    let percent = 100.0 * used;
    if percent >= 0.01 { format!("{percent:.2} %") } else { format!("{percent:.1e} %") }
}

fn names(checkpoints: &[&Checkpoint]) -> String {
    match checkpoints {
        [only] => format!("`{}`", only.name),
        [first, others @ ..] => {
            format!("`{}` and {} on its line", first.name, counted(others.len(), "other"))
        }
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use mlx_parity_core::spec::PoliciesState;

    fn assess_use(gate: Gate, used: f64, at_floor: f64, rounds: bool) -> Option<(String, String)> {
        let exact = mlx_parity_core::spec::Policy { rtol: 0.0, atol: 0.0, dtypes: Vec::new(), about: None };
        let policies = Policies {
            path: "policies.yaml".into(),
            named: [("exact".to_owned(), exact)].into(),
            bounds: BTreeMap::new(),
            state: PoliciesState::Read,
        };
        let worst = Use { used, at_floor, rounds, times_floor: None };
        assess("`x`", &gate, worst, &policies)
    }

    fn tolerance(number: f64, policy: Option<&str>) -> Gate {
        Gate::Tolerance { rtol: number, atol: number, policy: policy.map(str::to_owned) }
    }

    #[test]
    fn an_inline_tolerance_is_compared_with_its_use() {
        let (message, help) = assess_use(tolerance(1e-3, None), 1e-3, 1e-4, true).unwrap();
        assert_eq!(
            message,
            "`x`: atol 1e-3, rtol 1e-3 allows 1000x what the run needed: 0.10 % of the gate was used"
        );
        assert_eq!(help, "`rtol: 5e-6, atol: 5e-6` would still allow 4x what is needed");
        assert_eq!(assess_use(tolerance(1e-3, None), 0.0201, 1e-4, true), None);
    }

    #[test]
    fn a_port_that_is_good_is_not_blamed() {
        // Exact here by luck: the golden was rounded, and its tolerance is a few floors.
        assert_eq!(assess_use(tolerance(1e-6, None), 0.0, 0.1, true), None);
        // 84 float32 epsilons, as `fp32` has them, are what many checkpoints of a kind may need.
        assert_eq!(assess_use(tolerance(1e-5, Some("fp32")), 0.0, 0.012, true), None);
        assert_eq!(assess_use(tolerance(1e-5, Some("fp32")), 0.005, 0.005, true), None);
        assert!(assess_use(tolerance(1e-5, Some("fp32")), 1e-4, 1e-4, true).is_some());
        assert_eq!(assess_use(Gate::Noise { k: 8.0 }, 0.0, 0.125, true), None);
        assert_eq!(assess_use(Gate::Noise { k: 8.0 }, 1e-3, 0.125, true), None);
    }

    #[test]
    fn a_wide_noise_gate_is_reported_with_its_k() {
        let (message, help) = assess_use(Gate::Noise { k: 1000.0 }, 0.005, 1e-3, true).unwrap();
        assert_eq!(message, "`x`: noise 1000 allows 200x what the run needed: 0.50 % of the gate was used");
        assert_eq!(help, "`noise: 20` would still allow 4x what is needed");
    }

    #[test]
    fn a_bit_equal_tensor_gets_its_own_message() {
        let (message, help) = assess_use(tolerance(1e-5, Some("fp32")), 0.0, 0.01, false).unwrap();
        assert_eq!(message, "`x`: bit-equal to the golden, under policy `fp32` (atol 1e-5, rtol 1e-5)");
        assert_eq!(help, "`policy: exact` would pass");
        assert_eq!(assess_use(tolerance(0.0, None), 0.0, 0.0, false), None);
    }
}
