//! The ladder of a spec: its checkpoints in execution order, with the first divergence marked.

use std::fmt::Write as _;

use super::by_eye::approved_words;
use super::columns::{Columns, first_divergence};
use super::failure::pixels;
use super::fold::{Row, folded, folded_words, outcome_word};
use super::localisation::sentence;
use super::red_spec::{counts_row, finding_rows, next_rows};
use crate::results::{Account, Localisation, STATS, TrialOutcome, TrialResult, has_stats};
use crate::spec::Inject;
use crate::text::printable::{clean, paint};

/// Which rows of a ladder are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Those of `Folded`. A red spec also gets the source lines, counts, and the commands to run next.
    Brief,
    /// Those of `Brief` without the commands, which the suite prints once.
    BelowTests,
    /// Those around the first divergence and the first faulty stage. Long runs of others are one row each.
    Folded,
    /// All of them.
    All,
}

/// How many further lines of a failing trial a folded ladder shows.
const MORE_LINES: usize = 4;

/// Returns the ladder as text, with ANSI colours if `colour` is set.
///
/// The first lines name the spec and, for a red run, the first faulty stage. With [`Rows::Brief`], the source lines of the
/// port and of the reference follow. One line per checkpoint comes next, in execution order. The first failing one is marked
/// and names the last green checkpoint before it. The other trials follow, then notes about the whole run. With
/// [`Rows::Brief`], a red spec ends with counts, the commands to run next, and the path of its log.
pub fn ladder(account: &Account, rows: Rows, colour: bool) -> String {
    ordered_ladder(account, rows, false, colour)
}

/// Returns [`ladder`], with its checkpoints from the last to the first if `backwards` is set.
pub(super) fn ordered_ladder(account: &Account, rows: Rows, backwards: bool, colour: bool) -> String {
    let spec = &account.spec;
    let paint = |code: &str, text: &str| paint(colour, code, text);
    let mut text = paint("1", &spec.id);
    if let Some(about) = &spec.about {
        let _ = write!(text, "  {}", clean(about.trim_end()));
    }
    if let Some(sentence) = sentence(account) {
        let _ = write!(text, "\n  {}", paint("1;31", &sentence));
    }
    let is_brief = matches!(rows, Rows::Brief | Rows::BelowTests) && account.is_red();
    let has_commands = is_brief && rows == Rows::Brief;
    if is_brief {
        finding_rows(account, &mut |label, value| {
            let _ = write!(text, "\n  {label:<8} {}", clean(value));
        });
    }
    let selected: Vec<&TrialResult> = account.selected().collect();
    let first_whole = selected.iter().position(|trial| spec.checkpoint(&trial.name).is_none());
    let (checkpoints, whole) = selected.split_at(first_whole.unwrap_or(selected.len()));
    let timed = selected.iter().any(|trial| trial.warm_millis.is_some());
    // Where the port did not run, no checkpoint diverged.
    let has_run = account.data.obstacles.is_empty();
    let first_red = checkpoints.iter().position(|trial| trial.is_failed()).filter(|_| has_run);
    let mut marks = marks(account, checkpoints, first_red);
    let mut shown = checkpoints.to_vec();
    if backwards {
        shown.reverse();
        marks.iter_mut().for_each(|at| *at = shown.len() - 1 - *at);
    }
    let rows = match rows {
        Rows::All => shown.iter().map(|trial| Row::Trial(trial)).collect(),
        Rows::Brief | Rows::BelowTests | Rows::Folded => folded(&shown, &marks),
    };
    let is_single = |row: &Row<'_>| matches!(row, Row::Trial(_));
    let width = rows.iter().filter_map(|row| if let Row::Trial(trial) = row { Some(trial) } else { None });
    let width = width.map(|trial| trial.name.len()).max().unwrap_or(0).clamp(10, 48);
    let columns = Columns { what: "checkpoint", width, timed };
    if rows.iter().any(is_single) {
        let _ = write!(text, "\n  {:<9} {}", "", columns.heading());
    }
    for row in &rows {
        match row {
            Row::Trial(trial) => {
                let word = word(&trial.outcome, colour);
                let cells = columns.row(&trial.name, trial.record.as_deref(), trial.warm_millis);
                text.push_str(format!("\n  {word} {cells}").trim_end());
                if let Some(image) = trial.record.as_ref().and_then(|record| record.image.as_ref()) {
                    let _ = write!(text, "  {}", pixels(image));
                }
                if let TrialOutcome::NotGated(Some(class)) = trial.outcome {
                    let _ = write!(text, "  would fail if gated: {class}");
                }
                if let TrialOutcome::Approved(by_eye) = &trial.outcome {
                    let _ = write!(text, "  {}", clean(&approved_words(by_eye)));
                }
                if let Some(at) = first_red.filter(|&at| std::ptr::eq(checkpoints[at], *trial)) {
                    let green =
                        checkpoints[..at].iter().rev().find(|before| before.outcome == TrialOutcome::Passed);
                    text.push_str(&paint("31", &first_divergence(green.map(|green| green.name.as_str()))));
                }
            }
            Row::Folded(trials) => {
                let (word, words) = folded_words(trials);
                let code = if trials.iter().any(|trial| trial.is_red()) { "31" } else { "32" };
                let _ = write!(text, "\n  {} {words}", paint(code, &format!("{word:<9}")));
            }
        }
    }
    whole_rows(account, whole, is_brief, colour, &mut text);
    text.push('\n');
    for note in notes(account) {
        let _ = writeln!(text, "  {}", clean(&note));
    }
    if is_brief {
        let _ = writeln!(text, "  {:<8} {}", "counts", counts_row(account));
    }
    if has_commands {
        next_rows(account, &mut |label, value| {
            let _ = writeln!(text, "  {label:<8} {}", clean(value));
        });
    }
    // Folded failures do not name the log, so the summary does, with or without advice.
    if let Some(log) = account.data.log().filter(|_| is_brief) {
        let _ = writeln!(text, "  {:<8} {}", "log", clean(&log.display().to_string()));
    }
    text
}

