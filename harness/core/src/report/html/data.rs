//! The results as the page's script reads them.

use serde::Serialize;

use super::detail::DetailBudget;
use super::spec_data::{Row, SpecData, Texts, before, spec_data};
use crate::files::size::words;
use crate::report::{environments, summary_line};
use crate::results::{Against, Fate, RunResults, Summary};
use crate::run_folder::{Environment, MergedPart, PeakMemory};
use crate::spec::list::counted;

/// The whole page.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    /// `green`, `red` or `incomplete`.
    verdict: &'static str,
    /// The counts in one line.
    line: String,
    counts: Counts,
    injected: bool,
    folder: String,
    started: &'a str,
    target: &'a str,
    version: &'static str,
    revision: Option<String>,
    environments: Vec<EnvironmentRows>,
    /// The runs that this run was merged from.
    parts: Vec<EnvironmentRows>,
    problems: Vec<PageProblem>,
    against: Option<AgainstRun<'a>>,
    /// Texts that many rows share: gates, and places of taps.
    texts: Vec<String>,
    specs: Vec<SpecData<'a>>,
    /// How many red rows have no details, since the page has a bounded size.
    without_details: usize,
}

#[derive(Serialize)]
struct Counts {
    declared: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    pending: usize,
    new: usize,
    not_gated: usize,
    approved: usize,
    specs: usize,
    not_run: usize,
}

/// An environment as pairs of label and value.
#[derive(Serialize, PartialEq)]
struct EnvironmentRows(Vec<(&'static str, String)>);

#[derive(Serialize)]
struct PageProblem {
    title: String,
    text: String,
}

#[derive(Serialize)]
struct AgainstRun<'a> {
    name: &'a str,
    revision: Option<String>,
    environments: Vec<String>,
    line: String,
    /// Trials that only the other run has.
    gone: Vec<String>,
}

/// Returns the results as the script reads them.
pub(super) fn page<'a>(run: &'a RunResults, against: Option<&'a Against<'a>>) -> Page<'a> {
    let summary = run.summary();
    let mut texts = Texts::default();
    let mut budget = DetailBudget::default();
    let before = against.map(before).unwrap_or_default();
    let ran = run
        .specs
        .iter()
        .filter_map(|spec| {
            let (fate, reason) = match &spec.fate {
                Fate::Ran(account) => {
                    let mut data = spec_data(account, &run.target, &before, &mut texts, &mut budget);
                    data.place = spec.place();
                    return Some(data);
                }
                Fate::Ignored(reason) => ("ignored", Some(reason.as_str())),
                Fate::Failed(problem) => ("failed", Some(problem.as_str())),
                Fate::NotRun => ("not_run", None),
                Fate::NotAsked => return None,
            };
            let status = if fate == "failed" { "fail" } else { fate };
            let rows = if fate == "not_run" { &[][..] } else { &spec.trials };
            let rows = rows.iter().map(|name| Row::without_record(name, status, reason)).collect();
            Some(SpecData::of_rows(&spec.id, fate, reason, rows))
        })
        .collect::<Vec<_>>();
    let specs = ran.into_iter().chain(without_spec(run)).collect();
    Page {
        verdict: verdict(run, &summary),
        line: summary_line(&summary),
        counts: counts(&summary),
        injected: summary.injected,
        folder: run.folder.display().to_string(),
        started: &run.started,
        target: &run.target,
        version: env!("CARGO_PKG_VERSION"),
        revision: run.checkout.as_ref().map(ToString::to_string),
        environments: environment_rows(run),
        parts: run.merged.iter().flat_map(|merged| &merged.parts).map(part_rows).collect(),
        problems: problems(run),
        against: against.map(against_run),
        texts: texts.list,
        specs,
        without_details: budget.left_out,
    }
}

