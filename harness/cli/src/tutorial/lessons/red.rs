//! Run, read the cause, fix the line.

use super::{Checked, Enter, FIXED, Lesson};
use crate::tutorial::error::TutorialError;
use crate::tutorial::files::{Changes, PORT};
use crate::tutorial::workshop::{SPEC_ID, Workshop};

pub(super) const RUN: Lesson = Lesson {
    id: "run",
    title: "Run the suite",
    text: "\
`src/lib.rs` is a port: a small block of a model, rewritten in mlx-rs. The
original, `exporter/references/gated_mlp_block.py`, is the reference. It ran
once, and its tensors are in `fixtures/`. They are the goldens: the values
that the port must compute.

`parity-specs/gated_mlp/block.yaml` is the spec. It names the tensors to
compare, so far two: the checkpoints `norm` and `out`. Each is one test.

The port has a mistake. It compiles, it runs, and its numbers look fine. Let
the suite find it:

  cargo parity run gated_mlp/block

The first run compiles mlx-rs and mlx-parity, which takes some minutes. Later
runs take seconds.",
    hint: "\
Press Enter: the tutorial runs the command for you, in the tutorial's folder.
If the port does not have its mistake any more, `solve` puts it back.",
    enter: Enter::Runs,
    before: MISTAKEN,
    solve: |workshop| workshop.put(MISTAKEN).map(|()| String::new()),
    check: check_run,
};

pub(super) const DIAGNOSE: Lesson = Lesson {
    id: "diagnose",
    title: "Read the cause",
    text: "\
A red checkpoint tells you that something before it is wrong. mlx-parity goes
further. It runs the port a second time and gives every stage golden inputs,
so that each stage shows only its own error. Then it searches for the change
of the reference that gives exactly the port's numbers. That is the cause.

The run above has found it already. This command prints it again, and runs
nothing:

  cargo parity diagnose gated_mlp/block",
    hint: "\
Press Enter, and look for three things: the line of the port, the line of the
reference, and the two numbers that differ.",
    enter: Enter::Runs,
    before: MISTAKEN,
    solve: |_| Ok(String::new()),
    check: check_diagnose,
};

pub(super) const FIX: Lesson = Lesson {
    id: "fix",
    title: "Fix the line",
    text: "\
The port adds an eps of 1e-5, which is the default of mlx-rs. The reference
adds 1e-6. The difference is tiny: the cosine of both tensors is 1.000000. In
a deep model, such differences add up.

Open `src/lib.rs` in your editor, correct the number and save the file. Then
press Enter. The tutorial runs the suite again. `--all` shows every checkpoint
of a green spec, too:

  cargo parity run gated_mlp/block --all",
    hint: "\
In `GatedMlp::new`, the line that builds the norm ends in `.eps(1e-5)`. Change
the number to 1e-6, which is what line 26 of the reference adds.",
    enter: Enter::Checks,
    before: MISTAKEN,
    solve: |workshop| workshop.put(FIXED).map(|()| String::new()),
    check: check_fix,
};

const MISTAKEN: Changes = Changes { eps: false, gated: false, gate: false };

/// The eps of mlx-rs by default, and that of the reference.
pub(super) const WRONG: f64 = 1e-5;
pub(super) const RIGHT: f64 = 1e-6;

fn check_run(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    let Some(ran) = workshop.run_suite(&["run", SPEC_ID], &[])? else { return Checked::no_run() };
    if ran.passed("norm") {
        return Checked::not_yet("`norm` is green, so the mistake is gone. `solve` puts it back.");
    }
    if !ran.failed("norm") || !ran.passed("out") {
        return Checked::unexpected(&ran);
    }
    Checked::done(
        "Red, as it should be.\n\n\
         The table lists the checkpoints in the order in which the port reaches them.\n\
         `norm` is the first one that differs. Its gate is `noise: 8`, which allows eight\n\
         times the rounding error of the reference itself. The column `used` shows that\n\
         the port's error is 14 times as large as the gate allows.\n\n\
         `out` is wrong as well, but it passes: its gate is too loose. You will tighten\n\
         it in the last step.",
    )
}

