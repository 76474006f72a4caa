//! Twins: a port against itself, run in another way. The variants are in `bad_ports/twins.rs`.

use std::collections::BTreeSet;

use rstest::rstest;

use crate::project::{KERNELS, Project, Ran, SPEC};

/// A project whose spec declares these twins, as YAML below `twins:`.
fn with_twins(twins: &[&str]) -> Project {
    let project = Project::with_port("right");
    let path = project.path(SPEC);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{}\ntwins:\n  {}\n", text.trim_end(), twins.join("\n  "))).unwrap();
    project
}

/// The failed trials of the twin `name`.
fn failed<'r>(ran: &'r Ran, name: &str) -> BTreeSet<&'r str> {
    let prefix = format!("test gated_mlp/block+{name}::");
    let lines = ran.text.lines().filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix("FAILED"));
    lines.filter_map(|name| name.trim_end().strip_suffix("...")).map(str::trim_end).collect()
}

const RIGHT: &[&str] = &[
    "again: {of: main, rtol: 0, atol: 0}",
    "padded: {of: main, gate: same, slice: '[:, :6]'}",
    "batched: {of: main, gate: same, slice: '[:1]'}",
    "batched_last: {of: batched, gate: same, slice: '[1:]', of_slice: '[:1]'}",
    "chunked: {of: main, gate: same, along: 1, hits: 2}",
    "chunked_unevenly: {of: main, gate: same, along: 1, hits: 2}",
    "compiled: {of: main, gate: same, unseen: [gated]}",
    "quantized: {of: main, only: [out], rtol: 0, atol: 0.02, at_least: 1e-4, why: measured below 0.02}",
];

#[test]
fn twins_that_agree_are_green_and_count_their_own_trials() {
    let ran = with_twins(RIGHT).run(&[]);
    ran.is_green();
    ran.prints(&[
        "test gated_mlp/block+padded::norm",
        "test gated_mlp/block+compiled::out",
        "test gated_mlp/block+chunked::weights",
        "1 not gated",
    ]);
    assert!(!ran.text.contains("+padded::stats"), "{}", ran.text);
}

/// The twin, its failed checkpoints, and words of their failures.
#[rstest]
#[case::nondeterministic("wobbles: {of: main, rtol: 0, atol: 0}", &["gated", "norm", "out"], &["+wobbles::norm: value differs"])]
#[case::padding_side("padded_left: {of: main, gate: same, slice: '[:, :6]'}", &["gated", "norm", "out"], &["+padded_left::norm: value differs", "compared with `gated_mlp/block`"])]
#[case::slice("padded: {of: main, gate: same}", &["gated", "norm", "out"], &["+padded::norm: shape differs", "[1, 6, 32], this one [1, 8, 32]"])]
#[case::offset("chunk_again: {of: main, gate: same, along: 1, hits: 2}", &["gated", "norm", "out"], &["+chunk_again::norm: value differs"])]
#[case::short("chunk_short: {of: main, gate: same, along: 1, hits: 2}", &["gated", "norm", "out"], &["`gated_mlp/block` has 1 more rows than all 2 hits together"])]
#[case::hits("chunked: {of: main, gate: same, along: 1, hits: 3}", &["gated", "norm", "out"], &["reached 2 times, but the spec declares 3"])]
#[case::mask("again: {of: main, gate: same, only: [norm, gated], mask: x}", &["gated"], &["`mask` has shape [1, 6, 32], expected the first lengths of [1, 6, 48]"])]
#[case::captured("captured: {of: main, gate: same, unseen: [gated]}", &["out"], &["+captured::out: value differs"])]
#[case::not_declared("compiled: {of: main, gate: same}", &["fixture", "gated", "out", "weights"], &["is inside a function that is compiled", "declare the tap as `unseen`"])]
#[case::not_compiled("again: {of: main, gate: same, unseen: [gated]}", &["gated"], &["the tap is not inside compiled code"])]
#[case::not_quantized("again: {of: main, only: [out], rtol: 0, atol: 0.02, at_least: 1e-4, why: w}", &["out"], &["+again::out: value differs"])]
#[case::unreached("skips_gated: {of: main, gate: same}", &["gated"], &["+skips_gated::gated: never reached"])]
#[case::fails("fails: {of: main, gate: same}", &["fixture", "gated", "norm", "out", "weights"], &["+fails::norm: crash", "error on purpose"])]
#[case::no_closure("padedd: {of: main, gate: same}", &["fixture", "gated", "norm", "out", "spec", "weights"], &["twin `padedd` of port `right` is not registered with `Suite::twin`", "did you mean `padded`"])]
fn a_twin_that_does_not_agree_is_red(#[case] twin: &str, #[case] names: &[&str], #[case] words: &[&str]) {
    let ran = with_twins(&[twin]).run(&[]);
    ran.is_red(words);
    let name = twin.split(':').next().unwrap();
    assert_eq!(failed(&ran, name), names.iter().copied().collect(), "{}", ran.text);
    assert_eq!(ran.ended("FAILED"), [""; 0], "the main run is green: {}", ran.text);
}

#[test]
fn one_trial_of_a_twin_runs_what_it_is_compared_with() {
    let project = with_twins(RIGHT);
    let trial = "gated_mlp/block+batched_last::out";
    let ran = project.run(&["--exact", trial]);
    ran.is_green();
    ran.prints(&[trial, "1 declared = 1 passed"]);
    let run = project.path("target/parity/runs/latest/gated_mlp");
    assert!(run.join("block/actual/out.npy").is_file() && run.join("block+batched/actual/out.npy").is_file());
    assert!(!run.join("block+padded").exists());
}

