//! What a red spec needs said in a few lines: where to look in the port and in the reference, counts, and what to run next.

use std::collections::BTreeMap;

use super::localisation::{also_red, between_text, cause_text, closer_text, fact_text, next_of};
use crate::details::Excerpt;
use crate::gate::{Class, Gate, Phase};
use crate::record::Record;
use crate::results::{Account, Culprit, Localisation, TrialOutcome, TrialResult};
use crate::spec::list::counted;
use crate::text::program::program;

/// How many characters of a source line are printed.
const SOURCE_WIDTH: usize = 120;
/// How many lines of the port's output are printed.
const OUTPUT_LINES: usize = 8;

/// Writes the rows about the first faulty stage that the sentence at the top leaves out.
pub(super) fn finding_rows(account: &Account, row: &mut impl FnMut(&str, &str)) {
    let culprit = match account.localisation() {
        Some(Localisation::Culprit(culprit)) => Some(culprit),
        _ => None,
    };
    // Where the port did not run, the sentence above says why.
    if let Some(main) = account.main_failure().filter(|_| account.data.obstacles.is_empty()) {
        what_rows(main, row);
    }
    if let Some(culprit) = culprit {
        for cause in culprit.causes.iter().skip(1) {
            row("or", &format!("its output is {}", cause_text(cause)));
        }
        for fact in &culprit.facts {
            row("fact", &fact_text(fact));
        }
        if let Some(next) = next_of(&culprit.causes, &culprit.facts) {
            row("look at", next);
        }
    }
    source_rows(account, row);
    if let Some(culprit) = culprit {
        place_rows(account, culprit, row);
    }
}

/// Writes between which taps the first faulty stage lies, how to narrow that down, and which later stages are wrong, too.
pub(super) fn place_rows(account: &Account, culprit: &Culprit, row: &mut impl FnMut(&str, &str)) {
    let local = account.on_golden_inputs();
    if culprit.class != Class::Crash {
        row("between", &between_text(culprit, local));
    }
    if let Some(closer) = closer_text(&account.spec, culprit) {
        row("closer", &closer);
    }
    also_red(culprit, local, row);
}

/// Writes what happened, unless the numbers of the ladder show it: another shape, a crash with the end of its output.
fn what_rows(trial: &TrialResult, row: &mut impl FnMut(&str, &str)) {
    let TrialOutcome::Failed { class, line, more } = &trial.outcome else { return };
    let has_choices = |record: &Record| record.gate.as_ref().is_some_and(Gate::is_of_choices);
    if matches!(class, Class::Value) && trial.record.as_ref().is_some_and(|record| !has_choices(record)) {
        return;
    }
    match class {
        // The stage that was to come next says nothing about a crash.
        Class::Crash => row("what", line),
        _ => row("what", &format!("`{}`: {line}", trial.name)),
    }
    let lines: Vec<&str> = more.iter().flat_map(|more| more.lines()).collect();
    for line in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
        row("", line);
    }
}

/// Writes the source line of the tap in the port, and the line of the reference, each with its text: those of the first
/// faulty stage, or else of the first divergence.
pub(super) fn source_rows(account: &Account, row: &mut impl FnMut(&str, &str)) {
    let Some(name) = (match account.localisation() {
        Some(Localisation::Culprit(culprit)) => Some(culprit.name.as_str()),
        // A golden that is missing or changed says nothing about the port.
        _ => account.main_failure().filter(is_of_the_port).map(|trial| trial.name.as_str()),
    }) else {
        return;
    };
    let of = |account: &Account| {
        let record = account.trial(name)?.record.clone()?;
        let details = account.data.folder().read_details(&record.checkpoint, record.hit).ok().flatten();
        Some((record, details.unwrap_or_default()))
    };
    let (golden, free) = (of(account.on_golden_inputs()), of(account));
    let location = golden.iter().chain(&free).find_map(|(record, _)| record.location.as_ref());
    let place = location.map(|place| format!("{}:{}", place.file, place.line));
    let excerpt = golden.iter().chain(&free).find_map(|(_, details)| details.port.as_ref());
    source_row("port", place, excerpt, row);
    let cause = golden.iter().find_map(|(record, _)| record.causes.first()?.place.clone());
    let excerpt = golden.iter().chain(&free).find_map(|(_, details)| details.reference.as_ref());
    source_row("reference", cause, excerpt, row);
}

