//! Every kind of mistake turns the suite red, with exit code 101 and the words that name it.
//!
//! Runs the real binary of `faulty.rs` on a copy of the gated MLP's spec and fixtures.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "planted/checkout.rs"]
mod checkout;
#[path = "planted/nothing.rs"]
mod nothing;
mod project;
#[path = "planted/settings.rs"]
mod settings;

use std::fs;

use project::{Project, Ran};
use rstest::rstest;

#[test]
fn the_right_port_is_green() {
    let ran = Project::with_port("right").run(&[]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["fixture", "gated", "norm", "out", "weights"]);
}

/// The trials that fail by each mistake, and what the first of them says.
#[rstest]
#[case::eps("wrong_eps", &["gated", "norm", "out"], &["norm: value differs", "noise 8", "first divergence"])]
#[case::scaled("scaled", &["gated", "out"], &["gated: value differs", "last green: norm", "out: value differs", "policy `fp32`"])]
#[case::shape("shape", &["gated"], &["gated: shape differs", "[1, tokens, hidden]", "[6, 48]"])]
#[case::dtype("dtype", &["gated", "out"], &["gated: dtype differs", "float32", "bfloat16"])]
#[case::nan("nan", &["gated", "out"], &["gated: NaN or infinity differs", "actual NaN", "NaN, golden none"])]
#[case::twice("twice", &["gated"], &["gated: wrong number of hits", "met 2 times, but 1 declared"])]
#[case::error("error", &["fixture", "out", "weights"], &["out: crash", "after checkpoint `gated`: planted error"])]
#[case::mlx_error("mlx_error", &["fixture", "out", "weights"], &["out: crash", "[matmul]"])]
#[case::panic("panic", &["fixture", "out", "weights"], &["out: crash", "planted panic"])]
#[case::abort("abort", &["fixture", "out", "weights"], &["out: crash", "killed by SIGABRT after checkpoint `gated`"])]
#[case::segfault("segfault", &["fixture", "out", "weights"], &["out: crash", "killed by SIGSEGV after checkpoint `gated`"])]
#[case::exit("exit", &["fixture", "out", "weights"], &["out: crash", "with exit code 7"])]
#[case::weight_left(
    "weight_left",
    &["fixture", "gated", "norm", "out", "weights"],
    &["4 weights taken, 0 missing, 1 never used", "UNUSED   down.bias"]
)]
#[case::weight_invented(
    "weight_invented",
    &["fixture", "gated", "norm", "out", "weights"],
    &["there is no weight `down.scale`", "MISSING  down.scale"]
)]
#[case::input_unused(
    "input_unused",
    &["fixture", "gated", "norm", "out"],
    &["the port never asked for: x"]
)]
fn a_wrong_port_is_red(#[case] port: &str, #[case] failed: &[&str], #[case] words: &[&str]) {
    let ran = Project::with_port(port).run(&[]);
    ran.is_red(words);
    assert_eq!(ran.ended("FAILED"), failed, "{}", ran.said);
}

#[test]
fn a_wrong_shape_is_told_before_anything_is_evaluated() {
    let project = Project::with_port("huge");
    let suite = project.command(&[]);
    // 14 GB would not fit.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -v 6000000; exec \"$0\" \"$@\""]).arg(suite.get_program());
    for (name, value) in suite.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let ran = Ran::of(limited.output().unwrap());
    ran.is_red(&["gated: shape differs", "[1, tokens, hidden], but the port produced [60000, 60000]"]);
    assert_eq!(ran.ended("FAILED"), ["gated"], "{}", ran.said);
    let kept = project.path("target/parity/runs/latest/gated_mlp/block/actual/gated.npy");
    assert!(!kept.exists() && !ran.said.contains("gated.npy"));
}

#[test]
fn a_tap_of_a_wrong_shape_that_is_small_is_kept_and_explained() {
    let project = Project::with_port("shape");
    project.run(&[]).is_red(&["gated: shape differs", "actual/gated.npy"]);
}

#[test]
fn a_tap_inside_a_compiled_function_says_what_to_do() {
    Project::with_port("compiled").run(&[]).is_red(&[
        "gated: crash",
        "tap `gated` is inside a function that is compiled or differentiated",
        "call it without `compile` in the parity run",
    ]);
}

#[test]
fn strides_make_no_difference() {
    Project::with_port("strided").run(&[]).is_green();
}

