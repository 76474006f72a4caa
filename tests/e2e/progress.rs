//! What a run shows while it goes on: the command `status`, and live lines on a terminal. Its port waits for a file, so no test
//! depends on time.

use std::fs::{self, File};
use std::process::{Child, Stdio};

use crate::processes::{in_terminal, until};
use crate::project::{Project, Ran};

/// A suite that goes on until the file `go` exists, and is killed if the test fails.
struct Going(Child);

impl Going {
    fn start(project: &Project, name: &str) -> Self {
        let mut suite = project.command(&["--skip", "::stats"]);
        suite.env("PARITY_RUN", name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(suite.spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn ends(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // The suite ends its worker when it ends itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn xtask(project: &Project, arguments: &[&str]) -> Ran {
    let ran = Ran::of(project.xtask(arguments).output().unwrap());
    ran.is_green();
    ran
}

#[test]
fn a_run_that_goes_on_elsewhere_is_shown_and_kept() {
    let project = Project::with_port("waits");
    xtask(&project, &["status"]).prints(&["nothing runs, and there is no earlier run; start one with `"]);
    let going = Going::start(&project, "first");
    let reached = || xtask(&project, &["status"]).text.contains("last tap `gated`");
    until(reached);
    let pid = going.id();
    xtask(&project, &["status"]).prints(&[
        &format!("run first, pid {pid}: 0 specs done, 1 running, 0 waiting; 2 of 3 checkpoints\n"),
        "  gated_mlp/block  2 of 3 checkpoints, last tap `gated`, ",
        &format!(" s, pid {pid}\n"),
    ]);
    let json: serde_json::Value =
        serde_json::from_str(&xtask(&project, &["status", "--json"]).stdout).unwrap();
    let run = &json["running"][0];
    assert_eq!((&run["run"], &run["process"]), (&"first".into(), &pid.into()));
    assert_eq!((&run["specs"][0]["state"], &run["specs"][0]["failed"]), (&"running".into(), &0.into()));
    assert_eq!(json["device"]["process"], pid);

    // No option removes a run that goes on.
    let cleaned = xtask(&project, &["clean", "--keep", "0", "--named", "--actuals", "--yes"]);
    cleaned.prints(&[&format!("note: run `first` is active, pid {pid}, and stays"), "nothing to remove"]);
    File::create(project.path("go")).unwrap();
    going.ends();
    let ended = xtask(&project, &["status"]);
    ended.prints(&["nothing runs; the newest run is first: ", " passed, 0 failed, 0 ignored"]);
}

#[test]
fn a_run_that_waits_for_the_device_names_who_holds_it() {
    let project = Project::with_port("waits");
    let first = Going::start(&project, "first");
    until(|| xtask(&project, &["status"]).text.contains("last tap `gated`"));
    let second = Going::start(&project, "second");
    let waits = format!(
        "gated_mlp/block  waiting for the device, held by pid {}, which runs `gated_mlp/block`",
        first.id()
    );
    until(|| xtask(&project, &["status"]).text.contains(&waits));
    xtask(&project, &["status"]).prints(&[
        &format!("run second, pid {}: 0 specs done, 0 running, 1 waiting; 0 of 3 checkpoints", second.id()),
        &format!("run first, pid {}: ", first.id()),
    ]);
    File::create(project.path("go")).unwrap();
    first.ends();
    second.ends();
}

#[test]
fn a_killed_run_does_not_go_on_and_has_not_failed() {
    let project = Project::with_port("waits");
    let going = Going::start(&project, "first");
    until(|| xtask(&project, &["status"]).text.contains("last tap `gated`"));
    drop(going);
    let ended = xtask(&project, &["status"]);
    ended.prints(&[
        "nothing runs; the newest run is first: 4 passed, 0 failed, 0 ignored, ",
        " pending, ",
        ", interrupted\n",
    ]);
}

/// Runs `cargo xtask parity` with its output in a file, on a terminal or not. Returns once `seen` is in the file, or, if
/// nothing is to be seen, once the run's last tap but one is recorded; then lets the port go on.
fn watched(project: &Project, terminal: bool) -> String {
    let output = project.path("terminal.txt");
    let mut command = project.xtask(&["parity", "--color", "never", "gated_mlp/block::out"]);
    if terminal {
        command = in_terminal(&command);
    }
    let file = File::create(&output).unwrap();
    command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    let going = Going(command.spawn().unwrap());
    let printed = || String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
    match terminal {
        true => until(|| printed().contains("gated_mlp/block  0 of 1 checkpoint, last tap `gated`, ")),
        false => until(|| xtask(project, &["status"]).text.contains("last tap `gated`")),
    }
    File::create(project.path("go")).unwrap();
    going.ends();
    printed()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_terminal_shows_a_live_line_per_running_spec() {
    let text = watched(&Project::with_port("waits"), true);
    assert!(text.contains("0 of 1 spec done, 0 of 1 checkpoint"), "{text}");
    assert!(text.contains("1 passed, 0 failed"), "{text}");
}

#[test]
fn without_a_terminal_nothing_live_is_printed() {
    let text = watched(&Project::with_port("waits"), false);
    assert!(!text.contains("last tap") && !text.contains("spec done"), "{text}");
    assert!(text.contains("1 passed, 0 failed"), "{text}");
}
