//! One run against another, as text.

use std::fmt::Write as _;

use super::columns::percent;
use super::words::multiple;
use super::{environments, summary_line};
use crate::files::size;
use crate::number::Short;
use crate::results::{Against, Measured, RunResults, TrialChange, TrialOutcome};
use crate::spec::list::counted;
use crate::text::printable::{clean, paint};

/// How many changed trials, and how many names of trials in one run only, the text shows; it counts the rest.
const SHOWN: usize = 40;
/// The least change of time or memory that a line shows, as a factor.
const NOTABLE: f64 = 1.1;

/// Returns what changed per trial, worst first: both environments, trials that turned red, trials that were fixed, changes of
/// the used part of the gate, of multiples of the floor and of statistics, then time and memory of the whole.
pub fn against_text(against: &Against<'_>, colour: bool) -> String {
    let paint = |code: &str, text: &str| paint(colour, code, text);
    let mut text = paint("1", &format!("against {}", against.name)) + "\n";
    for (label, run) in [("before", against.before), ("now", against.now)] {
        let _ = writeln!(text, "  {label:<7} {}", clean(&about(run)));
    }
    let changes = against.changes();
    let changed: Vec<&TrialChange> = changes.iter().filter(|change| change.differs()).collect();
    for change in changed.iter().take(SHOWN) {
        let (word, code) = match change {
            change if change.is_newly_red() => ("now red", "31"),
            change if change.is_fixed() => ("fixed", "32"),
            change if change.growth() > 1.0 => ("more", "33"),
            change if change.growth() < 1.0 => ("less", "32"),
            _ => ("other", "33"),
        };
        let name = format!("{}::{}", change.spec, change.trial);
        let _ = writeln!(text, "  {} {}", paint(code, &format!("{word:<9}")), clean(&name));
        let _ = writeln!(text, "            {}", clean(&numbers(change)));
    }
    match changed.len() {
        0 => text.push_str("  every trial that both runs have has the same outcome and the same numbers\n"),
        more if more > SHOWN => {
            let _ = writeln!(
                text,
                "  and {} less changed; report.html has them all",
                counted(more - SHOWN, "trial")
            );
        }
        _ => {}
    }
    let (gone, new) = against.only_in_one();
    for (what, names) in [("only before", gone), ("only now", new)] {
        if !names.is_empty() {
            let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = writeln!(text, "  {what}: {}{more}", clean(&shown.join(", ")));
        }
    }
    let _ = writeln!(text, "  {}", resources(&changes));
    text
}

/// The counts, the environment and the commit of a run.
fn about(run: &RunResults) -> String {
    let mut parts = vec![summary_line(&run.summary())];
    match &run.merged {
        Some(merged) => parts.push(format!("merged from {}", counted(merged.parts.len(), "run"))),
        None => parts.extend(environments(run)),
    }
    parts.extend(run.checkout.as_ref().map(ToString::to_string));
    parts.push(format!("started {}", run.started));
    parts.join("; ")
}

/// The numbers of a trial that differ, from before to now.
fn numbers(change: &TrialChange) -> String {
    let (before, now) = (&change.before, &change.now);
    let mut parts = Vec::new();
    let mut add = |label: &str, from: Option<String>, to: Option<String>| {
        if from != to {
            let none = || "none".to_owned();
            parts.push(format!("{label} {} -> {}", from.unwrap_or_else(none), to.unwrap_or_else(none)));
        }
    };
    add("outcome", Some(outcome(before)), Some(outcome(now)));
    add("used", before.used.map(percent), now.used.map(percent));
    add("floor", before.floor.map(multiple), now.floor.map(multiple));
    let short = |number: Option<f64>| number.map(|number| Short(number).to_string());
    add("mean", short(before.mean), short(now.mean));
    add("std", short(before.std), short(now.std));
    if let (Some(from), Some(to)) = (before.millis, now.millis)
        && (to > NOTABLE * from || from > NOTABLE * to)
    {
        add("ms", Some(format!("{from:.3}")), Some(format!("{to:.3}")));
    }
    if parts.is_empty() { "differs in the last digits".to_owned() } else { parts.join(", ") }
}

fn outcome(side: &Measured) -> String {
    match &side.outcome {
        TrialOutcome::Passed => "ok".to_owned(),
        TrialOutcome::New(_) => "new".to_owned(),
        TrialOutcome::Approved(_) => "by eye".to_owned(),
        TrialOutcome::NotGated(_) => "not gated".to_owned(),
        TrialOutcome::Failed { class, .. } => class.name().to_owned(),
        TrialOutcome::Pending(_) => "pending".to_owned(),
    }
}

/// Time and memory over all trials that both runs have.
fn resources(changes: &[TrialChange]) -> String {
    let time = |side: fn(&TrialChange) -> &Measured| {
        changes
            .iter()
            .filter_map(|change| side(change).millis)
            .filter(|millis| millis.is_finite())
            .sum::<f64>()
    };
    let peak =
        |side: fn(&TrialChange) -> &Measured| changes.iter().filter_map(|change| side(change).peak).max();
    let before: fn(&TrialChange) -> &Measured = |change| &change.before;
    let now: fn(&TrialChange) -> &Measured = |change| &change.now;
    let mut text = format!(
        "{}: {:.1} ms -> {:.1} ms in the stages",
        counted(changes.len(), "trial"),
        time(before),
        time(now)
    );
    if let (Some(from), Some(to)) = (peak(before), peak(now)) {
        let _ = write!(text, ", peak memory {} -> {}", size::words(from), size::words(to));
    }
    text
}
