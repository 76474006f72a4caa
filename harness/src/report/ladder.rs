//! The ladder of a spec: its checkpoints in execution order, so that the first wrong one is seen at a glance.

use std::fmt::Write as _;

use super::columns::{Columns, first_divergence};
use super::failure::pixels;
use super::finding::sentence;
use crate::printable::{clean, paint};
use crate::run::{Account, Inject, STATS, Verdict, has_stats};
use crate::spec::Spec;

/// The ladder as text, with ANSI colours or without.
///
/// What the run comes to stands at the top, in one sentence.
/// The first checkpoint that failed is marked, with the last green one before it. The trials beside the checkpoints
/// stand below them, then what else there is to say of the run.
pub(crate) fn ladder(spec: &Spec, account: &Account, colour: bool) -> String {
    let endings = &account.endings;
    let paint = |code: &str, text: &str| paint(colour, code, text);
    let mut text = paint("1", &spec.id);
    if let Some(about) = &spec.about {
        let _ = write!(text, "  {}", clean(about.trim_end()));
    }
    if let Some(sentence) = sentence(spec, account) {
        let _ = write!(text, "\n  {}", paint("1;31", &sentence));
    }
    let timed = endings.iter().any(|ending| ending.warm_millis.is_some());
    let width = endings.iter().map(|ending| ending.name.len()).max().unwrap_or(0).clamp(10, 48);
    let columns = Columns { what: "checkpoint", width, timed };
    let _ = write!(text, "\n  {:<9} {}", "", columns.heading());
    let first_red = endings.iter().position(|ending| matches!(ending.verdict, Verdict::Failed { .. }));
    for (position, ending) in endings.iter().enumerate() {
        let (word, code) = match &ending.verdict {
            Verdict::Passed => ("ok", "32"),
            Verdict::NotGated(_) => ("not gated", "33"),
            Verdict::Failed { class, .. } => (class.name(), "31"),
            Verdict::Pending(_) => ("pending", "33"),
        };
        let word = paint(code, &format!("{word:<9}"));
        let line =
            format!("\n  {word} {}", columns.row(&ending.name, ending.record.as_deref(), ending.warm_millis));
        text.push_str(line.trim_end());
        if let Some(image) = ending.record.as_ref().and_then(|record| record.image.as_ref()) {
            let _ = write!(text, "  {}", pixels(image));
        }
        if let Verdict::NotGated(Some(class)) = ending.verdict {
            let _ = write!(text, "  {class}, were it gated");
        }
        if first_red == Some(position) && spec.checkpoint(&ending.name).is_some() {
            let green = endings[..position].iter().rev().find(|before| before.verdict == Verdict::Passed);
            text.push_str(&paint("31", &first_divergence(green.map(|green| green.name.as_str()))));
        }
    }
    text.push('\n');
    for note in notes(spec, account) {
        let _ = writeln!(text, "  {}", clean(&note));
    }
    text
}

/// What there is to say of the run as a whole.
fn notes(spec: &Spec, account: &Account) -> Vec<String> {
    let (story, endings) = (&account.story, &account.endings);
    let mut notes = Vec::new();
    match story.inject() {
        Inject::All => {
            notes.push("INJECTED: every stage worked on golden inputs, errors are its own".to_owned())
        }
        inject if inject.any(spec) => {
            let names = spec.checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
            let taken: Vec<&str> = names.filter(|name| inject.takes(spec, name)).collect();
            notes.push(format!("INJECTED: the port went on with the goldens of {}", taken.join(", ")));
        }
        _ => {}
    }
    if let Some((name, after)) = story.out_of_order() {
        notes.push(format!("order: the port came to `{name}` after `{after}`, the reference before it"));
    }
    notes.extend(story.pending());
    notes.extend(story.late_death());
    if has_stats()
        && !story.is_stopped()
        && story.pending().is_none()
        && !endings.iter().any(|ending| ending.name == STATS)
    {
        notes.push("the port's statistics were not compared with their snapshot".to_owned());
    }
    notes
}
