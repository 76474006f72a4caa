//! `cargo xtask regenerate-fixtures`: which sets it makes, what it refuses, and what it replaces.

mod floors;
mod foreign_files;
mod killed;
mod numpy;
mod script;
mod second;

use std::fs;

use mlx_parity_core::tensor::{Dtype, Tensor, write_npy};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::command::ended;
use crate::shell_project::{Project, SCRIPT, SET};

#[test]
fn a_set_is_made_kept_and_made_again_when_its_script_changes() {
    let project = Project::new();
    project.prints(1, &["--check"], 1, &["no fixtures exist at", "0 current, 1 not"]);
    project.prints(1, &["--yes"], 0, &["3 tensors: 3 added, 0 the same", "1 new, 0 replaced, 0 current"]);
    assert_eq!(project.mark(), Some(1));
    project.prints(1, &["--check"], 0, &["1 current, 0 not"]);
    // A current set is not made again: this mark would give another one.
    project.prints(2, &["--yes"], 0, &["1 set current, nothing to do"]);
    assert_eq!(project.mark(), Some(1));

    project.script(&format!("# another\n{SCRIPT}"));
    project.prints(2, &["--check"], 1, &["are stale: the content of `reference.sh` changed"]);
    project.prints(
        2,
        &["--yes"],
        0,
        &[
            "model/part: fixtures `model/part` are stale",
            "3 tensors: 3 changed, 0 the same",
            "golden a  differs by up to 1.00e0, ",
            "input x  differs by up to 1.00e0, in 100.0 % of its elements",
        ],
    );
    assert_eq!(project.mark(), Some(2));
    project.prints(2, &["--check"], 0, &["1 current, 0 not"]);
    assert_eq!(project.entries(), ["model"]);

    project.prints(
        2,
        &["--yes", "--force"],
        0,
        &["model/part: reproduced byte for byte", "0 replaced, 1 current"],
    );
}

#[test]
fn nothing_is_replaced_without_consent() {
    let project = Project::new();
    // A new set replaces nothing.
    project.prints(1, &[], 0, &["3 tensors: 3 added", "1 new, 0 replaced"]);
    project.prints(
        2,
        &["--force"],
        1,
        &[
            "3 tensors: 3 changed",
            "1 set would change, but there is no terminal to ask on; nothing was replaced",
            "pass `--yes`",
        ],
    );
    assert_eq!(project.mark(), Some(1));
    assert_eq!(project.entries(), ["model"]);
}

#[test]
fn a_script_that_gives_other_bytes_the_second_time_is_refused() {
    let project = Project::new();
    let other = "if [ -e turn ]; then MARK=2; fi\ntouch turn\n";
    project.script(&format!("{other}{SCRIPT}"));
    project.prints(1, &["--yes"], 1, &[
        "two runs of `reference.sh` gave different bytes: golden `a` differs by up to 1.000e0, in 100.0 % of its",
        "to do: look in the script for random draws without a seed",
        "0 replaced, 0 current, 1 failed",
    ]);
    assert_eq!(project.mark(), None);
    // The same holds if the tensors agree and only the manifests differ.
    fs::remove_file(project.path("turn")).unwrap();
    project.script(&format!("{SCRIPT}[ -e turn ] && echo >> \"$1/manifest.json\"\ntouch turn\n"));
    project.prints(1, &["--yes"], 1, &["no tensor differs, but the file `manifest.json` does"]);
}

#[test]
fn what_the_lint_finds_is_refused_unless_the_script_accepts_it() {
    let project = Project::new();
    let report = |accepted: &str| {
        format!(
            r#"{{"notes": ["a note"], "findings": [{{"kind": "constant", "role": "golden", "name": "a",
            "message": "golden `a` is 1.0 everywhere", "advice": "choose other inputs", "accepted": {accepted}}}]}}"#
        )
    };
    project.write("refused.json", &report("null"));
    project.write("accepted.json", &report("\"every token is visible\""));
    project.script("cp refused.json \"$PARITY_REPORT\"\nexit 3\n");
    let words = [
        "the exporter's lint rejects the set that `reference.sh` made:\n",
        "  constant         golden `a` is 1.0 everywhere\n",
        "choose other inputs",
        "accept a finding with its reason",
    ];
    project.prints(1, &["--yes"], 1, &words);
    // The same holds if the script writes its set nevertheless.
    project.script(&format!("cp refused.json \"$PARITY_REPORT\"\n{SCRIPT}"));
    project.prints(1, &["--yes"], 1, &words);
    assert_eq!(project.mark(), None);
    project.script(&format!("cp accepted.json \"$PARITY_REPORT\"\n{SCRIPT}"));
    let text = ["accepted: constant: golden `a` is 1.0 everywhere (every token is visible)", "note: a note"];
    project.prints(1, &["--yes"], 0, &text);
    assert_eq!(project.mark(), Some(1));
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_that_fails_is_quoted_and_the_old_set_stays() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    for (script, words) in [
        ("echo 'ValueError: no such head' >&2; exit 1\n", "`reference.sh` failed: ValueError: no such head"),
        (
            "echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n",
            "name the environment that it needs with a line `# parity: environment = \"torch\"`",
        ),
        ("kill -9 $$\n", "`reference.sh` failed: ended by signal 9"),
        ("echo 'only here'; exit 1\n", "`reference.sh` failed: only here"),
        ("exit 0\n", "the set that `reference.sh` made is unusable: no fixtures exist at"),
        (
            "cp -r made/1 \"$1\"; printf x >> \"$1/golden-a.npy\"\n",
            "the set that `reference.sh` made is unusable: fixture file",
        ),
    ] {
        project.script(script);
        project.prints(2, &["--yes"], 1, &[words, "1 failed"]);
        assert_eq!(project.mark(), Some(1));
        assert_eq!(project.entries(), ["model"]);
    }
}

