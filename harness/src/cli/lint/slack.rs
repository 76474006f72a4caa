//! Gates that are far looser than the newest run needed.
//!
//! A gate is slack when less than a fiftieth of it was used, by every checkpoint of its line. That alone would also
//! blame a port for being good, so a gate is never held against less than the arithmetic itself needs: an inline
//! tolerance against one floor of the golden, a policy, which stands for many checkpoints, against eight, as `noise: 8`
//! does. A noise gate up to 8 is never slack.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::finding::Finding;
use crate::cli::tighten::{Use, tightest, use_of, written};
use crate::compare::Gate;
use crate::record::{Record, Status};
use crate::report::{gate_text, multiple};
use crate::run::{Folder, Inject, Story};
use crate::spec::{Checkpoint, Policies, Spec, bounds, list::counted};

/// How many times what was used a gate may allow.
const SLACK: f64 = 50.0;

/// The gates of `spec` that are slack by the run in that folder, and how many of its lines could be told.
pub(super) fn slack(spec: &Spec, policies: &Policies, run: &Path) -> (Vec<Finding>, usize) {
    let story = match Story::read(&Folder::at(run.join(&spec.id))) {
        // On golden inputs a stage uses less than it does in earnest, unless the spec itself asks for them.
        Ok(Some(story)) if story.inject() == Inject::Declared => story,
        _ => return (Vec::new(), 0),
    };
    let mut met: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in story.records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let mut lines: BTreeMap<usize, Vec<&Checkpoint>> = BTreeMap::new();
    for checkpoint in &spec.checkpoints {
        lines.entry(checkpoint.line).or_default().push(checkpoint);
    }
    let (mut found, mut told) = (Vec::new(), 0);
    for (line, checkpoints) in lines {
        let uses = checkpoints.iter().map(|checkpoint| {
            let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
            uses(checkpoint, records)
        });
        // Of a loop that was met in part, the rest may be what needs the room.
        let Some(uses) = uses.collect::<Option<Vec<Use>>>() else { continue };
        let (Some(worst), Some(gate)) = (uses.into_iter().reduce(Use::worst), checkpoints[0].gate.as_ref())
        else {
            continue;
        };
        told += 1;
        if let Some((message, help)) = judge(&names(&checkpoints), gate, worst, policies) {
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
    (found, told)
}

/// What all hits of a checkpoint used at most; nothing unless each passed, by the gate that the spec has now.
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

/// What is to be said of a gate of which so much was used, and what to write instead.
fn judge(names: &str, gate: &Gate, worst: Use, policies: &Policies) -> Option<(String, String)> {
    let needed = match gate {
        Gate::Tolerance { rtol, atol, .. } if *rtol == 0.0 && *atol == 0.0 => return None,
        Gate::Noise { k } if *k <= bounds::NOISE => return None,
        Gate::Tolerance { .. } if worst.used == 0.0 && !worst.rounds => {
            let exact = policies.named.iter().find(|(_, policy)| policy.rtol == 0.0 && policy.atol == 0.0);
            let exact = exact.map_or("rtol: 0, atol: 0".to_owned(), |(name, _)| format!("policy: {name}"));
            let message = format!("{names}: bit-equal to the golden, under {}", gate_text(gate));
            return Some((message, format!("`{exact}` would hold")));
        }
        Gate::Tolerance { policy: Some(_), .. } => worst.used.max(bounds::NOISE * worst.at_floor),
        Gate::Tolerance { policy: None, .. } | Gate::Noise { .. } => worst.used.max(worst.at_floor),
    };
    if needed * SLACK >= 1.0 {
        return None;
    }
    let used = if worst.used == 0.0 { "nothing".to_owned() } else { share(worst.used) };
    let times = multiple(1.0 / needed);
    let message = match needed == worst.used {
        true => format!("{names}: {} allows {times} what was used, which is {used} of it", gate_text(gate)),
        // The port did better than it had to.
        false => format!(
            "{names}: {} allows {times} what rounding may need; {used} of it was used",
            gate_text(gate)
        ),
    };
    let tight = tightest(gate, needed);
    let mut help = format!("`{}` would leave 4x", written(&tight));
    let fits = worst.times_floor.is_some_and(|times| times <= bounds::NOISE);
    if fits && matches!(gate, Gate::Tolerance { .. }) {
        help += &format!(", and `noise: {}` holds", bounds::NOISE);
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
            format!("`{}` and {} of its line", first.name, counted(others.len(), "other"))
        }
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PoliciesState;

    fn said(gate: Gate, used: f64, at_floor: f64, rounds: bool) -> Option<(String, String)> {
        let exact = crate::spec::Policy { rtol: 0.0, atol: 0.0, dtypes: Vec::new(), about: None };
        let policies = Policies {
            path: "policies.yaml".into(),
            named: [("exact".to_owned(), exact)].into(),
            bounds: BTreeMap::new(),
            state: PoliciesState::Read,
        };
        let worst = Use { used, at_floor, rounds, times_floor: None };
        judge("`x`", &gate, worst, &policies)
    }

    fn tolerance(number: f64, policy: Option<&str>) -> Gate {
        Gate::Tolerance { rtol: number, atol: number, policy: policy.map(str::to_owned) }
    }

    #[test]
    fn an_inline_tolerance_is_held_against_its_use() {
        let (message, help) = said(tolerance(1e-3, None), 1e-3, 1e-4, true).unwrap();
        assert_eq!(message, "`x`: atol 1e-3, rtol 1e-3 allows 1000x what was used, which is 0.10 % of it");
        assert_eq!(help, "`rtol: 5e-6, atol: 5e-6` would leave 4x");
        assert_eq!(said(tolerance(1e-3, None), 0.0201, 1e-4, true), None);
    }

    #[test]
    fn a_port_that_is_good_is_not_blamed() {
        // Exact here by luck: the golden was rounded, and its tolerance is a few floors.
        assert_eq!(said(tolerance(1e-6, None), 0.0, 0.1, true), None);
        // 84 float32 epsilons, as `fp32` has them, are what many checkpoints of a kind may need.
        assert_eq!(said(tolerance(1e-5, Some("fp32")), 0.0, 0.012, true), None);
        assert_eq!(said(tolerance(1e-5, Some("fp32")), 0.005, 0.005, true), None);
        assert!(said(tolerance(1e-5, Some("fp32")), 1e-4, 1e-4, true).is_some());
        assert_eq!(said(Gate::Noise { k: 8.0 }, 0.0, 0.125, true), None);
        assert_eq!(said(Gate::Noise { k: 8.0 }, 1e-3, 0.125, true), None);
    }

    #[test]
    fn a_wide_noise_gate_is_told_with_its_k() {
        let (message, help) = said(Gate::Noise { k: 1000.0 }, 0.005, 1e-3, true).unwrap();
        assert_eq!(message, "`x`: noise 1000 allows 200x what was used, which is 0.50 % of it");
        assert_eq!(help, "`noise: 20` would leave 4x");
    }

    #[test]
    fn what_is_bit_equal_and_only_moved_is_told_in_its_own_words() {
        let (message, help) = said(tolerance(1e-5, Some("fp32")), 0.0, 0.01, false).unwrap();
        assert_eq!(message, "`x`: bit-equal to the golden, under policy `fp32` (atol 1e-5, rtol 1e-5)");
        assert_eq!(help, "`policy: exact` would hold");
        assert_eq!(said(tolerance(0.0, None), 0.0, 0.0, false), None);
    }
}
