//! A whole run as text: every spec, and the problems that belong to no spec.

use std::iter;

use super::by_eye::approved_words;
use super::fold::most_used;
use super::ladder::{Rows, notes, ordered_ladder};
use super::peeks::peeks_text;
use super::{localisation_text, trial_text};
use crate::preflight::DISCOVERY;
use crate::results::{Account, Fate, RunResults, TrialOutcome, TrialResult};
use crate::spec::Inject;
use crate::spec::list::counted;
use crate::text::printable::{clean, indented, paint};

/// How much of a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Red specs, folded around the first divergence, below the texts of their failing tests.
    Red,
    /// Red specs, folded, and one line per green spec.
    Brief,
    /// Every checkpoint of every spec.
    All,
}

/// How many specs that were not run are listed; the rest is counted.
const NOT_RUN_SHOWN: usize = 4;

/// Returns the problems that belong to no spec, then the specs as `detail` asks for.
pub fn run_text(run: &RunResults, detail: Detail, colour: bool) -> String {
    let mut text = String::new();
    for problem in run.discovery.iter().flatten() {
        text.push_str(&format!("{DISCOVERY}  {}\n\n", indented(problem, 2)));
    }
    for broken in &run.broken {
        text.push_str(&format!("  {}\n\n", indented(&broken.text, 2)));
    }
    for other in &run.others {
        text.push_str(&format!("{}\n\n", indented(other, 2)));
    }
    let (mut green, mut not_run) = (Vec::new(), Vec::new());
    for spec in &run.specs {
        let id = clean(&spec.id);
        match &spec.fate {
            Fate::Ran(account) if is_one_line(account, detail) => {
                green.push(account);
                continue;
            }
            Fate::Ran(account) => {
                text.push_str(&spec_text(account, detail, run.is_backwards, colour));
                text.push_str(&peeks_text(account));
            }
            Fate::Ignored(_) if detail == Detail::Red => continue,
            Fate::Ignored(reason) => text.push_str(&format!("{id}  ignored: it {}\n", clean(reason))),
            Fate::Failed(problem) => text.push_str(&format!("{id}  {}\n", indented(problem, 2))),
            Fate::NotRun => {
                not_run.push(id);
                continue;
            }
            Fate::NotAsked => continue,
        }
        text.push('\n');
    }
    text.push_str(&green_text(&green, detail, colour));
    if !not_run.is_empty() {
        let shown = if detail == Detail::All { not_run.len() } else { NOT_RUN_SHOWN.min(not_run.len()) };
        let more = match not_run.len() - shown {
            0 => String::new(),
            more => format!(" and {}", counted(more, "other")),
        };
        text.push_str(&format!("not run: {}{more}\n\n", not_run[..shown].join(", ")));
    }
    for target in &run.unended {
        text.push_str(&format!(
            "the suite `{}` has not ended: it is still running or was killed\n\n",
            clean(target)
        ));
    }
    text
}

/// Whether the spec is green and needs no ladder.
fn is_one_line(account: &Account, detail: Detail) -> bool {
    let is_timed = account.selected().any(|trial| trial.warm_millis.is_some());
    detail != Detail::All && !account.is_red() && (detail == Detail::Red || !is_timed)
}

fn spec_text(account: &Account, detail: Detail, backwards: bool, colour: bool) -> String {
    let rows = match detail {
        Detail::Red => Rows::BelowTests,
        Detail::Brief => Rows::Brief,
        Detail::All => Rows::All,
    };
    let mut text = ordered_ladder(account, rows, backwards, colour);
    // A folded ladder of a red spec has it above the rows.
    if detail == Detail::All
        && let Some(found) = account.localisation()
    {
        text.push_str(&localisation_text(found, account.on_golden_inputs()));
    }
    text
}