fn check_diagnose(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    if workshop.latest()?.is_none() {
        return Checked::not_yet(
            "There is no run to read. Run `cargo test --test parity` in the folder first.",
        );
    }
    workshop.parity(&["diagnose", SPEC_ID], &[])?;
    Checked::done(
        "Read it line by line:\n\n\
         - The first faulty stage is `norm`. Its tap is in `src/lib.rs`.\n\
         - The cause: the port computes what the reference would compute with an eps of\n  \
           1e-5 in place of 1e-6. The line of the reference stands beside it.\n\
         - Reversing this removes nearly all of the error. If it did not, mlx-parity\n  \
           would name no cause: a wrong one is worse than none.",
    )
}

fn check_fix(workshop: &Workshop, _: &str) -> Result<Checked, TutorialError> {
    let port = workshop.port()?;
    match eps(&port) {
        Some((line, found)) if found == WRONG => {
            return Checked::not_yet(format!(
                "Line {line} of `{PORT}` still has an eps of 1e-5. Change it, and save the file."
            ));
        }
        None if !port.contains("eps") => {
            return Checked::not_yet(format!(
                "`{PORT}` sets no eps, so mlx-rs takes its default, 1e-5. Write `.eps(1e-6)`."
            ));
        }
        _ => {}
    }
    let Some(ran) = workshop.run_suite(&["run", SPEC_ID, "--all"], &[])? else { return Checked::no_run() };
    if !ran.has_gate("norm", "noise: 8") {
        return Checked::not_yet(
            "The gate of `norm` in the spec is no longer `noise: 8`. A looser gate only hides\n\
             the mistake. Restore the gate and correct the port.",
        );
    }
    if ran.failed("norm") {
        return Checked::not_yet("`norm` is still red. The reference has an eps of 1e-6.");
    }
    if !ran.problems().is_empty() {
        return Checked::unexpected(&ran);
    }
    Checked::done(
        "Both checkpoints are green.\n\n\
         Look at two columns. `used` is the share of the gate that the error takes.\n\
         `floor` is the error in multiples of the reference's own rounding error: about 1\n\
         is rounding, and 100 is a mistake, however small the numbers are.",
    )
}

/// Returns the first number that the port gives to `eps(…)`, with its line.
pub(super) fn eps(port: &str) -> Option<(usize, f64)> {
    let number = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let value = code.split_once("eps(")?.1.split_once(')')?.0.trim().replace('_', "");
        value.trim_end_matches("f32").parse().ok()
    };
    port.lines().enumerate().find_map(|(at, line)| Some((at + 1, number(line)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eps_of_the_port_is_found_however_it_is_written() {
        let found = |port: &str| eps(port).map(|(_, number)| number);
        assert_eq!(eps(&MISTAKEN.port()), Some((36, WRONG)));
        assert_eq!(found(&FIXED.port()), Some(RIGHT));
        assert_eq!(found("x.eps( 0.000_001f32 ).y"), Some(RIGHT));
        assert_eq!(found("// x.eps(1e-5)\nx.eps(EPS)"), None);
    }

    #[test]
    fn a_mistake_that_is_still_there_is_seen_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(MISTAKEN).unwrap();
        let Checked::NotYet(why) = check_fix(&workshop, "").unwrap() else { unreachable!() };
        assert_eq!(why, "Line 36 of `src/lib.rs` still has an eps of 1e-5. Change it, and save the file.");
        let without = MISTAKEN.port().replace(".eps(1e-5)", "");
        std::fs::write(workshop.path(PORT), without).unwrap();
        let Checked::NotYet(why) = check_fix(&workshop, "").unwrap() else { unreachable!() };
        assert!(why.contains("takes its default"), "{why}");
    }
}
