//! What `cargo xtask regenerate-fixtures` does around a reference: whether it runs, what it refuses, what it replaces.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod not_regular;
mod script;
mod shell;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use mlx_parity::tensor::{Dtype, Tensor, write_npy};
use serde_json::Value;
use sha2::{Digest, Sha256};
use shell::{Project, SCRIPT, SET, told};

#[test]
fn a_set_is_made_kept_and_made_again_when_its_script_changes() {
    let project = Project::new();
    project.says(1, &["--check"], 1, &["there are no fixtures at", "0 current, 1 not"]);
    project.says(1, &["--yes"], 0, &["3 tensors: 3 added, 0 the same", "1 replaced, 0 current"]);
    assert_eq!(project.mark(), Some(1));
    project.says(1, &["--check"], 0, &["1 current, 0 not"]);
    // Nothing is run that is current: this mark would make another set.
    project.says(2, &["--yes"], 0, &["1 set current, nothing to do"]);
    assert_eq!(project.mark(), Some(1));

    project.script(&format!("# another\n{SCRIPT}"));
    project.says(2, &["--check"], 1, &["are stale: the content of `reference.sh` changed"]);
    project.says(
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
    project.says(2, &["--check"], 0, &["1 current, 0 not"]);
    assert_eq!(project.entries(), ["model"]);

    project.says(
        2,
        &["--yes", "--force"],
        0,
        &["model/part: made again to the byte", "0 replaced, 1 current"],
    );
}

#[test]
fn nothing_is_replaced_without_a_word() {
    let project = Project::new();
    project.says(
        1,
        &[],
        1,
        &[
            "3 tensors: 3 added",
            "1 set would change, and there is no terminal to ask on; nothing was replaced",
            "say `--yes`",
        ],
    );
    assert_eq!(project.mark(), None);
    assert_eq!(project.entries(), [""; 0]);
}

#[test]
fn a_script_that_gives_other_bytes_the_second_time_is_refused() {
    let project = Project::new();
    let other = "if [ -e turn ]; then MARK=2; fi\ntouch turn\n";
    project.script(&format!("{other}{SCRIPT}"));
    project.says(1, &["--yes"], 1, &[
        "`reference.sh` does not give the same bytes twice: golden `a` differs by up to 1.000e0, in 100.0 % of its",
        "to do: look for draws without a seed",
        "0 replaced, 0 current, 1 failed",
    ]);
    assert_eq!(project.mark(), None);
    // Also when the tensors agree and only the manifest does not.
    fs::remove_file(project.path("turn")).unwrap();
    project.script(&format!("{SCRIPT}[ -e turn ] && echo >> \"$1/manifest.json\"\ntouch turn\n"));
    project.says(1, &["--yes"], 1, &["no tensor differs, but the file `manifest.json` does"]);
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
        "the lint refuses what `reference.sh` made:\n",
        "  constant         golden `a` is 1.0 everywhere\n",
        "choose other inputs",
        "accept a finding with its reason",
    ];
    project.says(1, &["--yes"], 1, &words);
    // Also when the script writes its set all the same.
    project.script(&format!("cp refused.json \"$PARITY_REPORT\"\n{SCRIPT}"));
    project.says(1, &["--yes"], 1, &words);
    assert_eq!(project.mark(), None);
    project.script(&format!("cp accepted.json \"$PARITY_REPORT\"\n{SCRIPT}"));
    let said = ["accepted: constant: golden `a` is 1.0 everywhere (every token is visible)", "note: a note"];
    project.says(1, &["--yes"], 0, &said);
    assert_eq!(project.mark(), Some(1));
}

#[test]
fn a_script_that_fails_is_quoted_and_the_old_set_stays() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    for (script, words) in [
        ("echo 'ValueError: no such head' >&2; exit 1\n", "`reference.sh` failed: ValueError: no such head"),
        (
            "echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n",
            "say which environment it needs with a line `# parity: environment = \"torch\"`",
        ),
        ("kill -9 $$\n", "`reference.sh` failed: ended by signal 9"),
        ("echo 'only here'; exit 1\n", "`reference.sh` failed: only here"),
        ("exit 0\n", "what `reference.sh` made cannot be used: there are no fixtures at"),
        (
            "cp -r made/1 \"$1\"; printf x >> \"$1/golden-a.npy\"\n",
            "what `reference.sh` made cannot be used: fixture file",
        ),
    ] {
        project.script(script);
        project.says(2, &["--yes"], 1, &[words, "1 failed"]);
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
         lint=$PARITY_LINT\"; }} > said\n{SCRIPT}"
    ));
    let run = |arguments: &[&str]| {
        let mut command = project.command(&["regenerate-fixtures", "--yes"]);
        let output = command.args(arguments).env("PARITY_LINT", "report").output().unwrap();
        assert!(output.status.success(), "{}", told(output).1);
        fs::read_to_string(project.path("said")).unwrap()
    };
    let said = run(&[]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], r#"{"script":"reference.sh"}"#);
    assert_eq!(lines[1], r#"{"goldens":{"a":"float32","b":"float32"},"inputs":["x"]}"#);
    assert!(lines[3].starts_with(lines[2]) && lines[3].ends_with("/second/model/part"), "{said}");
    assert_eq!(lines[4], "reuse= new= spread= omp=1 lint=");
    let said = run(&["--force"]);
    assert!(
        said.contains(&format!(
            "reuse={}/{SET} new= ",
            project.path("fixtures").canonicalize().unwrap().display()
        )),
        "{said}"
    );
    let said = run(&["--force", "--new-inputs", "--spread"]);
    assert!(said.contains("reuse= new=1 spread=1 "), "{said}");
}