#[test]
fn a_port_that_hangs_is_ended_at_the_timeout() {
    let project = Project::with_port("hang");
    project.edit("parity-specs/gated_mlp/block.yaml", "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    let ran = project.run(&[]);
    ran.is_red(&["out: crash", "timed out after 2 s, after checkpoint `gated`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm"]);
}

#[test]
fn a_tap_under_another_name_is_missed_and_offered() {
    let project = Project::with_port("renamed");
    let output = project.command(&[]).env("FAULTY_RENAMED", "gated").output().unwrap();
    let ran = Ran::of(output);
    ran.is_red(&["gated: never reached", "`mlp.gatd`"]);
    assert_eq!(ran.ended("FAILED"), ["gated"]);
}

#[test]
fn a_port_that_is_not_registered_is_red_everywhere_and_near_names_are_offered() {
    let ran = Project::with_port("rigth").run(&[]);
    ran.is_red(&["port `rigth` is not registered", "`right`"]);
    assert_eq!(ran.ended("ok"), [""; 0]);
    assert_eq!(ran.ended("FAILED"), ["fixture", "gated", "norm", "out", "spec", "weights"]);
}

#[test]
fn fixtures_that_cannot_be_trusted_are_red_everywhere() {
    type Plant = fn(&Project);
    let faults: [(Plant, &[&str]); 5] = [
        (
            |project| {
                let path = project.path("exporter/references/gated_mlp_block.py");
                fs::write(&path, fs::read_to_string(&path).unwrap() + "# another\n").unwrap();
            },
            &["the golden is stale", "regenerate-fixtures gated_mlp/block"],
        ),
        (
            |project| project.edit("parity-specs/gated_mlp/block.yaml", "tokens: 6}", "tokens: 7}"),
            &["the golden is stale", "`params`"],
        ),
        (
            |project| fs::remove_dir_all(project.path("fixtures/gated_mlp/block")).unwrap(),
            &["the golden is missing", "there are no fixtures"],
        ),
        (
            |project| {
                let path = project.path("fixtures/gated_mlp/block/goldens.safetensors");
                let mut bytes = fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                fs::write(&path, bytes).unwrap();
            },
            &["the fixtures cannot be trusted", "SHA-256"],
        ),
        (
            |project| {
                let path = project.path("fixtures/gated_mlp/block/inputs.safetensors");
                let bytes = fs::read(&path).unwrap();
                fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
            },
            &["the fixtures cannot be trusted", "truncated"],
        ),
    ];
    for (plant, words) in faults {
        let project = Project::with_port("right");
        plant(&project);
        let ran = project.run(&[]);
        ran.is_red(words);
        assert_eq!(ran.ended("FAILED"), ["fixture", "gated", "norm", "out", "weights"], "{}", ran.said);
        ran.says(&["not run; `gated_mlp/block::fixture` says why"]);
    }
}

#[test]
fn a_tap_without_a_golden_is_red_also_when_it_is_not_gated() {
    for gate in ["policy: fp32", "policy: fp32, gate: false, why: planted"] {
        let project = Project::with_port("renamed");
        project.declare(&format!("  - {{name: mlp.gatd, dtype: float32, {gate}}}"));
        let ran = project.run(&[]);
        ran.is_red(&["mlp.gatd: the golden is missing", "have no golden `mlp.gatd`", "regenerate-fixtures"]);
        assert_eq!(ran.ended("FAILED"), ["mlp.gatd"]);
    }
}

#[test]
fn a_name_nobody_taps_is_red_and_near_taps_are_offered() {
    let project = Project::with_port("right");
    project.declare("  - {name: gatde, dtype: float32, policy: fp32}");
    project.run(&[]).is_red(&["gatde: never reached", "did you mean `gated`"]);
}

#[test]
fn what_is_not_gated_is_measured_and_counted_apart() {
    let project = Project::with_port("scaled");
    project.declare("  - {name: gated, dtype: float32, policy: fp32, gate: false, why: planted}");
    let ran = project.run(&[]);
    ran.is_red(&["not gated gated", "value, were it gated"]);
    assert_eq!(ran.ended("FAILED"), ["out"]);
}

#[test]
fn an_injected_golden_is_what_the_port_goes_on_with() {
    let project = Project::with_port("scaled");
    project.edit("parity-specs/gated_mlp/block.yaml", "inputs: [x]", "inputs: [x]\ninject: [gated]");
    let ran = project.run(&[]);
    // The fault is still seen where it is, and nowhere after.
    ran.is_red(&["gated: value differs"]);
    assert_eq!(ran.ended("FAILED"), ["gated"]);
    let records = project.path("target/parity/runs/latest/gated_mlp/block/records.jsonl");
    let injected: Vec<bool> = fs::read_to_string(records)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["injected"].as_bool())
        .collect();
    assert_eq!(injected, [false, true, true]);
}

#[test]
fn a_device_that_is_not_there_is_said_and_not_replaced() {
    if cfg!(target_os = "macos") {
        return;
    }
    let project = Project::with_port("right");
    project.edit("parity-specs/gated_mlp/block.yaml", "inputs: [x]", "inputs: [x]\ndevice: gpu");
    project.run(&[]).is_red(&["norm: crash", "the spec wants the device gpu"]);
}

#[test]
fn two_weights_under_one_name_are_refused() {
    let project = Project::with_port("right");
    project.edit(
        "parity-specs/gated_mlp/block.yaml",
        "{file: weights.safetensors}",
        "{file: weights.safetensors, rename: {up: gate}}",
    );
    project.run(&[]).is_red(&["`gate.weight` and `up.weight` would both be the weight `gate.weight`"]);
}

