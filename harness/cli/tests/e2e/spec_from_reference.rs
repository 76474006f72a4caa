//! A spec from what a reference records: `new-spec --from`, `new-spec --missing` and `regenerate-fixtures --list`. Shell scripts
//! stand in for references and write the listing that the exporter would write.

use std::fs;

use mlx_parity_core::spec::Specs;
use serde_json::{Value, json};

use crate::command::{check, prints};
use crate::shell_project::Project;

/// Writes the listing, and what the script was told.
const SCRIPT: &str = "echo \"$1\" > asked; echo \"$PARITY_REFERENCE\" >> asked; ulimit -d >> asked\ncp listing.json \"$PARITY_REPORT\"\n";

fn tensor(name: &str, shape: &[usize]) -> Value {
    json!({"name": name, "dtype": "float32", "shape": shape, "finding": null})
}

/// A project whose script records a stack of layers.
fn project() -> Project {
    let project = Project::new();
    project.write("exporter/references/stack.sh", SCRIPT);
    let mut goldens = vec![tensor("embed", &[5, 64])];
    for layer in 0..3 {
        goldens.push(tensor(&format!("layers.{layer}.norm"), &[5, 64]));
        goldens.push(tensor(&format!("layers.{layer}.attn.q_proj"), &[5, 64]));
        goldens.push(tensor(&format!("layers.{layer}.out"), &[5, 64]));
    }
    goldens.push(json!({"name": "mask", "dtype": "float32", "shape": [5, 5], "finding": "zero"}));
    goldens.push(tensor("logits", &[5, 61]));
    let points: Vec<Value> =
        goldens.iter().map(|one| json!({"name": one["name"], "kind": "float32"})).collect();
    let listing = json!({
        "format": 1, "params": {"dim": 64, "layers": 3, "tokens": 5}, "points": points, "goldens": goldens,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 64]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [64, 64], "file": null}], "skipped": {},
        "unmatched": ["no point matches `attn`, did you mean `layers.0.attn`?"]
    });
    project.write("listing.json", &listing.to_string());
    project.write("src/lib.rs", "pub mod stack;\n");
    project
}

const FROM: [&str; 4] = ["new-spec", "stack/all", "--from", "exporter/references/stack.sh"];

#[track_caller]
fn run(project: &Project, arguments: &[&str], code: i32, words: &[&str]) -> String {
    check(project.command(arguments).output().unwrap(), code, words)
}

