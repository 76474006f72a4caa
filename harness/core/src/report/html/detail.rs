//! What the page shows of one trial that is red, or whose picture was approved by eye.

use serde::Serialize;

use super::data_address;
use crate::compare::{Choices, Difference, Metrics, Stats, Worst};
use crate::details::Details;
use crate::diagnose::{Cause, Fact};
use crate::number::{Short, percent};
use crate::record::Record;
use crate::report::by_eye::{approved_words, by_eye_text};
use crate::report::localisation::{cause_text, fact_text};
use crate::report::rerun::rerun;
use crate::report::words::multiple;
use crate::results::{Account, Localisation, TrialOutcome, TrialResult};

/// How many red trials of a page have details.
const MOST_DETAILS: usize = 300;
/// How many bytes of histograms, heat maps, values and lines of source a page holds at most.
const MOST_BYTES: usize = 2 << 20;
/// How many bytes of pictures a page holds at most, and how many one picture may have.
const MOST_PICTURES: usize = 3 << 19;
const MOST_PICTURE: u64 = 256 << 10;

/// What the details of a page may still cost.
pub(super) struct DetailBudget {
    details: usize,
    bytes: usize,
    pictures: usize,
    /// How many red trials got no details.
    pub(super) left_out: usize,
}

impl Default for DetailBudget {
    fn default() -> Self {
        Self { details: MOST_DETAILS, bytes: MOST_BYTES, pictures: MOST_PICTURES, left_out: 0 }
    }
}

/// The details of one red trial.
#[derive(Serialize)]
pub(super) struct RowDetail<'a> {
    /// The failure in a few words.
    headline: &'static str,
    /// Further lines, such as the end of the worker's output.
    more: Option<&'a str>,
    causes: Vec<CauseData>,
    facts: Vec<String>,
    /// Whether this is the first faulty stage.
    faulty: bool,
    /// Whether the checkpoint is also red on golden inputs; absent without a second pass.
    red_on_golden_inputs: Option<bool>,
    expected: Option<String>,
    why: Option<&'a str>,
    rerun: String,
    actual_file: Option<String>,
    /// Pairs of a label and the numbers of golden and actual.
    sides: Vec<(&'static str, String, String)>,
    /// Pairs of a label and a number.
    numbers: Vec<(&'static str, String)>,
    worst: Vec<WorstData>,
    pictures: Option<Pictures>,
    /// Who approved the picture and why, or what a person can do about it.
    by_eye: Option<String>,
    /// Values, histogram, heat map and lines of source, as the worker wrote them.
    #[serde(flatten)]
    kept: Details,
    /// Why the file of details cannot be read.
    problem: Option<String>,
}

#[derive(Serialize)]
struct CauseData {
    text: String,
    next: &'static str,
}

#[derive(Serialize)]
struct WorstData {
    index: String,
    expected: String,
    actual: String,
    off: String,
    used: Option<String>,
}

#[derive(Serialize)]
struct Pictures {
    text: String,
    golden: String,
    actual: String,
    diff: String,
}

/// Returns the details of a red trial or an approved picture; `None` for any other trial, and when the page is full.
pub(super) fn detail<'a>(
    account: &'a Account,
    trial: &'a TrialResult,
    target: &str,
    budget: &mut DetailBudget,
) -> Option<Box<RowDetail<'a>>> {
    let (headline, more) = match &trial.outcome {
        TrialOutcome::Failed { class, more, .. } => (class.headline(), more.as_deref()),
        TrialOutcome::Pending(_) => ("pending", None),
        TrialOutcome::Approved(_) => ("approved by eye", None),
        _ => return None,
    };
    let Some(left) = budget.details.checked_sub(1) else {
        budget.left_out += 1;
        return None;
    };
    budget.details = left;
    let record = trial.record.as_deref();
    let local = account.local.as_deref().and_then(|local| local.trial(&trial.name));
    let on_golden = account.on_golden_inputs().trial(&trial.name).and_then(|trial| trial.record.as_deref());
    let (mut causes, mut facts): (Vec<&Cause>, Vec<&Fact>) = (Vec::new(), Vec::new());
    let mut faulty = false;
    if let Some(Localisation::Culprit(culprit)) = account.localisation()
        && culprit.name == trial.name
    {
        faulty = true;
        causes.extend(&culprit.causes);
        facts.extend(&culprit.facts);
    } else if let Some(record) = on_golden {
        causes.extend(&record.causes);
        facts.extend(&record.facts);
    }
    let (kept, problem) = kept(account, record, on_golden, budget);
    let metrics = record.and_then(|record| record.metrics.as_ref());
    let difference = metrics.and_then(|metrics| metrics.difference.as_ref());
    let is_of_ids = record.is_some_and(Record::is_of_ids);
    Some(Box::new(RowDetail {
        headline,
        more,
        causes: causes
            .into_iter()
            .map(|cause| CauseData { text: cause_text(cause), next: cause.kind.next() })
            .collect(),
        facts: facts.into_iter().map(fact_text).collect(),
        faulty,
        red_on_golden_inputs: local.map(|local| matches!(local.outcome, TrialOutcome::Failed { .. })),
        expected: record
            .and_then(|record| record.expected.as_ref())
            .map(|expected| format!("{} {:?}", expected.dtype, expected.shape)),
        why: account.spec.checkpoint(&trial.name).and_then(|checkpoint| checkpoint.why.as_deref()),
        rerun: rerun(account, trial, target),
        actual_file: trial.actual.as_ref().map(|path| path.display().to_string()),
        sides: metrics.map(|metrics| sides(metrics.expected.as_ref(), &metrics.actual)).unwrap_or_default(),
        numbers: metrics.map(|metrics| numbers(metrics, is_of_ids)).unwrap_or_default(),
        worst: difference
            .filter(|_| !is_of_ids)
            .map(|difference| difference.worst.iter().map(worst).collect())
            .unwrap_or_default(),
        pictures: record.and_then(|record| pictures(account, record, budget)),
        by_eye: match &trial.outcome {
            TrialOutcome::Approved(by_eye) => Some(approved_words(by_eye)),
            TrialOutcome::Failed { .. } => by_eye_text(account, trial),
            _ => None,
        },
        kept,
        problem,
    }))
}

