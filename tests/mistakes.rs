//! Realistic mistakes in the bundled ports: which checkpoint is red first, and with which class.
//!
//! Each row was written down before it was run. The suite is the real binary of `mistaken/`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rstest::rstest;
use serde_json::Value;

/// Runs `spec` with the port `<port>/<mistake>` and expects `first` to be the first red checkpoint, of class `class`.
#[rstest]
#[case("gated_mlp/block", "eps", "norm", "value")]
#[case("gated_mlp/block", "gate_and_up_swapped", "gated", "value")]
#[case("gated_mlp/block", "no_bias", "out", "value")]
fn a_mistake_is_red_first_where_it_is(
    #[case] spec: &str,
    #[case] mistake: &str,
    #[case] first: &str,
    #[case] class: &str,
) {
    let project = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = |file: &str, change: &dyn Fn(String) -> String| {
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, change(fs::read_to_string(repository.join(file)).unwrap())).unwrap();
    };
    copy("parity-specs/policies.yaml", &|text| text);
    copy(&format!("parity-specs/{spec}.yaml"), &|text| {
        let line = text.lines().find(|line| line.starts_with("port: ")).unwrap();
        text.replacen(line, &format!("{line}/{mistake}"), 1)
    });
    std::os::unix::fs::symlink(repository.join("exporter"), project.path().join("exporter")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mistaken"))
        .env("MISTAKEN_ROOT", project.path())
        .env("PARITY_FIXTURES", repository.join("fixtures"))
        .env("PARITY_LEVEL", "255")
        .env("INSTA_UPDATE", "no")
        .env_remove("PARITY_OUT")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(101), "{said}");
    let trials = fs::read_to_string(project.path().join("target/parity/runs/latest/trials.jsonl")).unwrap();
    let trials: Vec<Value> = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let red = trials.iter().find(|trial| trial["status"] == "fail").unwrap();
    assert_eq!((red["trial"].as_str(), red["class"].as_str()), (Some(first), Some(class)), "{said}");
}