#[test]
fn links_and_foreign_files_are_not_written_over() {
    let project = Project::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(project.path("fixtures")).unwrap();
    symlink(elsewhere.path(), project.path("fixtures/model")).unwrap();
    project.says(1, &["--yes"], 1, &["is a symbolic link, and nothing is replaced through one"]);
    fs::remove_file(project.path("fixtures/model")).unwrap();
    fs::create_dir(project.path("fixtures/model")).unwrap();
    symlink(elsewhere.path(), project.path("fixtures/model/part")).unwrap();
    project.says(1, &["--yes"], 1, &["is a symbolic link"]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::remove_file(project.path("fixtures/model/part")).unwrap();

    for (file, words) in [
        ("fixtures/model/part/notes.txt", "holds what is not part of the set and would be lost: `notes.txt`"),
        ("fixtures/model/part/inner/manifest.json", "is another set inside `model/part` and would be lost"),
    ] {
        project.write(file, "{}");
        project.says(1, &["--yes"], 1, &[words, "move it away first"]);
        assert!(project.path(file).exists());
        fs::remove_dir_all(project.path("fixtures/model/part")).unwrap();
    }
    project.write("fixtures/model/part", "a file");
    project.says(1, &["--yes"], 1, &["is not a folder"]);
    fs::remove_file(project.path("fixtures/model/part")).unwrap();

    // A set that is broken is replaced, and its hidden files are kept.
    project.write("fixtures/model/part/manifest.json", "{");
    project.write("fixtures/model/part/golden-a.npy", "rubbish");
    project.write("fixtures/model/part/.gitattributes", "*.npy binary\n");
    project.says(1, &["--yes"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(1));
    assert_eq!(
        fs::read_to_string(project.path("fixtures/model/part/.gitattributes")).unwrap(),
        "*.npy binary\n"
    );
}

#[test]
fn what_somebody_put_into_a_set_is_never_deleted() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    project.script(&format!("touch ran\n{SCRIPT}"));
    let mine = [
        "mine.npy",
        ".notes/a.txt",
        ".notes/manifest.json",
        "deep/er.npy",
        "deep/.b.npy",
        "notes.txt",
        "x.npy",
    ];
    for file in mine {
        project.write(&format!("fixtures/model/part/{file}"), "mine");
    }
    let words = [
        "`model/part` holds what is not part of the set and would be lost: `.notes/`, `deep/`, `mine.npy`, `notes.txt`, `x.npy`",
        "to do: move it away first; nothing was changed",
    ];
    project.says(2, &["--yes"], 1, &words);
    assert!(!project.path("ran").exists(), "the script was run though nothing can come of it");
    for file in mine {
        let path = project.path(&format!("fixtures/model/part/{file}"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir(project.path("fixtures/model/part/.notes")).unwrap();
    fs::remove_dir(project.path("fixtures/model/part/deep")).unwrap();
    project.says(2, &["--yes"], 0, &["1 replaced"]);
    // A manifest that cannot be read names nothing: what the new set does not have may be anybody's.
    project.script(&format!("# another\n{SCRIPT}"));
    project.write("fixtures/model/part/manifest.json", "{");
    project.write("fixtures/model/part/mine.npy", "mine");
    project.says(1, &["--yes"], 1, &["would be lost: `mine.npy`"]);
    assert_eq!(fs::read_to_string(project.path("fixtures/model/part/mine.npy")).unwrap(), "mine");
    // A file that appears while the script runs is seen before anything is replaced.
    fs::remove_file(project.path("fixtures/model/part/mine.npy")).unwrap();
    project.script(&format!("{SCRIPT}echo mine > fixtures/model/part/late.txt\n"));
    project.says(1, &["--yes"], 1, &["would be lost: `late.txt`"]);
    assert_eq!(fs::read_to_string(project.path("fixtures/model/part/late.txt")).unwrap(), "mine\n");
    assert_eq!(project.entries(), ["model"]);
}

#[test]
fn a_reference_that_is_run_must_give_the_set_within_its_floors() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let before = fs::metadata(project.path("fixtures/model/part")).unwrap().modified().unwrap();
    project.says(
        1,
        &["--check", "--run"],
        0,
        &["2 goldens reproduced, 2 of them to the bit", "1 reproduced, 0 not"],
    );
    project.says(
        2,
        &["--check", "--run"],
        1,
        &["model/part: not reproduced", "golden `a`: ", "input `x` is another one", "0 reproduced, 1 not"],
    );
    // Another processor is a few roundings off, which is within the floor, and not to the bit.
    project.nudge(1, 4e-6);
    project.says(1, &["--check", "--run"], 0, &["2 goldens reproduced, 1 of them to the bit"]);
    project.nudge(1, 1e-4);
    project.says(1, &["--check", "--run"], 1, &["golden `a`: "]);
    assert_eq!(fs::metadata(project.path("fixtures/model/part")).unwrap().modified().unwrap(), before);
    assert_eq!(project.entries(), ["model"]);
    // What is stale is not run.
    project.script("exit 9\n");
    project.says(1, &["--check", "--run"], 1, &["are stale", "0 reproduced, 1 not"]);
}

/// Whoever can write goldens can write checksums and floors too; a run of the reference believes none of them.
#[test]
fn a_set_cannot_vouch_for_itself_by_its_floors() {
    let project = Project::new();
    let set = format!("fixtures/{SET}");
    // A golden that is far off, with right checksums and a floor that would excuse anything.
    project.make(&set, 1, 0.2, 1e3);
    project.says(1, &["--check"], 0, &["1 current, 0 not"]);
    project.says(
        1,
        &["--check", "--run"],
        1,
        &[
            "model/part: not reproduced",
            "golden `a`: rms error ",
            "golden `a`: its floor is 1.0e9x what it is now, at most 8x is allowed: max 1.0e3 with rms 1.0e2 is committed, \
             max 1.0e-6 with rms 1.0e-7 was measured now",
            "golden `b`: its floor is ",
            "0 reproduced, 1 not",
        ],
    );
    // Every golden to the bit, and floors alone that grew.
    project.make(&set, 1, 0.0, 1e-3);
    project.says(1, &["--check", "--run"], 1, &["golden `a`: its floor is 1000x what it is now"]);
    // What other kernels explain is reported, and so is a floor that was larger once.
    project.make(&set, 1, 0.0, 3e-6);
    let changed = "note: golden `a`: its floor changed: max 3.0e-6 with rms 3.0e-7 is committed";
    project.says(1, &["--check", "--run"], 0, &["2 goldens reproduced, 2 of them to the bit", changed]);
    project.make(&set, 1, 0.0, 1.5e-6);
    let said = project.says(1, &["--check", "--run"], 0, &["1 reproduced, 0 not"]);
    assert!(!said.contains("note: "), "{said}");
    project.make("made/1", 1, 0.0, 1e-5);
    project.says(1, &["--check", "--run"], 0, &["note: golden `a`: its floor changed: max 1.5e-6"]);
    // A floor that no run measures any more is worth nothing.
    project.write(
        "strip.sh",
        "sed 's/\"floor\":{[^}]*}/\"no_floor\":\"not in float64\"/g' $1 > $1.new && mv $1.new $1\n",
    );
    project.script(&format!("{SCRIPT}sh strip.sh \"$1/manifest.json\"\n"));
    project.make(&set, 1, 0.0, 1e-6);
    project.says(
        1,
        &["--check", "--run"],
        1,
        &["golden `a`: it has a floor, but none was measured now: not in float64"],
    );
}

#[test]
fn a_floor_that_changes_is_shown_before_anything_is_replaced() {
    let project = Project::new();
    project.make(&format!("fixtures/{SET}"), 1, 0.0, 1e-6);
    project.make("made/1", 1, 0.0, 1e-4);
    let said = [
        "3 tensors: 2 with another floor only, 1 the same, 2 floors grew",
        "golden a  another floor, the same elements; its floor grew 100x",
        "  1.0e-4    1.0e-5\n",
    ];
    project.says(1, &["--force"], 1, &said);
    project.make("made/1", 1, 0.1, 1e-8);
    project.says(
        1,
        &["--force"],
        1,
        &["differs by up to 1.00e-1, 8.4e5x its floor", "; its floor shrank 100x"],
    );
}

#[test]
fn too_much_is_warned_of_and_then_stopped() {
    let project = Project::new();
    let run = |name: &str, value: &str| {
        told(project.command(&["regenerate-fixtures", "--yes", "--force"]).env(name, value).output().unwrap())
    };
    let (code, said) = run("PARITY_SIZE_LIMIT", "100 bytes");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("above the limit of 100 bytes") && said.contains("PARITY_SIZE_LIMIT"), "{said}");
    assert_eq!(project.mark(), None);
    let (code, said) = run("PARITY_SIZE_WARN", "100 bytes");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: fixtures and runs take "), "{said}");
    let (code, said) = run("PARITY_SIZE_WARN", "plenty");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("PARITY_SIZE_WARN is `plenty`, expected a size such as"), "{said}");
}

#[test]
fn specs_that_cannot_be_used_are_told() {
    let project = Project::new();
    project.says(1, &["model/prt"], 1, &["there is no spec `model/prt`, did you mean `model/part`?"]);
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/twin.yaml", &format!("{spec}fixtures: model/part\n"));
    project.says(1, &["--yes", "model/twin"], 0, &["1 replaced"]);
    project.says(1, &["--check"], 0, &["1 current"]);
    let other = spec.replace("reference.sh,", "reference.sh, timeout: 5m,");
    project.write("parity-specs/model/twin.yaml", &format!("{other}fixtures: model/part\n"));
    project.says(1, &["--check"], 1, &["share the fixtures `model/part`, but have different `reference`"]);
    let other = spec.replace("reference.sh,", "reference.sh, source: x,");
    project.write("parity-specs/model/twin.yaml", &format!("{other}fixtures: model/part\n"));
    project.says(
        1,
        &["--check"],
        1,
        &["share the fixtures `model/part`, but have different `reference` blocks"],
    );
    project.write("parity-specs/model/twin.yaml", "version: 1\n");
    project.says(1, &["--check"], 1, &["1 spec cannot be read", "cargo xtask lint"]);
    project.says(1, &["--check", "model/part"], 0, &["1 current"]);
    project.says(1, &["--check", "model/twin"], 1, &["spec `model/twin` cannot be read"]);
}

#[test]
fn a_checkpoint_that_the_set_does_not_have_makes_it_due() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/part.yaml", &spec.replace("name: b,", "name: c,"));
    project.says(1, &["--check"], 1, &["have no golden `c`"]);
}

