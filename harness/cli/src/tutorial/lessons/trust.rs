//! Accept the statistics, and find out what the spec would let through.

use super::{Checked, Enter, Lesson, WITH_GATED};
use crate::tutorial::error::TutorialError;
use crate::tutorial::files::{Changes, SNAPSHOT, SPEC};
use crate::tutorial::workshop::Workshop;
use mlx_parity_core::mutation::{MutationResults, Noticed};

pub(super) const ACCEPT: Lesson = Lesson {
    id: "accept",
    title: "Accept the statistics",
    text: "\
Gates leave room for rounding, so a port can change without any checkpoint
turning red: after an edit, or with a new version of MLX. The trial `stats`
notices. It compares the minimum, maximum, mean and so on of each checkpoint
with the values that you have accepted.

You have accepted none yet, so `stats` is `new`. Accept the statistics now,
while the port is green:

  cargo parity run
  cargo parity accept",
    hint: "\
Press Enter, and then open `tests/snapshots/gated_mlp__block.snap`.",
    enter: Enter::Runs,
    before: WITH_GATED,
    solve: |workshop| workshop.put(WITH_GATED).map(|()| String::new()),
    check: check_accept,
};

pub(super) const MUTATE: Lesson = Lesson {
    id: "mutate",
    title: "Test the spec",
    text: "\
Green means little if the spec lets mistakes through. This command tests the
spec. It runs the port many times, each time with one change at one tap: a
factor of 1.01, two axes exchanged, values rounded to bfloat16, and others. A
good spec notices each of them.

  cargo parity mutate gated_mlp/block",
    hint: "\
Press Enter, and look for the word NEVER in the table.",
    enter: Enter::Runs,
    before: WITH_GATED,
    solve: |workshop| workshop.put(WITH_GATED).map(|()| String::new()),
    check: check_mutate,
};

pub(super) const TIGHTEN: Lesson = Lesson {
    id: "tighten",
    title: "Tighten the gate",
    text: "\
The gate of `out` is `rtol: 2e-2, atol: 1e-3`: two percent, far more than
rounding. Somebody copied it, as its `why` admits. That is why `out` was green
in the first step.

In `parity-specs/gated_mlp/block.yaml`, give `out` the gate that the other
checkpoints have: replace `rtol`, `atol` and `why` by `noise: 8`. Save the
file and press Enter. The tutorial runs `mutate` again.",
    hint: "\
The line of `out` then ends in `stage: residual, noise: 8}`. A gate is exactly
one of `noise`, `policy`, or `rtol` with `atol`.",
    enter: Enter::Checks,
    before: WITH_GATED,
    solve: |workshop| workshop.put(Changes::FINISHED).map(|()| String::new()),
    check: check_tighten,
};

fn check_accept(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    let Some(ran) = workshop.run_suite(&["run"], &[])? else { return Checked::no_run() };
    if !ran.problems().is_empty() {
        return Checked::unexpected(&ran);
    }
    let accepted = workshop.parity(&["accept"], &[])?.success();
    if !accepted || !workshop.path(SNAPSHOT).is_file() {
        return Checked::not_yet("The statistics were not accepted. The message above says why.");
    }
    Checked::done(
        "The statistics are in `tests/snapshots/gated_mlp__block.snap`. Commit this file\n\
         with the port. It is an alarm and not a golden: accepting statistics never\n\
         turns a red checkpoint green.",
    )
}

fn check_mutate(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    let Some(mutations) = workshop.mutate()? else { return not_mutated() };
    match survivors(&mutations).as_slice() {
        [] => Checked::done("Every change was noticed, so the spec is tight already."),
        names if names.iter().all(|name| *name == "out") => Checked::done(
            "NEVER means that no checkpoint noticed. With this spec, a port whose output is\n\
             one percent too large would be green. `norm` and `gated` notice everything.",
        ),
        names => Checked::not_yet(format!(
            "Changes survive at {}. The gates of `norm` and `gated` should be `noise: 8`.",
            listed(names)
        )),
    }
}

fn check_tighten(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    if workshop.spec()?.contains("rtol: 2e-2, atol: 1e-3") {
        return Checked::not_yet(format!("`out` still has `rtol: 2e-2, atol: 1e-3` in `{SPEC}`."));
    }
    let Some(mutations) = workshop.mutate()? else { return not_mutated() };
    let has = |name: &str| {
        mutations.unmutated.iter().any(|record| record.checkpoint == name && record.gate.is_some())
    };
    if !["norm", "gated", "out"].into_iter().all(has) {
        return Checked::not_yet("The spec must still judge `norm`, `gated` and `out`.");
    }
    match survivors(&mutations).as_slice() {
        [] => Checked::done("Every change is noticed. The port is green, and now that means something."),
        names => Checked::not_yet(format!(
            "Changes still survive at {}. In the table, `tightest` is the tightest gate\n\
             that leaves the port room for rounding.",
            listed(names)
        )),
    }
}

fn not_mutated() -> Result<Checked, TutorialError> {
    Checked::not_yet(
        "The spec could not be mutated: without any change, the port must be green. The\n\
         message above says more. `solve` gets you back on track.",
    )
}

/// Returns the checkpoints at which a mutation survived, each once.
fn survivors(mutations: &MutationResults) -> Vec<&str> {
    let survived = mutations.results.iter().filter(|result| result.noticed == Noticed::Never);
    let mut names: Vec<&str> = survived.map(|result| result.mutation.checkpoint.as_str()).collect();
    names.dedup();
    names
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loose_gate_is_seen_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(WITH_GATED).unwrap();
        let Checked::NotYet(why) = check_tighten(&workshop, "").unwrap() else { unreachable!() };
        assert!(why.starts_with("`out` still has `rtol: 2e-2"), "{why}");
    }
}