/// Whether the port produced something that failed.
fn is_of_the_port(trial: &&TrialResult) -> bool {
    matches!(&trial.outcome, TrialOutcome::Failed { class, .. } if class.phase() >= Phase::Form)
}

/// Writes one source line: its place, and its text if the run folder has it.
fn source_row(
    label: &str,
    place: Option<String>,
    excerpt: Option<&Excerpt>,
    row: &mut impl FnMut(&str, &str),
) {
    let text = excerpt.and_then(|excerpt| {
        let line = excerpt.lines.get(excerpt.line.checked_sub(excerpt.first)? as usize)?;
        Some(line.trim().chars().take(SOURCE_WIDTH).collect::<String>())
    });
    let place = excerpt.map(|excerpt| format!("{}:{}", excerpt.file, excerpt.line)).or(place);
    match (place, text) {
        (Some(place), Some(text)) => row(label, &format!("{place} | {text}")),
        (Some(place), None) => row(label, &place),
        (None, _) => {}
    }
}

/// The number of failing checkpoints, by class, and of the other trials.
pub(super) fn counts_row(account: &Account) -> String {
    let (checkpoints, whole): (Vec<&TrialResult>, Vec<&TrialResult>) =
        account.selected().partition(|trial| account.spec.checkpoint(&trial.name).is_some());
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut pending, mut ungated, mut approved) = (0, 0, 0);
    for trial in &checkpoints {
        match &trial.outcome {
            TrialOutcome::Failed { class, .. } => *classes.entry(class.name()).or_default() += 1,
            TrialOutcome::Pending(_) => pending += 1,
            TrialOutcome::NotGated(_) => ungated += 1,
            TrialOutcome::Approved(_) => approved += 1,
            TrialOutcome::Passed | TrialOutcome::New(_) => {}
        }
    }
    let failed: usize = classes.values().sum();
    let mut text = format!("{failed} of {} failed", counted(checkpoints.len(), "checkpoint"));
    if failed > 0 {
        let each: Vec<String> = classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
        text += &format!(" ({})", each.join(", "));
    }
    for (count, what) in [(ungated, "not gated"), (approved, "approved by eye"), (pending, "pending")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if !whole.is_empty() {
        let is_failed = |trial: &&&TrialResult| matches!(trial.outcome, TrialOutcome::Failed { .. });
        let is_pending = |trial: &&&TrialResult| matches!(trial.outcome, TrialOutcome::Pending(_));
        let failed = whole.iter().filter(is_failed).count();
        text += &format!("; {failed} of {} failed", counted(whole.len(), "other trial"));
        let pending = whole.iter().filter(is_pending).count();
        if pending > 0 {
            text += &format!(", {pending} pending");
        }
    }
    text
}

/// Writes the commands to run next.
pub(super) fn next_rows(account: &Account, row: &mut impl FnMut(&str, &str)) {
    let program = program();
    let failures =
        (format!("{program} report --failures"), "the text of every failing test; --all: every checkpoint");
    let diagnose = (format!("{program} diagnose {}", account.spec.id), "what went wrong first, and why");
    // Where nothing was compared, there is nothing to diagnose.
    let commands = match account.data.obstacles.is_empty() {
        true => vec![diagnose, failures],
        false => vec![failures],
    };
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (label, (command, what)) in ["next", ""].into_iter().zip(&commands) {
        row(label, &format!("{command:<width$}   {what}"));
    }
}
