//! `debug SPEC --reference` starts the script of the spec in debug mode.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use mlx_parity_core::golden::FixtureSet;
use serde_json::{Value, json};

use crate::command::{cargo_parity, check, repository};
use crate::shell_project::{Project, SET};

/// Prints what it was told, and exits as no other program does.
const TELLS: &str =
    "echo \"$*\"; echo \"$PARITY_REFERENCE\"; echo \"$PARITY_REUSE\"; echo \"$SECRET $MARK\"; cat; exit 7\n";

/// Runs a command with this script as its standard input.
fn with_script(mut command: Command, script: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn the_script_gets_the_params_the_inputs_and_the_commands() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    project.write("reference.sh", TELLS);
    let mut command = project.command(&["debug", SET, "--reference", "--json"]);
    command.env("SECRET", "hush").env("MARK", "named in the spec");
    let printed = check(with_script(command, "break a\ncontinue\n"), 7, &[]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "--debug --json");
    let reference: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(reference["script"], json!("reference.sh"));
    assert_eq!(lines[2], project.path("fixtures").join(SET).canonicalize().unwrap().to_str().unwrap());
    assert_eq!(lines[3..6], [" named in the spec", "break a", "continue"]);
}

#[test]
fn without_a_set_the_reference_makes_its_own_inputs() {
    let project = Project::new();
    project.write("reference.sh", TELLS);
    let output = with_script(project.command(&["debug", SET, "--reference"]), "");
    let printed = check(output, 7, &[]);
    assert_eq!(printed.lines().next(), Some("--debug"));
    assert_eq!(printed.lines().nth(2), Some(""));
}

#[test]
fn what_cannot_be_stepped_through_is_named() {
    let project = Project::new();
    let run = |arguments: &[&str], code: i32, words: &[&str]| {
        check(project.command(arguments).output().unwrap(), code, words);
    };
    run(
        &["debug", "model/prt", "--reference"],
        2,
        &["spec `model/prt` does not exist, did you mean `model/part`?"],
    );
    run(&["debug", SET, "--reference", "--serve", "127.0.0.1:0"], 2, &["cannot be used with"]);
    run(&["debug", SET, "--yes"], 2, &["--reference"]);
    std::fs::remove_file(project.path("reference.sh")).unwrap();
    run(&["debug", SET, "--reference"], 1, &["reference.sh"]);
    project.write(
        "parity-specs/model/ranges.yaml",
        "version: 1\nport: p\ncheckpoints:\n  - {name: a, dtype: float32, range: [0, 1]}\n",
    );
    run(
        &["debug", "model/ranges", "--reference"],
        1,
        &["spec `model/ranges` names no reference", "to do: add `reference:"],
    );
}

#[test]
#[ignore = "slow: makes the environment of the references, with NumPy"]
fn the_reference_of_the_gated_mlp_computes_its_golden() {
    let command = cargo_parity(repository(), &["debug", "gated_mlp/block", "--reference", "--json", "--yes"]);
    let output = with_script(command, "break gated\ncontinue\nshow actual 0, 0, :4\nterminate\n");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[2]["tap"]["name"], "gated", "{printed}");
    let set = FixtureSet::open(&repository().join("fixtures"), "gated_mlp/block").unwrap();
    let golden = set.golden("gated").unwrap().tensor;
    let view = golden.view();
    let bytes = view.row_major_bytes().unwrap();
    let first: Vec<f64> = bytes
        .chunks_exact(4)
        .take(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into())
        .collect();
    let shown: Vec<f64> = serde_json::from_value(answers[3]["value"]["values"].clone()).unwrap();
    assert_eq!(shown, first, "{printed}");
}
