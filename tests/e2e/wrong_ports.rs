//! Every kind of wrong port turns the suite red, with exit code 101 and words that name what is wrong.

use crate::project::{Project, Ran, SPEC};
use rstest::rstest;

#[test]
fn the_right_port_is_green() {
    let ran = Project::with_port("right").run(&[]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["fixture", "gated", "norm", "out", "weights"]);
}

/// The port, the trials that fail, and words of their failures.
#[rstest]
#[case::eps("wrong_eps", &["gated", "norm", "out"], &["norm: value differs", "noise 8", "first divergence"])]
#[case::scaled("scaled", &["gated", "out"], &["gated: value differs", "last green: norm", "out: value differs, 1226x its gate; the first faulty stage is `gated`"])]
#[case::systematic("scaled_below_the_gate", &["norm"], &["norm: a systematic error below the gate", "the actual is the golden times (1 + "])]
#[case::shape("shape", &["gated"], &["gated: shape differs", "[1, tokens, hidden]", "[6, 48]"])]
#[case::dtype("dtype", &["gated", "out"], &["gated: dtype differs", "float32", "bfloat16"])]
#[case::nan("nan", &["gated", "out"], &["gated: NaN or infinity differs", "actual NaN", "NaN, golden none"])]
#[case::twice("twice", &["gated"], &["gated: wrong number of hits", "reached 2 times, but the spec declares 1"])]
#[case::error("error", &["fixture", "out", "weights"], &["out: crash", "after checkpoint `gated`: error on purpose"])]
#[case::mlx_error("mlx_error", &["fixture", "out", "weights"], &["out: crash", "[matmul]"])]
#[case::panic("panic", &["fixture", "out", "weights"], &["out: crash", "panic on purpose"])]
#[case::abort("abort", &["fixture", "out", "weights"], &["out: crash", "killed by SIGABRT after checkpoint `gated`"])]
#[case::segfault("segfault", &["fixture", "out", "weights"], &["out: crash", "killed by SIGSEGV after checkpoint `gated`"])]
#[case::exit("exit", &["fixture", "out", "weights"], &["out: crash", "exited with code 7"])]
#[case::weight_left(
    "weight_left",
    &["fixture", "gated", "norm", "out", "weights"],
    &["4 weights taken, 0 missing, 1 never used", "UNUSED   down.bias"]
)]
#[case::weight_invented(
    "weight_invented",
    &["fixture", "gated", "norm", "out", "weights"],
    &["weight `down.scale` does not exist", "MISSING  down.scale"]
)]
#[case::input_unused(
    "input_unused",
    &["fixture", "gated", "norm", "out"],
    &["the port never asked for: x"]
)]
fn a_wrong_port_is_red(#[case] port: &str, #[case] failed: &[&str], #[case] words: &[&str]) {
    let ran = Project::with_port(port).run(&[]);
    ran.is_red(words);
    assert_eq!(ran.ended("FAILED"), failed, "{}", ran.text);
}

#[test]
fn a_wrong_shape_is_reported_before_anything_is_evaluated() {
    let project = Project::with_port("huge");
    let suite = project.command(&[]);
    // An array of 14 GB does not fit into this limit.
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
    assert_eq!(ran.ended("FAILED"), ["gated"], "{}", ran.text);
    let kept = project.path("target/parity/runs/latest/gated_mlp/block/actual/gated.npy");
    assert!(!kept.exists() && !ran.text.contains("gated.npy"));
}

#[test]
fn a_tap_of_a_wrong_shape_that_is_small_is_kept_and_explained() {
    let project = Project::with_port("shape");
    project.run(&[]).is_red(&["gated: shape differs", "actual/gated.npy"]);
}

#[test]
fn a_tap_inside_a_compiled_function_gets_advice() {
    Project::with_port("compiled").run(&[]).is_red(&[
        "gated: crash",
        "tap `gated` is inside a function that is compiled, where MLX cannot evaluate an array",
        "call the function without `compile` in the parity run",
    ]);
}

#[test]
fn strides_make_no_difference() {
    Project::with_port("strided").run(&[]).is_green();
}

#[test]
fn a_port_that_hangs_is_ended_at_the_timeout() {
    let project = Project::with_port("hang");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    let ran = project.run(&[]);
    ran.is_red(&["out: crash", "timed out after 2 s, after checkpoint `gated`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm"]);
}

#[test]
fn a_tap_under_another_name_is_missed_and_offered() {
    let project = Project::with_port("renamed");
    let output = project.command(&[]).env("BAD_PORTS_UNTAPPED", "gated").output().unwrap();
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
fn a_name_nobody_taps_is_red_and_near_taps_are_offered() {
    let project = Project::with_port("right");
    project.declare("  - {name: gatde, dtype: float32, policy: fp32}");
    project.run(&[]).is_red(&["gatde: never reached", "did you mean `gated`"]);
}

#[test]
fn checkpoints_that_a_crash_left_unmet_come_last() {
    let project = Project::with_port("error");
    project.edit(SPEC, "checkpoints:\n", "checkpoints:\n  - {name: out, dtype: float32, policy: fp32}\n");
    project.edit(
        SPEC,
        "\n  - {name: out, dtype: float32, shape: [1, tokens, dim], stage: residual, policy: fp32}",
        "",
    );
    let ran = project.run(&[]);
    let at = |line: &str| ran.text.find(line).unwrap_or_else(|| panic!("no `{line}` in\n{}", ran.text));
    assert!(at("ok        gated") < at("crash     out"), "{}", ran.text);
}

#[test]
fn a_device_that_is_not_there_is_reported_and_not_replaced() {
    if cfg!(target_os = "macos") {
        return;
    }
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ndevice: gpu");
    project.run(&[]).is_red(&["norm: crash", "the spec requires device gpu"]);
}