#[test]
fn a_script_is_given_what_the_contract_says() {
    let project = Project::new();
    project.script(&format!(
        "{{ echo \"$PARITY_REFERENCE\"; cat \"$PARITY_EXPECT\"; echo; echo \"$PARITY_ROOT\"; echo \"$1\"; \
         echo \"reuse=$PARITY_REUSE new=$PARITY_NEW_INPUTS spread=$PARITY_SPREAD omp=$OMP_NUM_THREADS \
         lint=$PARITY_LINT\"; }} > text\n{SCRIPT}"
    ));
    let run = |arguments: &[&str]| {
        let mut command = project.command(&["regenerate-fixtures", "--yes"]);
        let output = command.args(arguments).env("PARITY_LINT", "report").output().unwrap();
        assert!(output.status.success(), "{}", ended(output).1);
        fs::read_to_string(project.path("text")).unwrap()
    };
    let text = run(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], r#"{"script":"reference.sh"}"#);
    assert_eq!(lines[1], r#"{"goldens":{"a":"float32","b":"float32"},"inputs":["x"],"rename":{}}"#);
    assert!(lines[3].starts_with(lines[2]) && lines[3].ends_with("/second/model/part"), "{text}");
    assert_eq!(lines[4], "reuse= new= spread= omp=1 lint=");
    let text = run(&["--force"]);
    assert!(
        text.contains(&format!(
            "reuse={}/{SET} new= ",
            project.path("fixtures").canonicalize().unwrap().display()
        )),
        "{text}"
    );
    let text = run(&["--force", "--new-inputs", "--spread"]);
    assert!(text.contains("reuse= new=1 spread=1 "), "{text}");
}

#[test]
fn too_much_is_warned_of_and_then_stopped() {
    let project = Project::new();
    let run = |name: &str, value: &str| {
        ended(
            project.command(&["regenerate-fixtures", "--yes", "--force"]).env(name, value).output().unwrap(),
        )
    };
    let (code, text) = run("PARITY_SIZE_LIMIT", "100 bytes");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("above the limit of 100 bytes") && text.contains("PARITY_SIZE_LIMIT"), "{text}");
    assert_eq!(project.mark(), None);
    let (code, text) = run("PARITY_SIZE_WARN", "100 bytes");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("warning: fixtures and runs take "), "{text}");
    let (code, text) = run("PARITY_SIZE_WARN", "plenty");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("PARITY_SIZE_WARN is `plenty`, expected a size such as"), "{text}");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn specs_that_cannot_be_used_are_reported() {
    let project = Project::new();
    project.prints(1, &["model/prt"], 1, &["spec `model/prt` does not exist, did you mean `model/part`?"]);
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/twin.yaml", &format!("{spec}fixtures: model/part\n"));
    project.prints(1, &["--yes", "model/twin"], 0, &["1 new, 0 replaced"]);
    project.prints(1, &["--check"], 0, &["1 current"]);
    let other = spec.replace("reference.sh,", "reference.sh, timeout: 5m,");
    project.write("parity-specs/model/twin.yaml", &format!("{other}fixtures: model/part\n"));
    project.prints(1, &["--check"], 1, &["share the fixtures `model/part`, but have different `reference`"]);
    let other = spec.replace("reference.sh,", "reference.sh, source: x,");
    project.write("parity-specs/model/twin.yaml", &format!("{other}fixtures: model/part\n"));
    project.prints(
        1,
        &["--check"],
        1,
        &["share the fixtures `model/part`, but have different `reference` blocks"],
    );
    project.write("parity-specs/model/twin.yaml", "version: 1\n");
    project.prints(1, &["--check"], 1, &["1 spec cannot be read", "cargo parity lint"]);
    project.prints(1, &["--check", "model/part"], 0, &["1 current"]);
    project.prints(1, &["--check", "model/twin"], 1, &["spec `model/twin` cannot be read"]);
}

#[test]
fn a_checkpoint_that_the_set_does_not_have_makes_it_due() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/part.yaml", &spec.replace("name: b,", "name: c,"));
    project.prints(1, &["--check"], 1, &["have no golden `c`"]);
}

/// NumPy makes float64 by default, and MLX computes in it on the CPU only.
#[test]
fn a_float64_input_is_refused_unless_the_spec_is_for_the_cpu() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let values: Vec<u8> = [1f64; 64].iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = Tensor::from_vec(Dtype::Float64, vec![64], values.clone()).unwrap();
    write_npy(project.path("fixtures/model/part/input-x.npy"), &tensor.view()).unwrap();
    let manifest = project.path("fixtures/model/part/manifest.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let sha256: String = Sha256::digest(&values).iter().map(|byte| format!("{byte:02x}")).collect();
    let entry = &mut text["tensors"][2];
    (entry["dtype"], entry["sha256"]) = ("float64".into(), sha256.into());
    fs::write(&manifest, text.to_string()).unwrap();
    let words = "input `x` is float64, which MLX supports only on the CPU; save it as float32 in the reference's script, or \
                 set `device: cpu` in the spec";
    project.prints(1, &["--check"], 1, &[words, "0 current, 1 not"]);
    let (_, text) = ended(project.command(&["lint"]).output().unwrap());
    assert!(text.contains(&format!("error: spec `model/part`: {words}")), "{text}");
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/part.yaml", &format!("{spec}device: cpu\n"));
    project.prints(1, &["--check"], 0, &["1 current, 0 not"]);
}
