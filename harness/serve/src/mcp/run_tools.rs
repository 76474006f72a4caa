//! The tools about specs and runs.

use std::fmt::Write as _;
use std::sync::Arc;

use mlx_parity_cli::Project;
use mlx_parity_cli::inspect::{self, ReadRun};
use mlx_parity_core::report::{Detail, against_text, localisation_text, run_text, summary_line, trial_text};
use mlx_parity_core::results::{Account, Against, Fate, RunResults, TrialChange};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::suggest::did_you_mean;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::reply::Reply;
use super::runs::Started;
use super::wait::Wait;
use super::{Tooling, account, resources};
use crate::failure::{Failure, FailureKind};

/// How long a run is waited for by default. Clients give up after a minute or so.
const WAIT: u64 = 45;
/// Specs in a list, if nothing else is asked for.
const SPECS: usize = 100;
/// Checkpoints in a list.
const CHECKPOINTS: usize = 200;
/// Red specs in one answer.
const RED: usize = 8;
/// Changes in one answer.
const CHANGES: usize = 50;
const REPORT: &str = "the resource parity://runs/RUN/report.txt has everything";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSpecs {
    /// Only specs whose id contains this text. The id of one spec also lists its checkpoints
    #[serde(default)]
    filter: Option<String>,
    /// How many specs to leave out at the start
    #[serde(default)]
    from: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSpec {
    /// The spec, as `model/component`; every spec if it is left out
    #[serde(default)]
    spec: Option<String>,
    /// Seconds to wait for the end, from 0 to 600; 45 by default
    #[serde(default)]
    wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRun {
    /// Only this spec, as `model/component`
    #[serde(default)]
    spec: Option<String>,
    /// The name of a run, as list_runs shows it; the newest by default
    #[serde(default)]
    run: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfCheckpoint {
    /// The spec, as `model/component`
    spec: String,
    /// The checkpoint, or `weights`, `fixture`, `memory` or `stats`
    checkpoint: String,
    /// The name of a run, as list_runs shows it; the newest by default
    #[serde(default)]
    run: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareRuns {
    /// The earlier run: its name, or a commit
    before: String,
    /// The later run; the newest by default
    #[serde(default)]
    now: Option<String>,
}

pub(super) fn list_specs(tooling: &Tooling, given: ListSpecs) -> Result<Reply, Failure> {
    let Specs { specs, broken, unreadable, .. } = inspect::specs(tooling.debugger.project());
    if let Some(error) = unreadable {
        return Err(Failure::new(FailureKind::NotFound, error.to_string()));
    }
    let filter = given.filter.as_deref().unwrap_or_default();
    let matching: Vec<_> = specs.iter().filter(|spec| spec.id.contains(filter)).collect();
    let (mut text, mut data) = (String::new(), Vec::new());
    for spec in matching.iter().skip(given.from).take(SPECS) {
        let mut json = json!({"spec": spec.id, "checkpoints": spec.checkpoints.len(), "level": spec.level});
        let _ = writeln!(text, "{}  {}", spec.id, counted(spec.checkpoints.len(), "checkpoint"));
        if spec.id == filter {
            let names: Vec<&str> =
                spec.checkpoints.iter().take(CHECKPOINTS).map(|one| one.name.as_str()).collect();
            let more = spec.checkpoints.len() - names.len();
            names.iter().for_each(|name| text += &format!("  {name}\n"));
            if more > 0 {
                let _ = writeln!(text, "  and {more} more");
            }
            json["names"] = json!({"names": names, "left_out": more});
        }
        data.push(json);
    }
    let left_out = matching.len().saturating_sub(given.from + data.len());
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more; ask again with from: {}", given.from + data.len());
    }
    if specs.is_empty() {
        text += "the project has no specs\n";
    }
    let mistakes: Vec<Value> =
        broken.iter().take(RED).map(|error| json!({"spec": error.id, "error": error.to_string()})).collect();
    for error in broken.iter().take(RED) {
        let _ = writeln!(text, "cannot be used: {error}");
    }
    let data = json!({
        "specs": data, "left_out": left_out, "broken": mistakes,
        "broken_left_out": broken.len().saturating_sub(RED),
    });
    Ok(Reply::new(text, data).with_rest("use `filter` or `from`"))
}

pub(super) fn list_runs(tooling: &Tooling) -> Result<Reply, Failure> {
    let runs = inspect::runs(tooling.debugger.project());
    let (mut text, mut data) = (String::new(), Vec::new());
    for run in runs.iter().take(SPECS) {
        let state = if run.running { "  goes on" } else { "" };
        let kept = if run.named { "  kept" } else { "" };
        let _ = writeln!(text, "{}{state}{kept}", run.name());
        data.push(json!({"run": run.name(), "running": run.running, "kept": run.named}));
    }
    if runs.is_empty() {
        text += "there is no run yet; start one with run_spec\n";
    }
    Ok(Reply::new(text, json!({"runs": data, "left_out": runs.len().saturating_sub(SPECS)})))
}

pub(super) fn run_spec(tooling: &Tooling, given: RunSpec) -> Result<Reply, Failure> {
    let wait = Wait { wait_seconds: given.wait_seconds }.or(WAIT)?;
    let project = tooling.debugger.project();
    if let Some(id) = &given.spec {
        known_spec(project, id)?;
    }
    let run = tooling.runs.start(project, given.spec)?;
    run.job.wait(wait);
    state_of(&run)
}

pub(super) fn run_status(tooling: &Tooling, wait: Wait) -> Result<Reply, Failure> {
    let run = tooling.runs.current()?;
    run.job.wait(wait.or(0)?);
    state_of(&run)
}

pub(super) fn stop_run(tooling: &Tooling) -> Result<Reply, Failure> {
    let run = tooling.runs.current()?;
    let ended = run.job.wait(std::time::Duration::ZERO);
    run.job.stop();
    let text = if ended { "the run had ended" } else { "the run was stopped" };
    Ok(Reply::new(
        format!("{text}\n"),
        json!({"run": run.job.name(), "state": if ended { "ended" } else { "stopped" }}),
    ))
}

fn known_spec(project: &Project, id: &str) -> Result<(), Failure> {
    let specs = inspect::specs(project);
    let ids = || {
        specs
            .specs
            .iter()
            .map(|spec| spec.id.as_str())
            .chain(specs.broken.iter().map(|error| error.id.as_str()))
    };
    if ids().any(|known| known == id) {
        return Ok(());
    }
    let failure =
        Failure::new(FailureKind::NotFound, format!("there is no spec `{id}`{}", did_you_mean(id, ids())));
    Err(failure.with_next("list_specs lists the specs"))
}

/// The results of a run that has ended, or how far it has come.
fn state_of(run: &Started) -> Result<Reply, Failure> {
    let name = run.job.name();
    if !run.job.wait(std::time::Duration::ZERO) {
        let progress = run.job.progress();
        let mut text = format!("the run {name} goes on");
        match progress.as_ref().filter(|progress| progress.planned) {
            None => text += ": Cargo builds the suite",
            Some(progress) => {
                let (done, declared) = progress.checkpoints();
                let _ = write!(text, ": {done} of {} reached", counted(declared, "checkpoint"));
            }
        }
        text += "; call run_status with wait_seconds to wait for it\n";
        return Ok(Reply::new(text, json!({"run": name, "state": "running", "progress": progress})));
    }
    let outcome = run.job.outcome()?;
    if outcome.results.target.is_empty() {
        let text = format!("the suite did not start:\n{}\n", outcome.output.join("\n"));
        let data = json!({"run": name, "state": "not_started", "output": outcome.output});
        return Ok(Reply::new(text, data));
    }
    let results = of_spec(outcome.results, run.spec.as_deref());
    let red = red(&results);
    let mut text = run_text(&results, Detail::Brief, false);
    for account in red.iter().take(RED) {
        text += &located(account);
    }
    let _ = writeln!(text, "{}", summary_line(&results.summary()));
    let asked = results.specs.iter().filter(|spec| !matches!(spec.fate, Fate::NotAsked));
    let specs: Vec<Value> = asked.clone().take(SPECS).map(account::spec).collect();
    let data = json!({
        "run": name, "state": "done", "green": outcome.success, "summary": account::summary(&results),
        "specs": specs, "left_out": asked.count().saturating_sub(SPECS),
        "broken": results.broken.iter().take(RED).map(|error| &error.text).collect::<Vec<_>>(),
        "others": results.others.iter().take(RED).collect::<Vec<_>>(),
    });
    Ok(Reply::new(text, data).with_rest(REPORT).with_links(vec![resources::report(&name)]))
}

/// Leaves one spec in the results, if one is named.
fn of_spec(mut results: RunResults, id: Option<&str>) -> RunResults {
    if let Some(id) = id {
        results.specs.retain(|spec| spec.id == id);
        results.broken.retain(|error| error.id == id);
    }
    results
}

fn red(results: &RunResults) -> Vec<Arc<Account>> {
    results.accounts().filter(|account| account.is_red()).map(Arc::clone).collect()
}

/// The first faulty stage of a red spec, as text.
fn located(account: &Account) -> String {
    match account.localisation() {
        Some(found) => {
            format!("{}  {}", account.spec.id, localisation_text(found, account.on_golden_inputs()))
        }
        None => format!("{}  the first faulty stage is unknown\n", account.spec.id),
    }
}

pub(super) fn first_divergence(tooling: &Tooling, given: OfRun) -> Result<Reply, Failure> {
    let run = inspect::read_run(tooling.debugger.project(), given.run.as_deref())?;
    check_in_run(&run, given.spec.as_deref())?;
    let results = of_spec(run.results, given.spec.as_deref());
    let red = red(&results);
    let mut text = format!("run {}: {}\n", run.name, summary_line(&results.summary()));
    for account in red.iter().take(RED) {
        if let Some(first) = account::first_divergence(account) {
            let _ = writeln!(text, "{}  the first divergence is `{}`", account.spec.id, first.name);
        }
        text += &located(account);
        if let Some(main) = account.main_failure() {
            text += &trial_text(account, main, &results.target);
        }
    }
    // What is wrong beside checkpoints: problems of all specs, files that cannot be read, workers that failed.
    let problems: Vec<&String> =
        results.discovery.iter().flatten().chain(&results.others).take(RED).collect();
    problems.iter().for_each(|problem| text += &format!("{problem}\n"));
    results.broken.iter().take(RED).for_each(|error| text += &format!("{}\n", error.text));
    let wrong: Vec<Value> = results
        .specs
        .iter()
        .filter(|spec| match &spec.fate {
            Fate::Ran(account) => account.is_red(),
            Fate::Failed(_) => true,
            _ => false,
        })
        .take(RED)
        .map(account::spec)
        .collect();
    if wrong.is_empty() && problems.is_empty() && results.broken.is_empty() {
        text += "nothing is red\n";
    }
    let left_out = red.len().saturating_sub(RED);
    if left_out > 0 {
        let _ = writeln!(text, "and {}; name one with `spec`", counted(left_out, "more red spec"));
    }
    let data = json!({
        "run": run.name, "summary": account::summary(&results), "red": wrong, "left_out": left_out, "problems": problems,
        "broken": results.broken.iter().take(RED).map(|error| &error.text).collect::<Vec<_>>(),
    });
    Ok(Reply::new(text, data).with_rest("name one spec").with_links(vec![resources::report(&run.name)]))
}

fn check_in_run(run: &ReadRun, id: Option<&str>) -> Result<(), Failure> {
    let Some(id) = id else { return Ok(()) };
    let results = &run.results;
    let ids = || {
        results
            .specs
            .iter()
            .map(|spec| spec.id.as_str())
            .chain(results.broken.iter().map(|error| error.id.as_str()))
    };
    if ids().any(|known| known == id) {
        return Ok(());
    }
    let message = format!("the run {} has no spec `{id}`{}", run.name, did_you_mean(id, ids()));
    Err(Failure::new(FailureKind::NotFound, message)
        .with_next("run it with run_spec; list_specs lists the specs"))
}

pub(super) fn checkpoint_detail(tooling: &Tooling, given: OfCheckpoint) -> Result<Reply, Failure> {
    let run = inspect::read_run(tooling.debugger.project(), given.run.as_deref())?;
    check_in_run(&run, Some(&given.spec))?;
    let accounts: Vec<&Arc<Account>> =
        run.results.accounts().filter(|account| account.spec.id == given.spec).collect();
    let Some(account) = accounts.first() else {
        let failure =
            Failure::new(FailureKind::NotFound, format!("the run {} did not run `{}`", run.name, given.spec));
        return Err(failure.with_next("first_divergence shows why; run_spec runs it"));
    };
    let Some(trial) = account.trial(&given.checkpoint) else {
        let names = account.trials.iter().map(|trial| trial.name.as_str());
        let near = did_you_mean(&given.checkpoint, names);
        let message = format!(
            "`{}` has no checkpoint `{}` in the run {}{near}",
            given.spec, given.checkpoint, run.name
        );
        return Err(Failure::new(FailureKind::NotFound, message)
            .with_next("list_specs with the spec as filter lists them"));
    };
    let mut text = trial_text(account, trial, &run.results.target);
    if text.is_empty() {
        let detail = trial.record.as_ref().map(|record| record.verdict.detail.clone()).unwrap_or_default();
        text = format!("{}::{}: not red; {detail}\n", given.spec, trial.name);
    }
    let mut data = account::detail(account, trial);
    data["run"] = json!(run.name);
    let links = resources::pictures(&run, &given.spec, trial);
    Ok(Reply::new(text, data)
        .with_rest("parity://runs/RUN/SPEC/records.jsonl has the record")
        .with_links(links))
}

pub(super) fn compare_runs(tooling: &Tooling, given: CompareRuns) -> Result<Reply, Failure> {
    let project = tooling.debugger.project();
    let now = inspect::read_run(project, given.now.as_deref())?;
    let before = inspect::read_earlier_run(project, &given.before, &now)?;
    let against = Against { name: &before.name, before: &before.results, now: &now.results };
    let text = against_text(&against, false);
    let changes = against.changes();
    let changed: Vec<&TrialChange> = changes.iter().filter(|change| change.differs()).collect();
    let (gone, new) = against.only_in_one();
    let count = |wanted: fn(&TrialChange) -> bool| changes.iter().filter(|change| wanted(change)).count();
    let data = json!({
        "before": before.name, "now": now.name,
        "summary_before": account::summary(&before.results), "summary_now": account::summary(&now.results),
        "now_red": count(TrialChange::is_newly_red), "fixed": count(TrialChange::is_fixed),
        "same": changes.len() - changed.len(),
        "changes": changed.iter().take(CHANGES).map(|one| account::change(one)).collect::<Vec<_>>(),
        "left_out": changed.len().saturating_sub(CHANGES),
        "only_before": account::names(&gone), "only_now": account::names(&new),
    });
    Ok(Reply::new(text, data).with_rest("report.html of a report against the other run has every change"))
}