#[test]
fn a_twin_of_a_run_that_fails_says_which_run() {
    let twins = ["fails: {of: main, gate: same}", "again: {of: fails, gate: same}"];
    let ran = with_twins(&twins).run(&["block+again::out"]);
    ran.is_red(&["`gated_mlp/block+fails`, which it is compared with, has no results", "error on purpose"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn the_first_faulty_stage_of_a_twin_is_found_with_the_other_tensors_injected() {
    let ran = with_twins(&["captured: {of: main, gate: same, unseen: [gated]}"]).run(&[]);
    ran.is_red(&["the first faulty stage"]);
    let ran = with_twins(&["padded_left: {of: main, gate: same, slice: '[:, :6]'}"]).run(&[]);
    ran.is_red(&["the first faulty stage is `norm`"]);
}

#[test]
fn twins_are_ignored_where_goldens_are_injected() {
    let project = with_twins(&["again: {of: main, gate: same}"]);
    let ran = Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap());
    ran.is_green();
    ran.prints(&["gated_mlp/block+again is ignored: it is compared with a free run"]);
}

#[test]
fn a_gate_of_a_twin_that_is_far_too_loose_is_reported() {
    let project = with_twins(&[
        "padded: {of: main, rtol: 1e-2, atol: 1e-2, why: a test, slice: '[:, :6]'}",
        "chunked: {of: main, gate: same, along: 1, hits: 2}",
        "quantized: {of: main, only: [out], rtol: 0, atol: 0.02, at_least: 1e-4, why: measured below 0.02}",
    ]);
    project.run(&[]).is_green();
    let ran = Ran::of(project.xtask(&["lint", "--write-schema", "--strict"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "warning: twin `padded`: `norm`, `gated`, `out`: atol 1e-2, rtol 1e-2 allows ",
        "block.yaml",
        "would still allow 4x what is needed",
        "0 errors, 1 warning",
        "note: the gates of 5 lines were compared with run ",
    ]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn mutations_of_a_twin_are_noticed() {
    let project = with_twins(&[
        "padded: {of: main, gate: same, slice: '[:, :6]'}",
        "chunked: {of: main, gate: same, along: 1, hits: 2}",
    ]);
    for twin in ["padded", "chunked"] {
        let ran = Ran::of(project.xtask(&["mutate", &format!("gated_mlp/block+{twin}")]).output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.text);
        ran.prints(&[&format!("gated_mlp/block+{twin}"), "mutation score ", "0 survived"]);
    }
}

/// MLX keeps the kernels of compiled functions below the temporary folder and loads any file that is there.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_kernel_that_another_process_or_a_killed_worker_left_is_not_loaded() {
    let project = Project::without_kernels("right");
    let elsewhere = tempfile::tempdir().unwrap();
    let run = || Ran::of(project.command(&[]).env("TMPDIR", elsewhere.path()).output().unwrap());
    run().is_green();
    assert!(!elsewhere.path().join("mlx").exists(), "workers have a temporary folder of their own");
    let kernels = || walkdir::WalkDir::new(project.path(KERNELS)).into_iter().filter_map(Result::ok);
    let libraries: Vec<_> =
        kernels().filter(|entry| entry.path().extension().is_some_and(|end| end == "so")).collect();
    assert!(!libraries.is_empty() || !cfg!(target_os = "linux"), "MLX compiled no kernel for the CPU");
    for library in libraries {
        std::fs::write(library.path(), "half").unwrap();
    }
    std::fs::write(project.path("target/parity/tmp/.busy"), "").unwrap();
    run().is_green();
}

/// The port that wobbles counts its runs, so its second run differs.
#[test]
fn a_run_on_two_devices_compares_the_second_with_the_first() {
    let on = |port: &str, devices: &str| {
        let project = Project::with_port(port);
        Ran::of(project.command(&[]).env("PARITY_DEVICE", devices).output().unwrap())
    };
    let ran = on("right", "cpu,cpu");
    ran.is_green();
    ran.prints(&["test gated_mlp/block+on-cpu::gated", "test gated_mlp/block::gated"]);
    assert!(!ran.text.contains("+on-cpu::stats"), "{}", ran.text);
    let ran = on("scaled", "cpu,cpu");
    assert_eq!(failed(&ran, "on-cpu"), BTreeSet::new(), "the port agrees with itself: {}", ran.text);
    let ran = on("right_once", "cpu,cpu");
    ran.is_red(&["+on-cpu::norm: value differs", "compared with `gated_mlp/block`"]);
    assert_eq!(ran.ended("FAILED"), [""; 0], "the first run is green: {}", ran.text);
    on("right", "metal").is_red(&["PARITY_DEVICE is `metal`, expected `declared`, `cpu`, `gpu`"]);
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_gpu_a_run_on_it_is_ignored_with_the_reason() {
    let project = Project::with_port("right");
    let on = |devices: &str| Ran::of(project.command(&[]).env("PARITY_DEVICE", devices).output().unwrap());
    let ran = on("cpu,gpu");
    ran.is_green();
    ran.prints(&["gated_mlp/block+on-gpu is ignored: it needs a GPU that MLX can use"]);
    on("gpu").is_red(&["nothing is proven"]);
}

#[test]
fn a_spec_that_names_its_device_keeps_it() {
    let project = Project::with_port("right");
    let path = project.path(SPEC);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{text}device: cpu\n")).unwrap();
    let ran = Ran::of(project.command(&[]).env("PARITY_DEVICE", "cpu,cpu").output().unwrap());
    ran.is_green();
    assert!(!ran.text.contains("+on-cpu"), "{}", ran.text);
}