/// The positions of the first divergence and of the first faulty stage.
fn marks(account: &Account, checkpoints: &[&TrialResult], first_red: Option<usize>) -> Vec<usize> {
    let culprit = match account.localisation() {
        Some(Localisation::Culprit(culprit)) if account.is_red() => {
            checkpoints.iter().position(|trial| trial.name == culprit.name)
        }
        _ => None,
    };
    first_red.into_iter().chain(culprit).collect()
}

/// The rows of the trials about the spec as a whole. With `brief`, the green ones share a row, and the others state what is
/// wrong.
fn whole_rows(account: &Account, trials: &[&TrialResult], brief: bool, colour: bool, text: &mut String) {
    let is_wrong = account.is_wrong();
    let is_ok = |trial: &&&TrialResult| brief && trial.outcome == TrialOutcome::Passed;
    let green: Vec<_> = trials.iter().filter(is_ok).map(|trial| clean(&trial.name)).collect();
    if !green.is_empty() {
        let _ = write!(text, "\n  {} {}", paint(colour, "32", &format!("{:<9}", "ok")), green.join(", "));
    }
    for trial in trials.iter().filter(|trial| !is_ok(trial)) {
        let _ = write!(text, "\n  {} {}", word(&trial.outcome, colour), clean(&trial.name));
        match &trial.outcome {
            // The statistics of a wrong port are wrong, too.
            TrialOutcome::Failed { .. } if brief && is_wrong && account.has_changed_stats(trial) => {
                text.push_str("  a consequence of the failures above");
            }
            TrialOutcome::Failed { line, more, .. } if brief => {
                let _ = write!(text, "  {}", clean(&account.whole_line(line)));
                more_lines(more.as_deref(), text);
            }
            TrialOutcome::New(line) => {
                let _ = write!(text, "  {}", clean(line));
            }
            _ => {}
        }
    }
}

/// The first further lines of a failure, and the number of others.
fn more_lines(more: Option<&str>, text: &mut String) {
    let lines: Vec<&str> = more.into_iter().flat_map(str::lines).collect();
    for line in lines.iter().take(MORE_LINES) {
        let _ = write!(text, "\n            {}", clean(line));
    }
    if let Some(others @ 1..) = lines.len().checked_sub(MORE_LINES) {
        let _ = write!(text, "\n            … and {}", crate::spec::list::counted(others, "other line"));
    }
}

/// The outcome of a trial as the first column.
fn word(outcome: &TrialOutcome, colour: bool) -> String {
    let code = match outcome {
        TrialOutcome::Passed => "32",
        TrialOutcome::NotGated(_)
        | TrialOutcome::Approved(_)
        | TrialOutcome::New(_)
        | TrialOutcome::Pending(_) => "33",
        TrialOutcome::Failed { .. } => "31",
    };
    paint(colour, code, &format!("{:<9}", outcome_word(outcome)))
}

/// Notes about the whole run: injection, level, order, interruption, and a comparison of statistics that was not made.
pub(super) fn notes(account: &Account) -> Vec<String> {
    let Account { spec, data, .. } = account;
    let mut notes = Vec::new();
    match data.inject() {
        Inject::All => notes.push(
            "INJECTED: every stage received golden inputs, so each error belongs to its own stage".to_owned(),
        ),
        inject if inject.any(spec) => {
            let names = spec.checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
            let taken: Vec<&str> = names.filter(|name| inject.takes(spec, name)).collect();
            notes.push(format!("INJECTED: the port continued with the goldens of {}", taken.join(", ")));
        }
        _ => {}
    }
    if let Some(twin) = &account.spec.twin {
        let left = match twin.not_compared {
            0 => String::new(),
            count => format!(", without {}", crate::spec::list::counted(count, "checkpoint")),
        };
        notes.push(format!("twin: compared with `{}`{left}; \"golden\" means its tensors here", twin.of));
    }
    if let Some(count @ 1..) = Some(account.left_out()) {
        let what = if count == 1 { "1 checkpoint is" } else { &format!("{count} checkpoints are") };
        notes.push(format!("level: {what} not checked, because PARITY_LEVEL is below the spec's own level"));
    }
    if let Some((name, after)) = data.out_of_order() {
        notes.push(format!(
            "order: the port reached `{name}` after `{after}`, but the reference reaches it earlier"
        ));
    }
    notes.extend(data.pending());
    notes.extend(data.late_death());
    let is_partial = account.trials.iter().any(|trial| !trial.selected);
    if has_stats(&data.inject())
        && account.spec.twin.is_none()
        && !data.is_stopped()
        && !is_partial
        && account.left_out() == 0
        && data.pending().is_none()
        && account.trial(STATS).is_none()
    {
        notes.push("the port's statistics were not compared with their snapshot".to_owned());
    }
    notes
}
