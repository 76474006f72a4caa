//! The steps of the tutorial, in order: what each says, how it is solved, and how it is checked.

mod checkpoint;
mod inject;
mod red;
mod step;
mod trust;

use super::error::TutorialError;
use super::files::Changes;
use super::workshop::{Ran, Workshop};

/// One step.
#[derive(Debug, Clone)]
pub(super) struct Lesson {
    /// Its name in the progress and in `--list`.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What to look at, and what to do.
    pub(super) text: &'static str,
    /// More help.
    pub(super) hint: &'static str,
    pub(super) enter: Enter,
    /// What the learner has changed before this step.
    pub(super) before: Changes,
    /// Does what the learner should do, and returns the answer to the question, if the step asks one.
    pub(super) solve: fn(&Workshop) -> Result<String, TutorialError>,
    /// Checks whether the step is done; the text is the learner's answer.
    pub(super) check: fn(&Workshop, &str) -> Result<Checked, TutorialError>,
}

/// What the prompt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enter {
    /// Enter runs a command.
    Runs,
    /// The learner edits files, then Enter checks them.
    Checks,
    /// The learner answers a question.
    Answers,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The step is done; the text says what it showed.
    Done(String),
    /// The step is not done; the text says what is missing.
    NotYet(String),
}

impl Checked {
    fn done(text: &str) -> Result<Self, TutorialError> {
        Ok(Self::Done(text.to_owned()))
    }

    fn not_yet(text: impl Into<String>) -> Result<Self, TutorialError> {
        Ok(Self::NotYet(text.into()))
    }

    /// The crate did not compile, or the suite did not start.
    fn no_run() -> Result<Self, TutorialError> {
        Self::not_yet(
            "The suite did not run. The message above says why. If the crate does\n\
             not compile, correct it, or type `solve` to get the tutorial's version.",
        )
    }

    /// The run is red in places where this step expects green.
    fn unexpected(ran: &Ran) -> Result<Self, TutorialError> {
        Self::not_yet(format!(
            "The run did not end as this step expects. Not green: {}.\n\
             The report above has the details. `solve` gets you back on track.",
            ran.problems().join(", ")
        ))
    }
}

/// Every step.
pub(super) const LESSONS: &[Lesson] = &[
    red::RUN,
    red::DIAGNOSE,
    red::FIX,
    checkpoint::EVERYTHING,
    checkpoint::CHECKPOINT,
    inject::INJECT,
    step::STEP,
    inject::RECORD,
    trust::ACCEPT,
    trust::MUTATE,
    trust::TIGHTEN,
];

/// The learner's files with the mistake corrected.
const FIXED: Changes = Changes { eps: true, gated: false, gate: false };
/// The same, with the checkpoint `gated`.
const WITH_GATED: Changes = Changes { eps: true, gated: true, gate: false };

/// Returns what the learner has changed before the step with this id.
pub(super) fn changes_before(id: &str) -> Changes {
    position(id).map_or(Changes::FINISHED, |position| LESSONS[position].before)
}

/// Returns the position of the step with this id.
pub(super) fn position(id: &str) -> Option<usize> {
    LESSONS.iter().position(|lesson| lesson.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The widest line that a terminal of 80 columns shows without wrapping.
    const WIDTH: usize = 78;

    #[test]
    fn every_step_has_a_name_of_its_own_and_fits_the_terminal() {
        let ids: BTreeSet<&str> = LESSONS.iter().map(|lesson| lesson.id).collect();
        assert_eq!(ids.len(), LESSONS.len());
        for Lesson { id, text, hint, .. } in LESSONS {
            for line in text.lines().chain(hint.lines()) {
                assert!(line.chars().count() <= WIDTH, "{id}: {line}");
            }
            assert!(text.lines().count() <= 22, "{id} does not fit a small screen");
        }
    }

    #[test]
    fn the_text_of_every_step_reads_like_this() {
        let texts: Vec<String> = LESSONS
            .iter()
            .map(|lesson| {
                format!("## {}: {}\n\n{}\n\nhint:\n{}\n", lesson.id, lesson.title, lesson.text, lesson.hint)
            })
            .collect();
        insta::assert_snapshot!("steps", texts.join("\n"));
    }
}