/// Trials that belong to no spec, so that the rows of the page are the trials that its counts count.
fn without_spec(run: &RunResults) -> Vec<SpecData<'_>> {
    let problem = |id, rows| SpecData::of_rows(id, "problem", None, rows);
    let discovery = run.discovery.as_ref().map(|wrong| match wrong.first() {
        Some(first) => Row::without_record("discovery", "fail", Some(first)),
        None => Row::without_record("discovery", "pass", None),
    });
    // A smoke test that failed is one of the others.
    let smoke = run.smoke.filter(|passed| *passed).map(|_| Row::without_record("smoke", "pass", None));
    let others = run.others.iter().map(|text| Row::without_record("suite", "fail", Some(text)));
    let rows: Vec<Row<'_>> = smoke.into_iter().chain(discovery).chain(others).collect();
    let broken = run
        .broken
        .iter()
        .map(|broken| problem(&broken.id, vec![Row::without_record("spec", "fail", Some(&broken.text))]));
    let suite = (!rows.is_empty()).then(|| problem("parity", rows));
    suite.into_iter().chain(broken).collect()
}

fn verdict(run: &RunResults, summary: &Summary) -> &'static str {
    let complete = summary.pending + summary.not_run == 0 && run.unended.is_empty();
    match (summary.failed, complete) {
        (1.., _) => "red",
        (0, false) => "incomplete",
        (0, true) => "green",
    }
}

fn counts(summary: &Summary) -> Counts {
    let Summary { passed, failed, ignored, pending, not_gated, approved, new, specs, not_run, .. } = *summary;
    let declared = passed + failed + ignored + pending + not_gated + approved + new;
    Counts { declared, passed, failed, ignored, pending, not_gated, approved, new, specs, not_run }
}

fn problems(run: &RunResults) -> Vec<PageProblem> {
    let problem = |title: &str, text: &str| PageProblem { title: title.to_owned(), text: text.to_owned() };
    let discovery = run.discovery.iter().flatten().map(|text| problem("specs and fixtures", text));
    let broken = run.broken.iter().map(|spec| problem(&format!("spec {}", spec.id), &spec.text));
    let others = run.others.iter().map(|text| problem("suite", text));
    let unended = run.unended.iter().map(|target| {
        problem(&format!("suite {target}"), "has not ended: it is still running or was killed")
    });
    discovery.chain(broken).chain(others).chain(unended).collect()
}

fn environment_rows(run: &RunResults) -> Vec<EnvironmentRows> {
    let mut found: Vec<EnvironmentRows> = Vec::new();
    for environment in run.accounts().filter_map(|account| account.data.environment()) {
        let rows = rows_of(environment);
        if !found.contains(&rows) {
            found.push(rows);
        }
    }
    found
}

fn part_rows(part: &MergedPart) -> EnvironmentRows {
    let peak = |peak: &PeakMemory| match peak.machine {
        Some(machine) => format!("{} of {} in {}", words(peak.bytes), words(machine), peak.spec),
        None => format!("{} in {}", words(peak.bytes), peak.spec),
    };
    EnvironmentRows(vec![
        ("part", part.name.clone()),
        ("judged", format!("{} of {}", counted(part.trials, "trial"), counted(part.specs, "spec"))),
        ("selected", part.selected.clone()),
        ("ran on", part.environments.join("; ")),
        ("memory peak", part.peak.as_ref().map(peak).unwrap_or_default()),
        ("revision", part.checkout.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("started", part.started.clone()),
    ])
}

fn rows_of(environment: &Environment) -> EnvironmentRows {
    let variables: Vec<String> =
        environment.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let build = if environment.optimised { "optimised" } else { "not optimised" };
    EnvironmentRows(vec![
        ("MLX", environment.mlx.clone()),
        ("device", environment.device.clone()),
        ("chip", format!("{}, {} cores", environment.chip, environment.cores)),
        ("system", format!("{} {} {}", environment.os, environment.os_version, environment.arch)),
        ("port", build.to_owned()),
        ("mlx-parity", environment.mlx_parity.clone()),
        ("variables", variables.join(" ")),
    ])
}

fn against_run<'a>(against: &Against<'a>) -> AgainstRun<'a> {
    AgainstRun {
        name: against.name,
        revision: against.before.checkout.as_ref().map(ToString::to_string),
        environments: environments(against.before),
        line: summary_line(&against.before.summary()),
        gone: against.only_in_one().0,
    }
}
