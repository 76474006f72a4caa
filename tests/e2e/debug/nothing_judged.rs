//! No debug session turns anything green: no command judges its folder, and no leftover variable starts one.

use std::fs;
use std::path::Path;

use super::session::{folder, name, script};
use crate::project::{Project, Ran};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, target) = (entry.unwrap().path(), to.to_owned());
        let target = target.join(entry.file_name().unwrap());
        if entry.is_dir() { copy(&entry, &target) } else { fs::copy(&entry, target).map(drop).unwrap() }
    }
}

#[test]
fn no_command_judges_a_session() {
    let project = Project::with_port("scaled");
    script(&project, "inject gated\ncontinue\ncontinue\n", &[]).is_green();
    assert!(!project.path("target/parity/runs").exists(), "a session is no run");
    let name = name(&project);
    for arguments in [
        &["show", "gated_mlp/block", "--run", &name][..],
        &["diagnose", "--run", &name],
        &["report", &name, "--against", &name],
        &["weights", "gated_mlp/block", "--run", &name],
    ] {
        let ran = Ran::of(project.xtask(arguments).output().unwrap());
        assert!(!ran.text.contains(" passed"), "{arguments:?}: {}", ran.text);
    }
    let shown = Ran::of(project.xtask(&["show", "gated_mlp/block", "--run", &name]).output().unwrap());
    assert_eq!(shown.code, Some(1), "{}", shown.text);
    shown.prints(&["is a debug session, which judges nothing", "print its trace with `cargo xtask report "]);
    let accepted = Ran::of(project.xtask(&["accept"]).output().unwrap());
    assert_eq!(accepted.code, Some(1), "{}", accepted.text);

    // Not even where somebody puts its files among the runs.
    let run = project.path("target/parity/runs/faked");
    copy(&folder(&project), &run);
    for arguments in [&["report", "faked"][..], &["show", "gated_mlp/block", "--run", "faked"]] {
        let ran = Ran::of(project.xtask(arguments).output().unwrap());
        assert!(!ran.text.contains(" passed") && !ran.text.contains("green"), "{}", ran.text);
        assert_ne!(ran.code, Some(0), "{}", ran.text);
    }
    project.run(&[]).is_red(&[]);
    // With the plan of a real run beside them, the records still say what they are.
    let real = fs::canonicalize(project.path("target/parity/runs/latest")).unwrap();
    fs::remove_dir_all(real.join("gated_mlp")).unwrap();
    copy(&folder(&project).join("gated_mlp"), &real.join("gated_mlp"));
    let report = project.report(&[]);
    assert_eq!(report.code, Some(1), "{}", report.text);
    report.prints(&["belongs to a debug session, which judges nothing"]);
}

#[test]
fn a_leftover_variable_starts_no_session_and_turns_every_trial_red() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.command(&[]).env("PARITY_DEBUG", project.path("x")).output().unwrap());
    ran.is_red(&["PARITY_DEBUG is `", "the process that set it has ended", "run `unset PARITY_DEBUG`"]);
}
