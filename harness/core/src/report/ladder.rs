//! The ladder of a spec: its checkpoints in execution order, with the first divergence marked.

use std::fmt::Write as _;

use super::columns::{Columns, first_divergence};
use super::failure::pixels;
use super::localisation::sentence;
use crate::results::{Account, STATS, TrialOutcome, has_stats};
use crate::spec::Inject;
use crate::text::printable::{clean, paint};

/// Returns the ladder as text, with ANSI colours if `colour` is set.
///
/// The first lines name the spec and, for a red run, the first faulty stage. One line per checkpoint follows, in
/// execution order. The first failing one is marked and names the last green checkpoint before it. The other trials
/// come next, then notes about the whole run.
pub fn ladder(account: &Account, colour: bool) -> String {
    let (spec, trials) = (&account.spec, &account.trials);
    let paint = |code: &str, text: &str| paint(colour, code, text);
    let mut text = paint("1", &spec.id);
    if let Some(about) = &spec.about {
        let _ = write!(text, "  {}", clean(about.trim_end()));
    }
    if let Some(sentence) = sentence(account) {
        let _ = write!(text, "\n  {}", paint("1;31", &sentence));
    }
    let timed = trials.iter().any(|trial| trial.warm_millis.is_some());
    let width = trials.iter().map(|trial| trial.name.len()).max().unwrap_or(0).clamp(10, 48);
    let columns = Columns { what: "checkpoint", width, timed };
    let _ = write!(text, "\n  {:<9} {}", "", columns.heading());
    let first_red = trials.iter().position(|trial| matches!(trial.outcome, TrialOutcome::Failed { .. }));
    for (position, trial) in trials.iter().enumerate() {
        let (word, code) = match &trial.outcome {
            TrialOutcome::Passed => ("ok", "32"),
            TrialOutcome::NotGated(_) => ("not gated", "33"),
            TrialOutcome::Failed { class, .. } => (class.name(), "31"),
            TrialOutcome::Pending(_) => ("pending", "33"),
        };
        let word = paint(code, &format!("{word:<9}"));
        let line =
            format!("\n  {word} {}", columns.row(&trial.name, trial.record.as_deref(), trial.warm_millis));
        text.push_str(line.trim_end());
        if let Some(image) = trial.record.as_ref().and_then(|record| record.image.as_ref()) {
            let _ = write!(text, "  {}", pixels(image));
        }
        if let TrialOutcome::NotGated(Some(class)) = trial.outcome {
            let _ = write!(text, "  would fail if gated: {class}");
        }
        if first_red == Some(position) && spec.checkpoint(&trial.name).is_some() {
            let green = trials[..position].iter().rev().find(|before| before.outcome == TrialOutcome::Passed);
            text.push_str(&paint("31", &first_divergence(green.map(|green| green.name.as_str()))));
        }
    }
    text.push('\n');
    for note in notes(account) {
        let _ = writeln!(text, "  {}", clean(&note));
    }
    text
}

/// Notes about the whole run: injection, order, interruption, and a comparison of statistics that was not made.
fn notes(account: &Account) -> Vec<String> {
    let Account { spec, data, trials, .. } = account;
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
    if let Some((name, after)) = data.out_of_order() {
        notes.push(format!(
            "order: the port reached `{name}` after `{after}`, but the reference reaches it earlier"
        ));
    }
    notes.extend(data.pending());
    notes.extend(data.late_death());
    if has_stats(&data.inject())
        && !data.is_stopped()
        && data.pending().is_none()
        && !trials.iter().any(|trial| trial.name == STATS)
    {
        notes.push("the port's statistics were not compared with their snapshot".to_owned());
    }
    notes
}