/// NumPy makes float64 where nobody asks for it, and MLX computes it on the CPU only.
#[test]
fn a_float64_input_is_refused_unless_the_spec_is_for_the_cpu() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let values: Vec<u8> = [1f64; 64].iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = Tensor::from_vec(Dtype::Float64, vec![64], values.clone()).unwrap();
    write_npy(project.path("fixtures/model/part/input-x.npy"), &tensor.view()).unwrap();
    let manifest = project.path("fixtures/model/part/manifest.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let sha256: String = Sha256::digest(&values).iter().map(|byte| format!("{byte:02x}")).collect();
    let entry = &mut text["tensors"][2];
    (entry["dtype"], entry["sha256"]) = ("float64".into(), sha256.into());
    fs::write(&manifest, text.to_string()).unwrap();
    let words = "input `x` is float64, which MLX computes on the CPU only; save it as float32 in the reference's script, or \
                 say `device: cpu` in the spec";
    project.says(1, &["--check"], 1, &[words, "0 current, 1 not"]);
    let (_, said) = told(project.command(&["lint"]).output().unwrap());
    assert!(said.contains(&format!("error: spec `model/part`: {words}")), "{said}");
    let spec = fs::read_to_string(project.path("parity-specs/model/part.yaml")).unwrap();
    project.write("parity-specs/model/part.yaml", &format!("{spec}device: cpu\n"));
    project.says(1, &["--check"], 0, &["1 current, 0 not"]);
}

/// A full disk is played by a limit on the size of files; whoever hits it is killed or told, and the old set stays.
#[test]
fn out_of_space_the_old_set_stays() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    project.script(&format!("head -c 100000 /dev/zero > \"$PARITY_ROOT/large\" || exit 1\n{SCRIPT}"));
    let xtask = env!("CARGO_BIN_EXE_xtask");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -f 8; exec '{xtask}' regenerate-fixtures --yes")]);
    command.env("CARGO_MANIFEST_DIR", project.path("xtask")).env("PARITY_PYTHON", project.path("python"));
    let (code, said) = told(command.env("MARK", "2").output().unwrap());
    assert_ne!(code, 0, "{said}");
    assert_eq!(project.mark(), Some(1));
    project.says(2, &["--yes"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(2));
}
