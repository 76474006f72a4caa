//! `cargo parity show`: a spec as a table, a checkpoint in detail, and expressions over its values.

use std::fs;

use crate::command::{check, prints};
use crate::recorded_run::{BLOCK, RecordedRun};

#[test]
fn a_spec_is_a_table_of_both_sides() {
    let project = RecordedRun::new();
    let text = check(project.run(&["show", BLOCK]), 0, &["gated_mlp/block in run one\n"]);
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["checkpoint", "side", "dtype", "shape"]);
    assert_eq!(rows.len(), 1 + 2 * 3, "{text}");
    assert_eq!(rows[3][..3], ["gated", "(red)", "golden"]);
    let json = check(project.run(&["show", BLOCK, "--json"]), 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["run"], json["records"].as_array().unwrap().len()), (&"one".into(), 3));
}

#[test]
fn a_checkpoint_is_shown_with_its_source_and_its_log() {
    let project = RecordedRun::new();
    let text = check(
        project.run(&["show", "gated_mlp/block::gated"]),
        0,
        &[
            "result   red, value: ",
            "golden   float32 [1, 6, 48]\n",
            "first 10: ",
            "max relative ",
            " % of |golden| + 1e-8\n",
            "worst    [0, 0, 5]: ",
            "off by 0.5\n",
            "made at  exporter/references/gated_mlp_block.py",
            "1.0 kB active, 2.0 kB peak in this stage, 3.0 kB peak so far, 10 bytes cached\n",
            "tap      src/port.rs:7\n",
            ">  7 | // line 7\n",
            "> 4 | -- tap gated\n",
            "3 | half way\n",
        ],
    );
    assert!(text.contains(" 2 | // line 2") && !text.contains("// line 1\n"), "{text}");
    assert!(!text.contains("entropy"), "no row sums to one: {text}");
    fs::write(project.path("src/port.rs"), "short\n").unwrap();
    check(project.run(&["show", "gated_mlp/block::gated"]), 0, &["no source: `src/port.rs` has 1 lines now"]);
}

#[test]
fn values_slices_and_expressions_are_computed() {
    let project = RecordedRun::new();
    let gated = |arguments: &[&str]| {
        let all = [&["show", "gated_mlp/block::gated"], arguments].concat();
        check(project.run(&all), 0, &[])
    };
    // The half is rounded to float32 when it is added.
    assert_eq!(gated(&["--expr", "round(1e4 * abs(actual - golden)[0, :, 5].max())"]), "5000\n");
    assert_eq!(gated(&["--expr", "d = abs(actual - golden)\nd.argmax()"]), "5\n");
    let diff = gated(&["--slice", "0, 0, 4:7", "--diff"]);
    assert!(
        diff.starts_with("(actual - golden)[0, 0, 4:7] = [0, 0.4999") && diff.ends_with(", 0]  [3]\n"),
        "{diff}"
    );
    let both = gated(&["--slice", "0, 0, :2"]);
    assert!(both.starts_with("golden[0, 0, :2] = [") && both.contains("\nactual[0, 0, :2] = ["), "{both}");
    let json = gated(&["--expr", "(actual - golden).argmax(); actual.shape", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answers"][0]["value"], serde_json::json!({"shape": [], "values": [5.0], "left_out": 0}));
    assert_eq!(json["answers"][1]["value"]["values"], serde_json::json!([1.0, 6.0, 48.0]));
    prints(
        &check(project.run(&["show", "--functions"]), 0, &[]),
        &["cosine(x, other)", "max(x, axis, keepdims)"],
    );
}

#[test]
fn what_cannot_be_shown_is_one_clear_error() {
    let project = RecordedRun::new();
    let fails = |arguments: &[&str], words: &[&str]| {
        check(project.run(&[&["show"], arguments].concat()), 1, words);
    };
    let gated = "gated_mlp/block::gated";
    fails(
        &[gated, "--expr", "abs(actual - glden)"],
        &["did you mean `golden`?", "^^^^^ column 14", "allowed: "],
    );
    fails(
        &[gated, "--slice", "0, 9"],
        &["--slice: index 9 is outside axis 1, which has length 6", "column 4"],
    );
    fails(
        &["gated_mlp/block::out", "--actual"],
        &[
            "kept no actual of `gated_mlp/block::out`, which is green",
            "PARITY_KEEP=all cargo parity run gated_mlp/block::",
        ],
    );
    fails(
        &["gated_mlp/blok"],
        &["run `one` has no results of spec `gated_mlp/blok`, did you mean `gated_mlp/block`?"],
    );
    fails(&["gated_mlp/block::gatd"], &["has no checkpoint `gatd`, did you mean `gated`?"]);
    fails(&["../one/gated_mlp/block"], &["has no results"]);
    fails(&[BLOCK, "--golden"], &["is a whole spec", "such as `gated_mlp/block::gated`"]);
    fails(&[BLOCK, "--run", "tow"], &["there is no run `tow`"]);
    // A golden that is not the reference's must not be shown as if it were.
    let goldens = project.path("fixtures/gated_mlp/block/goldens.safetensors");
    let mut bytes = fs::read(&goldens).unwrap();
    bytes.iter_mut().rev().take(2_600).for_each(|byte| *byte ^= 1);
    fs::write(&goldens, bytes).unwrap();
    fails(&[gated, "--golden"], &["the golden of `gated` cannot be used"]);
}
