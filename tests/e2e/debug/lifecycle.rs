//! How sessions begin, wait, restart and end, whatever happens to their processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::session::{Session, folder, name, scoped, script, trace};
#[cfg(target_os = "linux")]
use crate::processes::resident;
use crate::processes::{is_alive, signal, until};
use crate::project::{Project, Ran, SPEC};

fn status(project: &Project) -> Ran {
    Ran::of(project.xtask(&["status"]).output().unwrap())
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn one_session_at_a_time_and_others_learn_who_holds_the_device() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    let pid = session.id();
    status(&project).prints(&[&format!("DEBUG session of `gated_mlp/block`, pid {pid}: paused (")]);
    let json: serde_json::Value =
        serde_json::from_str(&Ran::of(project.xtask(&["status", "--json"]).output().unwrap()).stdout)
            .unwrap();
    assert_eq!((&json["debug"]["process"], &json["debug"]["state"]), (&pid.into(), &"paused".into()));
    assert_eq!(json["device"]["debug"], pid);

    let second = script(&project, "continue\n", &[]);
    assert_eq!(second.code, Some(1), "{}", second.text);
    second.prints(&[
        &format!("another debug session goes on: pid {pid}, spec `gated_mlp/block`"),
        &format!("end it with `terminate`, or with `kill {pid}`"),
    ]);

    // A test run waits, and names the session.
    let output = project.path("waiting.txt");
    let mut suite = project.command(&["::norm"]);
    suite.stdout(File::create(project.path("out.txt")).unwrap()).stderr(File::create(&output).unwrap());
    let mut suite = suite.spawn().unwrap();
    let waits = format!("waiting for the device, held by pid {pid}, a debug session of `gated_mlp/block`");
    until(|| std::fs::read_to_string(&output).unwrap().contains(&waits));
    session.ask("terminate");
    assert!(session.ends().success());
    assert!(suite.wait().unwrap().success(), "the device is free again");
    assert!(!status(&project).text.contains("DEBUG session"));
}

#[test]
#[ignore = "slow: waits for a timeout"]
fn the_timeout_of_a_spec_does_not_count_while_the_port_stands() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    let mut session = Session::start(&project, &[]);
    assert_eq!(session.tap("next"), "norm");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(session.tap("next"), "gated");

    let project = Project::with_port("hang");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    let mut session = Session::start(&project, &[]);
    let ended = session.ask("continue");
    assert_eq!(ended["how"], "crashed");
    assert_eq!(ended["text"], "the worker timed out after 2 s after tap `gated`");
    assert_eq!(session.ends().code(), Some(1));
}

#[test]
#[ignore = "slow: computes for seconds"]
fn ctrl_c_ends_no_session_while_a_command_computes() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    assert_eq!(session.tap("next"), "norm");
    let wide = "y = norm.reshape([192, 1]) + norm.reshape([1, 192]); z = y.reshape([1, 36864]) + norm.reshape([192, 1])";
    session.tell(&format!("eval {wide}{}", "; z = tanh(z)".repeat(4_000)));
    let is_command =
        |line: &serde_json::Value| line["text"].as_str().is_some_and(|text| text.contains("tanh"));
    until(|| trace(&project).iter().any(is_command));
    signal("-INT", &session.id().to_string());
    assert!(session.answer()["message"].as_str().unwrap().contains("more steps than are allowed"));
    assert_eq!(session.number("1 + 1"), 2.0);
    // While nothing is performed, it ends the session.
    signal("-INT", &session.id().to_string());
    until(|| trace(&project).last().unwrap()["event"] == "ended");
    assert!(session.ends().success());
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_idle_worker_ends_and_can_be_restarted() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &["--idle-limit", "1"]);
    let worker = session.worker().to_string();
    until(|| !is_alive(&worker));
    let mut ended = session.ask("status");
    while ended["state"] != "ended" {
        ended = session.ask("status");
    }
    assert_eq!(ended["ended"]["how"], "idle");
    assert!(!status(&project).text.contains("DEBUG session"), "an idle session holds nothing");
    assert_eq!(session.ask("restart")["why"]["reason"], "start");
    assert!(session.ends().success());
}

#[test]
#[ignore = "slow: six workers"]
fn a_restart_builds_again_and_keeps_the_breakpoints() {
    let project = Project::with_port("scaled");
    let mut session = Session::start(&project, &[]);
    session.ask("break gated");
    assert_eq!(session.ask("continue")["tap"]["status"], "fail");
    let first = session.worker();
    // What an edit of the port and a rebuild do.
    project.edit(SPEC, "port: scaled", "port: right");
    assert_eq!(session.ask("restart")["why"]["reason"], "start");
    assert_eq!(session.ask("restart")["why"]["reason"], "start", "also twice at once");
    assert_ne!(session.worker(), first);
    let stop = session.ask("continue");
    assert_eq!((&stop["tap"]["name"], &stop["tap"]["status"]), (&"gated".into(), &"pass".into()));
    // A build that fails ends the run, not the session.
    project.edit(SPEC, "port: right", "port: missing");
    let ended = session.ask("restart");
    assert_eq!(ended["how"], "not_started");
    assert_eq!(ended["text"], "port `missing` is not registered with `Suite::port`");
    assert_eq!(session.ask("breaks")["breakpoints"].as_array().unwrap().len(), 1);
    project.edit(SPEC, "port: missing", "port: right");
    session.ask("restart");
    assert_eq!(session.tap("continue"), "gated");
    session.ask("start gated_mlp/block");
    assert!(session.error("start gated_mlp/none").contains("does not exist"));
    assert!(session.ends().success());
    let runs = trace(&project).iter().filter(|line| line["event"] == "run").count();
    assert_eq!(runs, 6);
}