#[test]
fn a_spec_is_written_from_what_the_script_records() {
    let project = project();
    let params = ["--param", "layers=3", "--param", "name=a b", "--memory", "300MB"];
    let text = run(&project, &[&FROM[..], &params].concat(), 0, &["left out: mask  (zero)", "left to do:"]);
    insta::assert_snapshot!("spec_from_reference", text);
    insta::assert_snapshot!(
        "written_spec",
        fs::read_to_string(project.path("parity-specs/stack/all.yaml")).unwrap()
    );
    insta::assert_snapshot!("written_port", fs::read_to_string(project.path("src/stack/all.rs")).unwrap());
    let asked = fs::read_to_string(project.path("asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    assert_eq!(asked[0], "--list");
    let reference: Value = serde_json::from_str(asked[1]).unwrap();
    assert_eq!(reference["params"], json!({"layers": 3, "name": "a b"}));
    assert_eq!(reference["script"], "exporter/references/stack.sh");
    if cfg!(target_os = "linux") {
        assert_eq!(asked[2], (300_000_000 / 1024).to_string());
    }
    let spec = Specs::load(&project.path("parity-specs"))
        .specs
        .into_iter()
        .find(|spec| spec.id == "stack/all")
        .unwrap();
    assert_eq!(spec.checkpoints.len(), 1 + 3 * 3 + 1);
    // Nothing that exists is overwritten.
    run(&project, &FROM, 1, &["`parity-specs/stack/all.yaml` already exists", "--missing --write` adds"]);
    fs::remove_file(project.path("parity-specs/stack/all.yaml")).unwrap();
    project.write("src/stack/all.rs", "// my port\n");
    fs::remove_file(project.path("src/stack.rs")).unwrap();
    project.write("src/stack/mod.rs", "pub mod all;\n");
    project.write("tests/parity.rs", "suite.port(\"stack::all\", |run| Ok(()))");
    let text = run(
        &project,
        &FROM,
        0,
        &["kept src/stack/all.rs, which exists", "wrote parity-specs/stack/all.yaml"],
    );
    let (_, left) = text.split_once("left to do:\n").unwrap();
    insta::assert_snapshot!("left_to_do_with_a_port", left);
    // A module that `lib.rs` holds gets no file.
    fs::remove_file(project.path("parity-specs/stack/all.yaml")).unwrap();
    fs::remove_file(project.path("src/stack/mod.rs")).unwrap();
    project.write("src/lib.rs", "pub mod stack {\n    pub mod all;\n}\n");
    let text = run(&project, &FROM, 0, &["wrote parity-specs/stack/all.yaml"]);
    assert_eq!(text.split_once("left to do:\n").unwrap().1, left);
    assert!(!project.path("src/stack.rs").exists());
    assert_eq!(fs::read_to_string(project.path("src/stack/all.rs")).unwrap(), "// my port\n");
    let names = run(
        &project,
        &["regenerate-fixtures", "--list", "stack/all"],
        0,
        &["  layers.2.attn.q_proj  float32\n"],
    );
    assert!(names.starts_with("stack/all  exporter/references/stack.sh\n"), "{names}");
    let asked = fs::read_to_string(project.path("asked")).unwrap();
    let reference: Value = serde_json::from_str(asked.lines().nth(1).unwrap()).unwrap();
    assert_eq!(reference["params"], json!({"dim": 64, "layers": 3, "tokens": 5}), "the spec's params");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_that_cannot_be_listed_is_one_clear_error() {
    let project = project();
    run(&project, &["new-spec", "a/b", "--from", "nowhere.py"], 1, &["cannot read `nowhere.py`"]);
    run(&project, &["new-spec", "a/b", "--from", "/bin/sh"], 1, &["`/bin/sh` is outside the project"]);
    run(&project, &[&FROM[..], &["--param", "layers"]].concat(), 1, &["`--param layers` is not NAME=VALUE"]);
    run(&project, &[&FROM[..], &["--memory", "3"]].concat(), 2, &["a size of at least 100 MB"]);
    project.write("params.json", "[1]");
    run(
        &project,
        &[&FROM[..], &["--params", "params.json"]].concat(),
        1,
        &["`params.json` is not a JSON object"],
    );
    let script = "exporter/references/stack.sh";
    project.write(script, "echo 'numpy: Unable to allocate 7. GiB' >&2; exit 1\n");
    let words = ["needed more than 200 MB of memory", "--param layers=2", "--memory 32GB"];
    run(&project, &[&FROM[..], &["--memory", "200MB"]].concat(), 1, &words);
    project.write(script, "echo fails >&2; exit 1\n");
    run(&project, &FROM, 1, &["`exporter/references/stack.sh` failed: fails"]);
    project.write(script, "exit 0\n");
    run(&project, &FROM, 1, &["wrote no listing", "ends in `parity_export.main(reference)`"]);
    project.write(script, SCRIPT);
    let listing = fs::read_to_string(project.path("listing.json")).unwrap();
    let mut nothing: Value = serde_json::from_str(&listing).unwrap();
    nothing["goldens"] = json!([]);
    project.write("listing.json", &nothing.to_string());
    run(&project, &FROM, 1, &["records no golden that proves anything", "rec.save"]);
    assert!(!project.path("parity-specs/stack").exists() && !project.path("src/stack").exists());
    let left = fs::read_dir(project.path(".parity")).unwrap().filter_map(Result::ok);
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("listing-")));
}

#[test]
fn what_a_spec_does_not_declare_is_offered_and_written() {
    let project = project();
    run(&project, &FROM, 0, &[]);
    run(
        &project,
        &["new-spec", "stack/all", "--missing"],
        0,
        &["declares every golden that its reference records"],
    );
    let path = project.path("parity-specs/stack/all.yaml");
    let whole = fs::read_to_string(&path).unwrap();
    let without: String = whole
        .lines()
        .filter(|line| !line.contains("attn.q_proj") && !line.contains("name: embed"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&path, &without).unwrap();
    // The last run reached one of these taps, and one that the reference does not record.
    project.write("target/parity/runs/one/stack/all/exit.json", "\"done\"");
    let line = |name: &str| format!("{}\n", json!({"kind": "undeclared", "name": name}));
    project.write("target/parity/runs/one/stack/all/records.jsonl", &(line("embed") + &line("extra")));
    std::os::unix::fs::symlink("one", project.path("target/parity/runs/latest")).unwrap();
    let text = run(&project, &["new-spec", "stack/all", "--missing"], 0, &["`--write` writes these lines"]);
    prints(
        &text,
        &["does not declare 4 goldens that its reference records; the port taps 1 of them", "  extra\n"],
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), without);
    run(&project, &["new-spec", "stack/all", "--missing", "--write"], 0, &["wrote 2 lines to"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
}
