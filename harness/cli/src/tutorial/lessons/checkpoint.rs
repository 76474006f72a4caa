//! Nothing is skipped: a golden that nobody checks, and the checkpoint for it.

use super::{Checked, Enter, FIXED, Lesson, WITH_GATED};
use crate::tutorial::error::TutorialError;
use crate::tutorial::files::{PORT, SPEC};
use crate::tutorial::workshop::Workshop;
use mlx_parity_core::gate::Class;
use mlx_parity_core::results::TrialOutcome;

pub(super) const EVERYTHING: Lesson = Lesson {
    id: "everything",
    title: "Run everything",
    text: "\
So far you ran one spec by its name. Now run the whole suite, as CI does:

  cargo parity run",
    hint: "\
Press Enter. The run is red, and not because of a checkpoint.",
    enter: Enter::Runs,
    before: FIXED,
    solve: |workshop| workshop.put(FIXED).map(|()| String::new()),
    check: check_everything,
};

pub(super) const CHECKPOINT: Lesson = Lesson {
    id: "checkpoint",
    title: "Add a checkpoint",
    text: "\
A checkpoint has two sides: a line in the spec, and a tap of the same name in
the port.

In `parity-specs/gated_mlp/block.yaml`, add this line between `norm` and
`out`. A spec lists its checkpoints in the order of the computation:

  - {name: gated, dtype: float32, shape: [1, tokens, hidden], noise: 8}

In `src/lib.rs`, tap the tensor `gated`, as the other two are tapped. A tap
returns the tensor that you give it. Outside of a parity run it does nothing
else.

Save both files and press Enter.",
    hint: "\
In `forward`, `gated` is the product of `gate` and `up`:

  let gated = tap(\"gated\", gate.multiply(&up)?)?;

In the spec, `tokens` and `hidden` are the names of sizes, from `params`.",
    enter: Enter::Checks,
    before: FIXED,
    solve: |workshop| workshop.put(WITH_GATED).map(|()| String::new()),
    check: check_checkpoint,
};

fn check_everything(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    let Some(ran) = workshop.run_suite(&["run"], &[])? else { return Checked::no_run() };
    let discovery = ran.results.discovery.as_ref().is_some_and(|wrong| !wrong.is_empty());
    match ran.problems().len() {
        // The learner was faster and has added the checkpoint.
        0 => Checked::done("Everything is green already, so every golden has its checkpoint."),
        1 if discovery => Checked::done(
            "Red again, but not because of the port.\n\n\
             The fixtures have a golden `gated`, from between `norm` and `out`. No checkpoint\n\
             compares it, and the trial `parity::discovery` objects: what nobody checks must\n\
             not look green. For the same reason, a missing golden is red, and so are a tap\n\
             that is never reached and a weight that is never loaded.",
        ),
        _ => Checked::unexpected(&ran),
    }
}

fn check_checkpoint(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    if !workshop.spec()?.lines().any(|line| line.contains("name:") && line.contains("gated")) {
        return Checked::not_yet(format!("`{SPEC}` does not list `gated` yet."));
    }
    if !workshop.port()?.contains("\"gated\"") {
        return Checked::not_yet(format!("The spec lists `gated`, but `{PORT}` has no tap of that name."));
    }
    let Some(ran) = workshop.run_suite(&["run"], &[])? else { return Checked::no_run() };
    if !ran.results.broken.is_empty() {
        return Checked::not_yet(
            "The spec cannot be read. The message above shows the line. The new entry must\n\
             begin like its neighbours: two spaces, a hyphen, a space.",
        );
    }
    match ran.outcome("gated") {
        None => return Checked::not_yet(format!("`{SPEC}` does not list the checkpoint `gated` yet.")),
        Some(TrialOutcome::NotGated(_)) => {
            return Checked::not_yet(
                "`gated` is measured, but not judged. Remove `gate: false` from its line.",
            );
        }
        Some(TrialOutcome::Failed { class: Class::Missing, .. }) => {
            return Checked::not_yet(
                "The port never reached a tap `gated`. Its name must be spelt the same.",
            );
        }
        Some(TrialOutcome::Failed { .. }) => {
            return Checked::not_yet(
                "The tap `gated` sees another tensor than the reference saved. Tap the product\n\
                 of `gate` and `up`.",
            );
        }
        Some(_) => {}
    }
    if !ran.problems().is_empty() {
        return Checked::unexpected(&ran);
    }
    Checked::done(
        "Three checkpoints, and all of them are green. Every golden is compared.\n\n\
         Checkpoints narrow a mistake down. In a real model, start with one per layer,\n\
         and add more inside the first layer that is red.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_side_is_seen_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(FIXED).unwrap();
        let why = || match check_checkpoint(&workshop, "").unwrap() {
            Checked::NotYet(why) => why,
            Checked::Done(text) => text,
        };
        assert_eq!(why(), "`parity-specs/gated_mlp/block.yaml` does not list `gated` yet.");
        std::fs::write(workshop.path(SPEC), WITH_GATED.spec()).unwrap();
        assert_eq!(why(), "The spec lists `gated`, but `src/lib.rs` has no tap of that name.");
    }
}