#[test]
fn a_crash_says_where_and_leaves_the_trace() {
    let project = Project::with_port("abort");
    let ran = script(&project, "next\ncontinue\nlocation\n", &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "ended: the worker was killed by SIGABRT after tap `gated`\n",
        "  last tap `gated` at tests/bad_ports/misbehaving.rs:",
        "error: there is no worker: the worker was killed by SIGABRT after tap `gated`\n",
        "to do: start again with `restart`, or end the session with `terminate`\n",
    ]);
    project.report(&[&name(&project)]).prints(&["ended: the worker was killed by SIGABRT after tap `gated`"]);
    // An error or a panic of the port is a stop: everything can still be looked at.
    for (port, error) in [("error", "error on purpose"), ("panic", "panicked at ")] {
        let project = Project::with_port(port);
        let mut session = Session::start(&project, &[]);
        let stop = session.ask("continue");
        assert_eq!(stop["why"]["reason"], "failed");
        assert!(stop["why"]["error"].as_str().unwrap().contains(error), "{stop}");
        assert_eq!(session.number("gated.shape[2]"), 48.0);
        assert!(session.ends().success());
    }
}

#[test]
fn a_killed_front_leaves_a_readable_trace_and_no_worker() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    session.tap("until gated");
    let worker = session.worker().to_string();
    session.kill();
    until(|| !is_alive(&worker));
    assert_eq!(trace(&project).last().unwrap()["event"], "answer");
    let report = project.report(&[&name(&project)]);
    report.prints(&["stopped at `gated`, green", "DEBUG: 1 run, 2 stops, 2 commands, no verdict"]);
    // A line that a killed process has cut is left out.
    use std::io::Write;
    let path = folder(&project).join("trace.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"at\":\"20").unwrap();
    project.report(&[&name(&project)]).prints(&["stopped at `gated`, green"]);
    project.run(&["::norm"]).is_green();
}

#[test]
fn a_session_that_waits_for_the_device_ends_with_its_front() {
    let project = Project::with_port("waits");
    let output = project.path("suite.txt");
    let mut suite = project.command(&["::out"]);
    suite.stdout(File::create(&output).unwrap()).stderr(Stdio::null());
    let mut suite = suite.spawn().unwrap();
    until(|| project.forwards() > 0);
    let mut command = project.xtask(&["debug", super::session::ID]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut front = command.spawn().unwrap();
    let mut errors = BufReader::new(front.stderr.take().unwrap());
    let mut waits = String::new();
    errors.read_line(&mut waits).unwrap();
    assert!(waits.contains(&format!("waiting for the device, held by pid {}", suite.id())), "{waits}");
    let guard = children(front.id());
    assert_eq!(guard.len(), 1, "{guard:?}");
    let below = children(guard[0].parse().unwrap());
    front.kill().unwrap();
    front.wait().unwrap();
    until(|| guard.iter().chain(&below).all(|process| !is_alive(process)));
    File::create(project.path("go")).unwrap();
    assert!(suite.wait().unwrap().success());
}

/// The processes that this one started.
fn children(process: u32) -> Vec<String> {
    let output = Command::new("ps").args(["-A", "-o", "ppid=,pid="]).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    let own = pairs.filter(|(parent, _)| parent.parse() == Ok(process));
    own.map(|(_, child)| child.trim().to_owned()).collect()
}

#[test]
fn a_running_port_ends_with_its_front() {
    let project = Project::with_port("waits");
    let mut session = Session::start(&project, &[]);
    let worker = session.worker().to_string();
    session.tell("continue");
    until(|| status(&project).text.contains(": running ("));
    session.kill();
    until(|| !is_alive(&worker));
    File::create(project.path("go")).unwrap();
    project.run(&["::norm"]).is_green();
}

#[test]
#[ignore = "slow: twelve sessions"]
fn old_sessions_are_removed_and_clean_removes_the_rest() {
    let project = scoped();
    for _ in 0..11 {
        script(&project, "terminate\n", &[]).is_green();
    }
    let count = || {
        let entries = std::fs::read_dir(project.path("target/parity/debug")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    assert_eq!(count(), 10);
    let mut session = Session::start(&project, &[]);
    Ran::of(project.xtask(&["clean", "--all", "--yes"]).output().unwrap()).is_green();
    assert_eq!(count(), 10, "a session that goes on is not removed");
    session.ask("terminate");
    assert!(session.ends().success());
    Ran::of(project.xtask(&["clean", "--all", "--yes"]).output().unwrap()).is_green();
    assert_eq!(count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "slow: a thousand stops"]
fn a_thousand_stops_leak_nothing() {
    let project = Project::with_port("loops");
    let mut session = Session::start(&project, &[]);
    let (worker, front) = (session.worker(), u64::from(session.id()));
    let steps = |session: &mut Session, count: usize| {
        for _ in 0..count {
            assert_eq!(session.ask("into")["kind"], "stopped");
            session.number("abs(actual).max()");
        }
    };
    steps(&mut session, 150);
    let before = [worker, front].map(resident);
    steps(&mut session, 1000);
    let after = [worker, front].map(resident);
    println!("resident kB: worker and front {before:?}, after 1,000 stops {after:?}");
    for (before, after) in before.iter().zip(after) {
        assert!(after < before + (16 << 10), "{before} kB grew to {after} kB");
    }
    assert!(session.ends().success());
}
