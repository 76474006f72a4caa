//! Workers: their children end with them, their output is bounded and kept, and an actual is written once.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::processes::{is_alive, until};
use crate::project::{Project, SPEC};

#[test]
fn children_of_a_worker_end_at_its_timeout() {
    let project = Project::with_port("leaves_a_child");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    project.run(&[]).is_red(&["timed out after 2 s, after checkpoint `gated`"]);
    let child = fs::read_to_string(project.path("child")).unwrap();
    until(|| !is_alive(&child));
}

#[test]
fn children_of_a_worker_end_with_a_suite_that_is_killed() {
    let project = Project::with_port("leaves_a_child");
    let mut suite = project.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| project.path("child").is_file());
    suite.kill().unwrap();
    suite.wait().unwrap();
    let child = fs::read_to_string(project.path("child")).unwrap();
    until(|| !is_alive(&child) && !is_alive(&project.workers()[0]));
}

#[test]
fn what_a_port_prints_is_kept_up_to_a_bound() {
    let project = Project::with_port("prints_much");
    project.run(&[]).is_green();
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    let text = fs::read_to_string(output).unwrap();
    assert!(text.len() < (2 << 20) + 100, "{} bytes", text.len());
    assert!(text.starts_with("the first line\n") && text.ends_with("x\nthe last line\n"));
    let left_out = (16 << 20) + "the first line\nthe last line\n".len() - (2 << 20);
    assert!(text.contains(&format!("\n[{left_out} bytes left out here]\n")));
}

#[test]
fn an_actual_that_both_runs_of_a_red_port_have_is_written_once() {
    // The first stage is wrong, and has the same inputs in both runs.
    let project = Project::with_port("wrong_eps");
    project.run(&[]).is_red(&["norm: value differs"]);
    let run = project.path("target/parity/runs/latest/gated_mlp/block");
    let inode = |file: &str| fs::metadata(run.join(file)).unwrap().ino();
    assert_eq!(inode("actual/norm.npy"), inode("local/actual/norm.npy"));
}

#[test]
fn what_a_port_prints_is_kept_apart_from_the_tests() {
    let project = Project::with_port("prints");
    let ran = project.run(&[]);
    ran.is_green();
    assert!(!ran.text.contains("printed by the port"));
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    assert_eq!(fs::read_to_string(output).unwrap(), "printed by the port\n");
}