/// One line per green spec, then its notes and what was peeked at. With [`Detail::Red`], only specs with something to say.
fn green_text(specs: &[&std::sync::Arc<Account>], detail: Detail, colour: bool) -> String {
    let width = specs.iter().map(|account| account.spec.id.len()).max().unwrap_or(0).min(48);
    let mut text = String::new();
    for account in specs {
        let localised = account.data.inject() == Inject::All;
        let mut below: String =
            notes(account).iter().map(|note| format!("            {}\n", clean(note))).collect();
        if localised && let Some(found) = account.localisation() {
            below += &format!(
                "            {}\n",
                clean(localisation_text(found, account.on_golden_inputs()).trim_end())
            );
        }
        let is_new = account.selected().any(|trial| matches!(trial.outcome, TrialOutcome::New(_)));
        let peeks = peeks_text(account);
        let is_approved = account.selected().any(|trial| matches!(trial.outcome, TrialOutcome::Approved(_)));
        if detail == Detail::Red && !localised && !is_new && !is_approved && peeks.is_empty() {
            continue;
        }
        let word = paint(colour, if is_new { "33" } else { "32" }, if is_new { "new" } else { "ok " });
        text += &format!(
            "  {word}       {:<width$}  {}\n{below}{peeks}",
            clean(&account.spec.id),
            green_line(account)
        );
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The counts of a green spec, and how near it came to a gate.
fn green_line(account: &Account) -> String {
    let (checkpoints, whole): (Vec<_>, Vec<_>) =
        account.selected().partition(|trial| account.spec.checkpoint(&trial.name).is_some());
    let mut parts = Vec::new();
    if !checkpoints.is_empty() {
        parts.push(counted(checkpoints.len(), "checkpoint"));
    }
    if !whole.is_empty() {
        parts.push(counted(whole.len(), "other trial"));
    }
    let ungated =
        checkpoints.iter().filter(|trial| matches!(trial.outcome, TrialOutcome::NotGated(_))).count();
    if ungated > 0 {
        parts.push(format!("{ungated} not gated"));
    }
    let approved: Vec<&TrialResult> = checkpoints
        .iter()
        .copied()
        .filter(|trial| matches!(trial.outcome, TrialOutcome::Approved(_)))
        .collect();
    if !approved.is_empty() {
        parts.push(format!("{} approved by eye", approved.len()));
    }
    let mut text = parts.join(", ");
    if let Some(most) = most_used(
        checkpoints.iter().copied().filter(|trial| !matches!(trial.outcome, TrialOutcome::Approved(_))),
    ) {
        text += &format!("; {most}");
    }
    for trial in approved {
        if let TrialOutcome::Approved(by_eye) = &trial.outcome {
            text += &format!("; `{}` {}", clean(&trial.name), clean(&approved_words(by_eye)));
        }
    }
    for trial in whole {
        if let TrialOutcome::New(line) = &trial.outcome {
            text += &format!("; {}: {}", trial.name, clean(line));
        }
    }
    text
}

/// Returns the text of every failing or pending trial, one after the other.
pub fn failures(run: &RunResults) -> String {
    let mut text = String::new();
    for account in run.accounts() {
        for trial in account.selected() {
            let failure = trial_text(account, trial, &run.target);
            if !failure.is_empty() {
                text.push_str(&format!(
                    "---- {}::{} ----\n{failure}\n",
                    clean(&account.spec.id),
                    clean(&trial.name)
                ));
            }
        }
    }
    text
}

/// Returns one line per distinct environment that the specs ran in. For a merged run, returns its parts, each with its own
/// environment.
pub fn environments(run: &RunResults) -> Vec<String> {
    if let Some(merged) = &run.merged {
        let parts = merged.parts.iter().map(|part| format!("  {part}"));
        return iter::once(format!("merged from {}:", counted(merged.parts.len(), "run")))
            .chain(parts)
            .collect();
    }
    let environments = run.accounts().filter_map(|account| account.data.environment());
    let mut lines: Vec<String> =
        environments.map(|environment| clean(&environment.to_string()).into_owned()).collect();
    lines.sort();
    lines.dedup();
    lines
}
