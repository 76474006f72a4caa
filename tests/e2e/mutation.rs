//! `cargo xtask mutate`: which mutations the checkpoints of a spec notice, for a tight spec and for loose ones.

use std::fs;

use crate::project::{Project, Ran, SPEC};

const BLOCK: &str = "gated_mlp/block";

#[track_caller]
fn mutate(project: &Project, more: &[&str], code: i32, words: &[&str]) -> Ran {
    let ran = Ran::of(project.xtask(&[&["mutate", BLOCK], more].concat()).output().unwrap());
    assert_eq!(ran.code, Some(code), "{}", ran.text);
    ran.prints(words);
    ran
}

/// The row of a checkpoint in the table.
fn row<'a>(ran: &'a Ran, checkpoint: &str) -> Vec<&'a str> {
    let line = ran.text.lines().find(|line| line.split_whitespace().next() == Some(checkpoint)).unwrap();
    line.split_whitespace().skip(1).collect()
}

#[test]
fn a_tight_spec_notices_every_mutation_at_its_own_tap() {
    let project = Project::with_port("right");
    let json = project.path("out.json");
    let ran = mutate(
        &project,
        &["--at-least", "100", "--json", json.to_str().unwrap()],
        0,
        &["mutation score 21/21 (100 %): 21 at their own tap, 0 later; 0 survived, 0 equivalent\n"],
    );
    assert!(!ran.text.contains(" NEVER ") && !ran.text.contains("\nsurvived"), "{}", ran.text);
    assert_eq!(row(&ran, "norm")[..7], ["itself"; 7]);
    assert_eq!(project.workers().iter().collect::<std::collections::HashSet<_>>().len(), 1, "one process");
    assert_eq!(project.forwards(), 1 + 21);
    let found: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!((&found["planted"], &found["noticed"]), (&21.into(), &21.into()));
    assert_eq!(found["mutations"][0]["fault"], "transposed");
    assert!(
        !project.path("target/parity/runs").exists(),
        "it is no run, and none that lint or report would read"
    );
}

#[test]
fn a_gate_that_is_too_loose_lets_mutations_survive_and_the_one_to_write_is_printed() {
    let project = Project::with_port("right");
    project.edit(SPEC, "policy: fp32", "rtol: 0.02, atol: 1e-3, why: a test");
    let ran = mutate(
        &project,
        &[],
        0,
        &[
            "\nsurvived\n",
            "  `out` times 1.01: ",
            " of atol 1e-3, rtol 2e-2; `rtol: ",
            "` would notice it\n",
            "  `out` rounded to bfloat16: ",
            "mutation score 19/21 (90 %): 19 at their own tap, 0 later; 2 survived",
        ],
    );
    assert_eq!(row(&ran, "out")[..7], ["itself", "NEVER", "itself", "itself", "NEVER", "itself", "itself"]);
    mutate(&project, &["--at-least", "90"], 0, &[]);
    mutate(&project, &["--at-least", "91"], 1, &["mutation score 19/21"]);
}

#[test]
fn what_is_not_gated_is_noticed_later() {
    let project = Project::with_port("right");
    project.edit(SPEC, "stage: norm, noise: 8", "stage: norm, noise: 8, gate: false, why: a test");
    let ran = mutate(
        &project,
        &[],
        0,
        &[
            "\nnoticed later\n",
            "  `norm` times 1.01: first at `gated`\n",
            "14 at their own tap, 7 later; 0 survived",
        ],
    );
    assert_eq!(row(&ran, "norm")[..7], ["later"; 7]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_mutation_that_ends_the_process_is_noticed_and_the_rest_goes_on() {
    let project = Project::with_port("fragile");
    project.edit(SPEC, "stage: norm, noise: 8", "stage: norm, noise: 8, gate: false, why: a test");
    let ran = mutate(
        &project,
        &[],
        0,
        &["`norm` rounded to bfloat16: by the port: its process crashed", "14 at their own tap, 7 later"],
    );
    assert_eq!(row(&ran, "norm")[..7], ["port"; 7]);
}

#[test]
fn a_port_that_is_red_or_a_spec_that_cannot_run_is_reported() {
    let words =
        ["is red without any mutation", "error: the suite could not mutate", "to do: make it green first"];
    mutate(&Project::with_port("scaled"), &[], 1, &words);
    mutate(&Project::with_port("error"), &[], 1, &["the port fails without any mutation: error on purpose"]);
    mutate(&Project::with_port("rihgt"), &[], 1, &["port `rihgt` is not registered"]);
    let project = Project::with_port("right");
    fs::remove_dir_all(project.path("fixtures")).unwrap();
    mutate(&project, &[], 1, &["no fixtures exist"]);
    let ran = Ran::of(project.xtask(&["mutate", "gated_mlp/blokc"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.prints(&["error: spec `gated_mlp/blokc` does not exist, did you mean `gated_mlp/block`?"]);
    mutate(&project, &["--at-least", "101"], 2, &[]);
}

#[test]
fn only_the_command_makes_mutations() {
    let project = Project::with_port("right");
    for ci in ["true", "false"] {
        let output = project.command(&[]).env("PARITY_MUTATE", BLOCK).env("CI", ci).output().unwrap();
        Ran::of(output)
            .is_red(&["PARITY_MUTATE is `gated_mlp/block`, expected it to be unset", "parity mutate"]);
    }
    assert_eq!(project.forwards(), 0);
    let output = project.xtask(&["mutate", BLOCK]).env("CI", "true").output().unwrap();
    Ran::of(output).prints(&["mutation score 21/21"]);
    // The file by which the suite recognises the command is gone.
    let left = fs::read_dir(project.path("target/parity/mutations")).unwrap().flatten();
    let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, [".parity-run.json", "gated_mlp"]);
}
