//! Walk through the port, checkpoint by checkpoint.

use super::inject::MISTAKEN;
use super::red::{WRONG, eps};
use super::{Checked, Enter, Lesson};
use crate::tutorial::error::TutorialError;
use crate::tutorial::files::PORT;
use crate::tutorial::workshop::{SPEC_ID, Workshop};
use mlx_parity_core::debug::Stop;
use mlx_parity_core::record::Status;

/// The commands of the session, one per line. The end-to-end tests give them to every front.
const SCRIPT: &str = include_str!("../crate/divergence.txt");

pub(super) const STEP: Lesson = Lesson {
    id: "step",
    title: "Step to the divergence",
    text: "\
The port still has its mistake. Now walk through it:

  cargo parity debug gated_mlp/block

This command starts the port and stops at its taps. While the port stands, you
can look at every tensor, compute with it, and change it. Open a second
terminal in the tutorial's folder, and type these lines at the prompt:

  break failed        stop at the first checkpoint that fails
  continue
  location            the lines of the port and of the reference
  diagnose            the cause
  inject              go on with the golden instead
  next                the next checkpoint
  continue            to the end

Or press Enter, and the tutorial types them for you.",
    hint: "\
Watch what `next` shows: `gated` is green now, because its input is right.
`help` lists every command. `terminate` ends a session; only one can run at a
time.",
    enter: Enter::Runs,
    before: MISTAKEN,
    solve: |workshop| workshop.put(MISTAKEN).map(|()| String::new()),
    check,
};

fn check(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    if let Some((line, found)) = eps(&workshop.port()?)
        && found != WRONG
    {
        return Checked::not_yet(format!(
            "Line {line} of `{PORT}` has an eps of {found:e}, so nothing fails. Write 1e-5 for this step."
        ));
    }
    let stops = workshop.debug(SPEC_ID, SCRIPT)?;
    let stood = |name: &str, status: Status| stops.iter().any(|stop| is_at(stop, name, status));
    if !stood("norm", Status::Fail) || !stood("gated", Status::Pass) {
        return Checked::not_yet(
            "The session did not stop at a red `norm` and then at a green `gated`. If another\n\
             session goes on, end it with `terminate`. `solve` gets you back on track.",
        );
    }
    Checked::done(
        "Read the session from its top:\n\n\
         - `continue` stopped at `norm`, the first checkpoint that fails. In a deep model,\n  \
           that is one command and no search.\n\
         - `location` shows the line of the port beside the line of the reference, and\n  \
           `diagnose` names the cause.\n\
         - After `inject`, `gated` is green. So `norm` is the only faulty stage so far.\n\n\
         A session judges nothing: only a run does. Its trace stays in\n\
         `target/parity/debug/`, and `cargo parity report` prints it.",
    )
}

fn is_at(stop: &Stop, name: &str, status: Status) -> bool {
    stop.tap.as_ref().is_some_and(|tap| tap.name == name && tap.status == Some(status))
}

#[cfg(test)]
mod tests {
    use super::super::FIXED;
    use super::*;

    #[test]
    fn the_text_has_the_commands_of_the_script() {
        for line in SCRIPT.lines() {
            assert!(STEP.text.lines().any(|shown| shown.trim().starts_with(line)), "{line}");
        }
    }

    #[test]
    fn a_corrected_port_is_seen_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(FIXED).unwrap();
        let Checked::NotYet(why) = check(&workshop, "").unwrap() else { unreachable!() };
        assert!(why.starts_with("Line 36 of `src/lib.rs` has an eps of 1e-6, so nothing fails."), "{why}");
    }
}