/// The details that the worker wrote: of the judged pass, with the lines of the reference from the pass on golden inputs,
/// which knows the cause.
fn kept(
    account: &Account,
    record: Option<&Record>,
    on_golden: Option<&Record>,
    budget: &mut DetailBudget,
) -> (Details, Option<String>) {
    let mut problem = None;
    let mut read = |account: &Account, record: Option<&Record>| {
        let read = record.map(|record| account.data.folder().read_details(&record.checkpoint, record.hit));
        match read.transpose() {
            Ok(details) => details.flatten(),
            Err(error) => {
                problem = Some(crate::text::error_chain(&error));
                None
            }
        }
    };
    let mut details = read(account, record).unwrap_or_default();
    if account.local.is_some()
        && let Some(local) = read(account.on_golden_inputs(), on_golden)
    {
        details.reference = local.reference.or(details.reference);
        details.error = details.error.or(local.error);
    }
    let size = serde_json::to_vec(&details).map_or(usize::MAX, |bytes| bytes.len());
    match budget.bytes.checked_sub(size) {
        Some(left) => {
            budget.bytes = left;
            (details, problem)
        }
        None => (Details::default(), problem),
    }
}

fn pictures(account: &Account, record: &Record, budget: &mut DetailBudget) -> Option<Pictures> {
    let image = record.image.as_ref()?;
    let read = |kind| account.data.folder().read_picture(&record.checkpoint, record.hit, kind, MOST_PICTURE);
    let (golden, actual, diff) = (read("golden")?, read("actual")?, read("diff")?);
    budget.pictures = budget.pictures.checked_sub(golden.len() + actual.len() + diff.len())?;
    Some(Pictures {
        text: crate::report::failure::pixels(image),
        golden: data_address(&golden),
        actual: data_address(&actual),
        diff: data_address(&diff),
    })
}

