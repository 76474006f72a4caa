//! The results of a run as JSON.

use mlx_parity_core::number;
use mlx_parity_core::results::{
    Account, Closer, Culprit, Fate, Localisation, Measured, RunResults, SpecResult, TrialChange,
    TrialOutcome, TrialResult,
};
use serde::Serialize;
use serde_json::{Value, json};

/// How many names a list has; the rest is counted.
const NAMES: usize = 40;

/// The counts of a run.
pub(super) fn summary(results: &RunResults) -> Value {
    let summary = results.summary();
    json!({
        "passed": summary.passed, "failed": summary.failed, "ignored": summary.ignored, "pending": summary.pending,
        "not_gated": summary.not_gated, "approved": summary.approved, "new": summary.new, "not_selected": summary.not_selected,
        "specs": summary.specs, "not_run": summary.not_run, "interrupted": !results.unended.is_empty(),
    })
}

/// One spec of a run: its state, its counts and, if it is red, where it starts to be wrong.
pub(super) fn spec(spec: &SpecResult) -> Value {
    match &spec.fate {
        Fate::Ran(account) => {
            let count =
                |wanted: &str| account.selected().filter(|trial| status(&trial.outcome) == wanted).count();
            let mut json = json!({
                "spec": spec.id, "state": if account.is_red() { "red" } else { "green" },
                "passed": count("pass"), "failed": count("fail"), "pending": count("pending"),
            });
            if account.is_red() {
                json["first_divergence"] =
                    json!(first_divergence(account).map(|trial| named(account, trial)));
                json["first_faulty_stage"] = stage(account);
                let red: Vec<&str> = account
                    .selected()
                    .filter(|trial| trial.is_red())
                    .map(|trial| trial.name.as_str())
                    .collect();
                json["red"] = names(&red);
            }
            json
        }
        Fate::Ignored(reason) => json!({"spec": spec.id, "state": "ignored", "reason": reason}),
        Fate::Failed(problem) => json!({"spec": spec.id, "state": "failed", "reason": problem}),
        Fate::NotRun => json!({"spec": spec.id, "state": "not_run"}),
        Fate::NotAsked => json!({"spec": spec.id, "state": "not_selected"}),
    }
}

/// The first selected trial of a spec that is red, in the order of the run.
pub(super) fn first_divergence(account: &Account) -> Option<&TrialResult> {
    account.selected().find(|trial| trial.is_red())
}

fn stage(account: &Account) -> Value {
    match account.localisation() {
        None => json!({"known": false}),
        Some(Localisation::Right) => json!({"known": false, "why": "every stage is right on golden inputs"}),
        Some(Localisation::Unknown(trial)) => {
            json!({"known": false, "why": format!("see the trial `{trial}`")})
        }
        Some(Localisation::Drift(growths)) => {
            let growths: Vec<Value> = growths
                .iter()
                .take(NAMES)
                .map(|growth| json!({"name": growth.name, "after": growth.after, "factor": growth.factor}))
                .collect();
            json!({"known": false, "why": "no stage is wrong on golden inputs: the error grows", "growth": growths})
        }
        Some(Localisation::Culprit(culprit)) => of_culprit(account, culprit),
    }
}

fn of_culprit(account: &Account, culprit: &Culprit) -> Value {
    let closer = match &culprit.closer {
        Closer::Unreached(names) => json!({"never_reached": names}),
        Closer::Level(level, names) => json!({"level": level, "checkpoints": names}),
        Closer::Undeclared(names) => json!({"undeclared_taps": names}),
        Closer::Taps => json!({"needed": "more taps"}),
    };
    let also: Vec<&str> = culprit.also.iter().map(|also| also.name.as_str()).collect();
    let local = account.on_golden_inputs();
    let record = local.trial(&culprit.name).and_then(|trial| trial.record.as_ref());
    json!({
        "known": true, "checkpoint": culprit.name, "class": culprit.class, "after": culprit.after, "made_from": culprit.made_from,
        "place": record.and_then(|record| record.location.as_ref()),
        "causes": culprit.causes, "facts": culprit.facts, "closer": closer,
        "also_wrong_on_golden_inputs": names(&also),
    })
}

/// One trial in one object.
fn named(account: &Account, trial: &TrialResult) -> Value {
    let line = match &trial.outcome {
        TrialOutcome::Failed { line, .. } | TrialOutcome::Pending(line) | TrialOutcome::New(line) => {
            Some(line)
        }
        _ => None,
    };
    let place = trial.record.as_ref().and_then(|record| record.location.as_ref());
    json!({
        "spec": account.spec.id, "checkpoint": trial.name, "status": status(&trial.outcome),
        "class": class(&trial.outcome), "line": line, "place": place,
    })
}

/// Everything about one trial, with its record.
pub(super) fn detail(account: &Account, trial: &TrialResult) -> Value {
    let mut json = named(account, trial);
    json["record"] = json!(trial.record);
    json["actual_file"] = json!(trial.actual);
    let local = account.local.as_ref().and_then(|local| local.trial(&trial.name));
    json["on_golden_inputs"] = json!(local.map(|local| {
        let record = local.record.as_ref();
        json!({
            "status": status(&local.outcome), "class": class(&local.outcome),
            "verdict": record.map(|record| &record.verdict), "causes": record.map(|record| &record.causes),
            "facts": record.map(|record| &record.facts),
        })
    }));
    json
}

/// One trial that both runs have.
pub(super) fn change(change: &TrialChange) -> Value {
    let kind = match change {
        change if change.is_newly_red() => "now_red",
        change if change.is_fixed() => "fixed",
        change if change.growth() > 1.0 => "more",
        change if change.growth() < 1.0 => "less",
        _ => "other",
    };
    json!({
        "spec": change.spec, "checkpoint": change.trial, "change": kind,
        "before": Side::of(&change.before), "now": Side::of(&change.now),
    })
}

#[derive(Serialize)]
struct Side {
    status: &'static str,
    class: Option<String>,
    #[serde(serialize_with = "number::option::serialize")]
    used: Option<f64>,
    #[serde(serialize_with = "number::option::serialize")]
    times_floor: Option<f64>,
}

impl Side {
    fn of(side: &Measured) -> Self {
        let class = class(&side.outcome);
        Self { status: status(&side.outcome), class, used: side.used, times_floor: side.floor }
    }
}

/// The names of a list that is not too long, and how many more there are.
pub(super) fn names<T: AsRef<str>>(all: &[T]) -> Value {
    let shown: Vec<&str> = all.iter().take(NAMES).map(AsRef::as_ref).collect();
    json!({"names": shown, "left_out": all.len().saturating_sub(NAMES)})
}

fn class(outcome: &TrialOutcome) -> Option<String> {
    match outcome {
        TrialOutcome::Failed { class, .. } | TrialOutcome::NotGated(Some(class)) => {
            Some(class.name().to_owned())
        }
        _ => None,
    }
}

/// The word for an outcome, as in `trials.jsonl`.
fn status(outcome: &TrialOutcome) -> &'static str {
    match outcome {
        TrialOutcome::Passed => "pass",
        TrialOutcome::Approved(_) => "approved",
        TrialOutcome::NotGated(_) => "ungated",
        TrialOutcome::New(_) => "new",
        TrialOutcome::Failed { .. } => "fail",
        TrialOutcome::Pending(_) => "pending",
    }
}
