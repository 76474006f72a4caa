//! How the script of a reference runs: its environment, its timeout, and the end of its children.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::{BINARY, bounded};
use crate::shell_project::{Project, SCRIPT};

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_sees_a_few_variables_and_those_that_its_spec_names() {
    let project = Project::new();
    project.script(&format!("env > seen\n{SCRIPT}"));
    let mut command = project.command(&["regenerate-fixtures", "--yes"]);
    for (name, value) in [
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("HF_TOKEN", "secret"),
        ("MKL_CBWR", "AVX2"),
        ("PYTHONHASHSEED", "0"),
        ("PARITY_LINT", "report"),
        ("HF_HOME", "/models"),
        ("LC_ALL", "C"),
        ("https_proxy", "http://proxy:1"),
        ("MARK", "2"),
    ] {
        command.env(name, value);
    }
    let (code, text) = bounded(&mut command);
    assert_eq!(code, 0, "{text}");
    assert_eq!(project.mark(), Some(2));
    let seen = fs::read_to_string(project.path("seen")).unwrap();
    let has = |name: &str| seen.lines().any(|line| line.starts_with(&format!("{name}=")));
    for name in ["PATH", "HF_HOME", "LC_ALL", "https_proxy", "MARK", "OMP_NUM_THREADS", "PARITY_REFERENCE"] {
        assert!(has(name), "`{name}` is missing:\n{seen}");
    }
    for name in ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MKL_CBWR", "PYTHONHASHSEED", "PARITY_LINT"] {
        assert!(!has(name), "`{name}` is there:\n{seen}");
    }

    // Neither `env` nor `timeout` makes a set stale.
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    let other = spec.replace("env: [MARK]", "env: [MARK, HF_TOKEN], timeout: 2h");
    project.write("parity-specs/model/part.yaml", &other);
    project.prints(2, &["--check"], 0, &["1 current, 0 not"]);
    project.script("echo \"KeyError: 'AWS_SECRET_ACCESS_KEY'\" >&2; exit 1\n");
    let mut command = project.command(&["regenerate-fixtures", "--yes"]);
    let (code, text) = bounded(command.env("AWS_SECRET_ACCESS_KEY", "secret"));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("write `reference: {env: [AWS_SECRET_ACCESS_KEY]}` in the spec"), "{text}");
    for (wrong, words) in [
        ("env: [\"A B\"]", "cannot be the name of an environment variable"),
        ("env: [PARITY_LINT]", "is set by the command that runs the script"),
        ("env: [A, A]", "is named twice"),
        ("timeout: 5", "a time such as `90s`"),
    ] {
        project.write("parity-specs/model/part.yaml", &spec.replace("env: [MARK]", wrong));
        let (code, text) = bounded(&mut project.command(&["lint"]));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(words), "does not print `{words}`:\n{text}");
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_that_does_not_end_is_ended_with_all_that_it_started() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[", 30m at most"]);
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/part.yaml", &spec.replace("env: [MARK]", "env: [MARK], timeout: 1s"));
    project.script("sleep 600 & echo $! > child\nsleep 600\n");
    let mut command = project.command(&["regenerate-fixtures", "--yes"]);
    let (code, text) = bounded(command.env("MARK", "2"));
    assert_eq!(code, 1, "{text}");
    for words in [
        "first time, 1s at most",
        "`reference.sh` ran longer than 1s and was stopped",
        "`timeout` in the spec's",
    ] {
        assert!(text.contains(words), "does not print `{words}`:\n{text}");
    }
    assert_eq!(project.mark(), Some(1));
    assert_eq!(project.entries(), ["model"]);
    gone(&project);
}

#[test]
fn a_child_that_keeps_the_output_open_holds_nobody_up() {
    let project = Project::new();
    project.script(&format!("sleep 600 & echo $! > child\n{SCRIPT}"));
    let mut command = project.command(&["regenerate-fixtures", "--yes"]);
    let (code, text) = bounded(command.env("MARK", "1"));
    assert_eq!(code, 0, "{text}");
    gone(&project);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_a_script_writes_is_not_held_in_memory() {
    let project = Project::new();
    // 600 MB on each stream, while the command may take 400 MB.
    project.script(&format!("head -c 600000000 /dev/zero\nhead -c 600000000 /dev/zero >&2\n{SCRIPT}"));
    let mut command = std::process::Command::new("/bin/sh");
    let text = format!("ulimit -v 400000; exec '{BINARY}' regenerate-fixtures --yes");
    command.args(["-c", &text]).stdin(Stdio::null());
    command.current_dir(project.path("")).env("PARITY_PYTHON", project.path("python"));
    let (code, text) = bounded(command.env("MARK", "1"));
    assert_eq!(code, 0, "{text}");
}

/// The script ends with the killed command, and nothing disturbs the next command.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_ends_with_a_command_that_is_killed() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    project.script(&format!("if [ -e fast ]; then\n{SCRIPT}else\necho $$ > child; while :; do mkdir -p \"$1/x\"; i=$((i+1)); touch \"$1/x/$i\"; done\nfi\n"));
    let mut command = project.command(&["regenerate-fixtures", "--yes"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| fs::read_to_string(project.path("child")).is_ok_and(|text| text.ends_with('\n')));
    child.kill().unwrap();
    child.wait().unwrap();
    project.write("fast", "");
    project.prints(
        2,
        &["--yes"],
        0,
        &["an earlier run was interrupted: nothing had been replaced", "1 replaced"],
    );
    assert_eq!(project.mark(), Some(2));
    gone(&project);
    project.prints(2, &["--yes"], 0, &["1 set current"]);
    assert_eq!(project.entries(), ["model"]);
}

/// Waits until the process whose number the script wrote has ended. Without an init that reaps, it may stay a zombie.
#[track_caller]
fn gone(project: &Project) {
    let pid = fs::read_to_string(project.path("child")).unwrap().trim().to_owned();
    until(|| {
        let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid]).output().unwrap();
        !state.status.success() || state.stdout.starts_with(b"Z")
    });
}

#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