#[test]
fn a_spec_that_cannot_be_read_is_red_by_its_name_and_listing_still_works() {
    let project = Project::with_port("right");
    project.edit("parity-specs/gated_mlp/block.yaml", "dtype: float32", "dtyp: float32");
    let ran = project.run(&[]);
    ran.is_red(&["dtyp", "`dtype`", "block.yaml:"]);
    assert_eq!(ran.ended("FAILED"), ["spec"]);
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.says(&["gated_mlp/block::spec: test"]);
}

#[test]
fn a_suite_without_specs_is_red() {
    let project = Project::with_port("right");
    fs::remove_dir_all(project.path("parity-specs/gated_mlp")).unwrap();
    project.run(&[]).is_red(&["parity::discovery", "no spec was found"]);
    project.run(&["--list"]).is_green();
}

#[test]
fn listing_starts_nothing_and_leaves_nothing() {
    let project = Project::with_port("abort");
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.says(&["gated_mlp/block::norm: test", "gated_mlp/block::weights: test"]);
    assert!(!project.path("target").exists());
}

#[test]
fn a_filtered_run_stops_after_what_was_asked_for() {
    let project = Project::with_port("abort");
    let ran = project.run(&["--exact", "gated_mlp/block::gated"]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["gated"]);
    assert!(!ran.said.contains("unreached") && !ran.said.contains("::out"), "{}", ran.said);
    // Nobody asked for anything in this spec, so nothing is run at all.
    project.run(&["nothing like it"]).is_green();
    assert_eq!(project.forwards(), 1);
}

#[test]
fn requirements_that_are_not_met_ignore_or_fail() {
    let project = Project::with_port("right");
    project.edit(
        "parity-specs/gated_mlp/block.yaml",
        "inputs: [x]",
        "inputs: [x]\nrequires: [\"env:FAULTY_NEVER\"]",
    );
    let ran = project.run(&["gated_mlp"]);
    ran.is_green();
    ran.says(&["6 ignored", "gated_mlp/block is ignored: it needs the environment variable FAULTY_NEVER"]);
    let required = Ran::of(project.command(&[]).env("PARITY_REQUIRE", "all").output().unwrap());
    required.is_red(&["PARITY_REQUIRE=all allows nothing to be ignored"]);
    let wrong = Ran::of(project.command(&[]).env("PARITY_REQUIRE", "yes").output().unwrap());
    wrong.is_red(&["PARITY_REQUIRE is `yes`, expected `declared` or `all`"]);
}

#[test]
fn a_process_that_was_killed_is_not_followed_by_another() {
    let project = Project::with_port("kills_its_suite");
    assert_eq!(project.as_nextest("norm", "one", "1").code, None, "it was killed");
    project.as_nextest("out", "one", "1").is_red(&[
        "out: pending",
        "the run was interrupted after checkpoint `gated`: the process that ran this spec was killed",
    ]);
    assert_eq!(project.forwards(), 1);
}

#[test]
fn a_run_under_an_old_name_is_a_new_run() {
    let project = Project::with_port("right");
    for _ in 0..2 {
        let output = project.command(&[]).env("PARITY_RUN", "again").output().unwrap();
        Ran::of(output).is_green();
    }
    assert_eq!(project.forwards(), 2);
}

#[test]
fn what_a_port_prints_is_kept_apart_from_the_tests() {
    let project = Project::with_port("prints");
    let ran = project.run(&[]);
    ran.is_green();
    assert!(!ran.said.contains("printed by the port"));
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    assert_eq!(fs::read_to_string(output).unwrap(), "printed by the port\n");
}

#[test]
fn processes_of_one_nextest_run_share_one_worker() {
    let project = Project::with_port("right");
    std::thread::scope(|scope| {
        for name in ["out", "norm", "gated", "fixture", "weights", "stats"] {
            let project = &project;
            scope.spawn(move || project.as_nextest(name, "one", "1").is_green());
        }
    });
    assert_eq!(project.forwards(), 1);
    project.as_nextest("out", "two", "1").is_green();
    assert_eq!(project.forwards(), 2);
}

#[test]
fn what_a_crash_left_unmet_is_told_after_what_was_met() {
    let project = Project::with_port("error");
    let spec = "parity-specs/gated_mlp/block.yaml";
    project.edit(spec, "checkpoints:\n", "checkpoints:\n  - {name: out, dtype: float32, policy: fp32}\n");
    project.edit(
        spec,
        "\n  - {name: out, dtype: float32, shape: [1, tokens, dim], stage: residual, policy: fp32}",
        "",
    );
    let ran = project.run(&[]);
    let at = |line: &str| ran.said.find(line).unwrap_or_else(|| panic!("no `{line}` in\n{}", ran.said));
    assert!(at("ok        gated") < at("crash     out"), "{}", ran.said);
}

#[test]
fn a_crash_is_repeated_by_a_retry_only() {
    let project = Project::with_port("crash_once");
    project.as_nextest("out", "one", "1").is_red(&["SIGABRT"]);
    project.as_nextest("norm", "one", "1").is_green();
    assert_eq!(project.forwards(), 1);
    project.as_nextest("out", "one", "2").is_green();
    assert_eq!(project.forwards(), 2);
}
