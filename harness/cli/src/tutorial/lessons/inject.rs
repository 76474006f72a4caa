//! Continue with a golden in place of a wrong tensor, and look at what a run wrote down.

use super::red::{RIGHT, WRONG, eps};
use super::{Checked, Enter, Lesson, WITH_GATED};
use crate::tutorial::error::TutorialError;
use crate::tutorial::files::{Changes, PORT};
use crate::tutorial::workshop::{SPEC_ID, Workshop};

pub(super) const INJECT: Lesson = Lesson {
    id: "inject",
    title: "Inject a golden",
    text: "\
An early mistake turns everything after it red. Are the later stages wrong as
well, or do they only receive wrong numbers?

Try it. Put the mistake back: in `src/lib.rs`, change the eps to 1e-5 again,
and save the file. Then press Enter. The tutorial runs the suite twice, the
second time with a setting:

  cargo parity run gated_mlp/block
  PARITY_INJECT=norm cargo parity run gated_mlp/block

The setting injects a golden: the tap `norm` still compares the port's tensor,
but then returns the golden. The stages after it work on golden inputs.",
    hint: "\
In `GatedMlp::new`, make it `.eps(1e-5)` for this one step. In the two tables,
compare the lines of `gated` and `out`.",
    enter: Enter::Checks,
    before: WITH_GATED,
    solve: |workshop| workshop.put(MISTAKEN).map(|()| String::new()),
    check: check_inject,
};

pub(super) const RECORD: Lesson = Lesson {
    id: "record",
    title: "Look at the record",
    text: "\
Change the eps back to 1e-6. Then run the suite yourself. Checkpoints are
ordinary tests: open a second terminal in the tutorial's folder, and run

  cargo test --test parity

Each run writes down everything that it measured, in a folder of its own. All
reports are made from that folder. Open this file of the newest run:

  target/parity/runs/latest/gated_mlp/block/records.jsonl

It has one line of JSON per checkpoint, its record: the verdict, the gate, the
statistics of both tensors, the largest differences, the line of the tap.

How many `elements` does the record of `gated` count?",
    hint: "\
`elements` is inside `metrics`. With jq:

  jq 'select(.checkpoint == \"gated\").metrics.elements' \\
    target/parity/runs/latest/gated_mlp/block/records.jsonl

If the run is not green, the eps is still 1e-5.",
    enter: Enter::Answers,
    before: WITH_GATED,
    solve: solve_record,
    check: check_record,
};

/// The mistake is back, and the checkpoint stays.
pub(super) const MISTAKEN: Changes = Changes { eps: false, gated: true, gate: false };

fn check_inject(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    if let Some((line, found)) = eps(&workshop.port()?)
        && found != WRONG
    {
        return Checked::not_yet(format!(
            "Line {line} of `{PORT}` has an eps of {found:e}. Write 1e-5 for this step."
        ));
    }
    let Some(free) = workshop.run_suite(&["run", SPEC_ID], &[])? else { return Checked::no_run() };
    if free.passed("norm") {
        return Checked::not_yet("`norm` is green, so the mistake is not back. Set the eps to 1e-5.");
    }
    if !free.failed("norm") || !free.failed("gated") {
        return Checked::unexpected(&free);
    }
    let variables = [("PARITY_INJECT", "norm")];
    let Some(injected) = workshop.run_suite(&["run", SPEC_ID], &variables)? else { return Checked::no_run() };
    let is_injected = injected.results.summary().injected;
    if !(is_injected && injected.failed("norm") && injected.passed("gated") && injected.passed("out")) {
        return Checked::unexpected(&injected);
    }
    Checked::done(
        "Compare the two tables.\n\n\
         In the first, `norm` and `gated` are red. In the second, only `norm` is: with\n\
         the right input, the later stages are right. So you can trust them, and port\n\
         on, before you have found the mistake in `norm`.\n\n\
         The summary of the second run ends in INJECTED. Such a run proves less than a\n\
         free one, so CI refuses it.",
    )
}

fn solve_record(workshop: &Workshop) -> Result<String, TutorialError> {
    workshop.put(WITH_GATED)?;
    workshop.cargo_test()?;
    Ok(elements(workshop)?.map(|count| count.to_string()).unwrap_or_default())
}

/// The number of elements in the record of `gated`.
fn elements(workshop: &Workshop) -> Result<Option<u64>, TutorialError> {
    let ran = workshop.latest()?;
    let record = ran.as_ref().and_then(|ran| ran.account()?.trial("gated")?.record.clone());
    Ok(record.and_then(|record| record.metrics.as_ref().map(|metrics| metrics.elements)))
}

fn check_record(workshop: &Workshop, answer: &str) -> Result<Checked, TutorialError> {
    if let Some((line, found)) = eps(&workshop.port()?)
        && found != RIGHT
    {
        return Checked::not_yet(format!(
            "Line {line} of `{PORT}` has an eps of {found:e}. Change it back to 1e-6."
        ));
    }
    let Some(ran) = workshop.latest()? else { return Checked::not_yet("There is no run yet.") };
    if ran.results.summary().injected {
        return Checked::not_yet(
            "The newest run is still the injected one. Run `cargo test --test parity` in the\n\
             tutorial's folder.",
        );
    }
    if !ran.problems().is_empty() {
        return Checked::unexpected(&ran);
    }
    let Some(elements) = elements(workshop)? else {
        return Checked::not_yet("The newest run has no record of `gated`. Run `cargo test --test parity`.");
    };
    if answer != elements.to_string() {
        return Checked::not_yet(format!("The record of `gated` does not have {answer} elements."));
    }
    Checked::done(&format!(
        "{elements}: one batch of 6 tokens with 48 features each.\n\n\
         The folder also has the failing tensors as `.npy`, and the report as text and\n\
         as JUnit. If you zip it and send it to somebody, `cargo parity report RUN.zip`\n\
         prints the same report there."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_eps_is_seen_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(WITH_GATED).unwrap();
        let not_yet = |why: &str| Checked::NotYet(why.to_owned());
        assert_eq!(
            check_inject(&workshop, "").unwrap(),
            not_yet("Line 36 of `src/lib.rs` has an eps of 1e-6. Write 1e-5 for this step.")
        );
        assert_eq!(check_record(&workshop, "288").unwrap(), not_yet("There is no run yet."));
        workshop.put(MISTAKEN).unwrap();
        assert_eq!(
            check_record(&workshop, "288").unwrap(),
            not_yet("Line 36 of `src/lib.rs` has an eps of 1e-5. Change it back to 1e-6.")
        );
    }
}