fn worst(worst: &Worst) -> WorstData {
    WorstData {
        index: format!("{:?}", worst.index),
        expected: worst.expected.to_string(),
        actual: worst.actual.to_string(),
        off: Short(worst.distance).to_string(),
        used: worst.used.map(multiple),
    }
}

fn sides(expected: Option<&Stats>, actual: &Stats) -> Vec<(&'static str, String, String)> {
    type Number = fn(&Stats) -> f64;
    let rows: [(&'static str, Number); 5] = [
        ("min", |stats| stats.min),
        ("max", |stats| stats.max),
        ("mean", |stats| stats.mean),
        ("std", |stats| stats.std),
        ("abs max", |stats| stats.absmax),
    ];
    let shown = |stats: Option<&Stats>, number: Number| {
        stats.map_or_else(|| "none".to_owned(), |stats| Short(number(stats)).to_string())
    };
    let mut found: Vec<(&'static str, String, String)> = rows
        .into_iter()
        .map(|(label, number)| (label, shown(expected, number), shown(Some(actual), number)))
        .collect();
    let counts = |stats: &Stats| (stats.nan, stats.positive_infinity + stats.negative_infinity);
    let (before, after) = (expected.map_or((0, 0), counts), counts(actual));
    if before.0 + after.0 > 0 {
        found.push(("NaN", before.0.to_string(), after.0.to_string()));
    }
    if before.1 + after.1 > 0 {
        found.push(("infinite", before.1.to_string(), after.1.to_string()));
    }
    found
}

fn numbers(metrics: &Metrics, is_of_ids: bool) -> Vec<(&'static str, String)> {
    let mut rows = metrics.choices.as_ref().map(of_choices).unwrap_or_default();
    rows.extend(metrics.difference.as_ref().filter(|_| !is_of_ids).map(of_values).unwrap_or_default());
    rows
}

fn of_choices(choices: &Choices) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("rows", choices.rows.to_string()),
        ("equal choices", choices.equal.to_string()),
        ("ties", choices.ties.to_string()),
        ("decided differences", choices.decided.to_string()),
    ];
    if let Some(divergence) = &choices.divergence {
        let short = |x: f64| Short(x).to_string();
        rows.extend([
            ("KL mean", short(divergence.mean)),
            ("KL p99", short(divergence.p99)),
            ("KL max", short(divergence.max)),
        ]);
    }
    rows.extend(choices.overlap.map(|overlap| ("top-k overlap", percent(overlap))));
    rows
}

fn of_values(difference: &Difference) -> Vec<(&'static str, String)> {
    let short = |x: f64| Short(x).to_string();
    let mut rows = Vec::new();
    if let Some(used) = difference.used {
        rows.push(("of the gate", multiple(used)));
    }
    if let Some(times) = &difference.times_floor {
        rows.push(("floor, rms", multiple(times.rms)));
        rows.push(("floor, max", multiple(times.max)));
    }
    if let Some(outside) = difference.mismatched {
        let part = difference.mismatched_fraction.map(|part| format!(" ({})", percent(part)));
        rows.push(("outside", format!("{outside}{}", part.unwrap_or_default())));
    }
    rows.extend([
        ("max error", short(difference.max_abs)),
        ("rms error", short(difference.rms)),
        ("mean error", short(difference.mean_abs)),
        ("max relative", percent(difference.max_rel)),
        ("relative L2", short(difference.relative_l2)),
        ("cosine", short(difference.cosine)),
        ("correlation", short(difference.pcc)),
        ("range ratio", short(difference.range_ratio)),
        ("equal", percent(difference.exact_fraction)),
    ]);
    if let Some(ulp) = difference.max_ulp {
        rows.push(("max ulp", ulp.to_string()));
    }
    rows
}
