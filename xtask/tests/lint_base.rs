//! What `cargo xtask lint --base` says of a change: the real command line in a repository of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod said;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use said::{CARGO_TOML, check};

struct Repository(tempfile::TempDir);

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const POLICIES: &str = "parity-specs/policies.yaml";
const MANIFEST: &str = "fixtures/gated_mlp/block/manifest.json";
const PORT: &str = "src/gated_mlp.rs";

impl Repository {
    /// One commit with the gated MLP, its fixtures and a port, with `main` at it.
    fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in [
            POLICIES,
            "parity-specs/schema.json",
            SPEC,
            "exporter/references/gated_mlp_block.py",
            MANIFEST,
            "fixtures/gated_mlp/block/goldens.safetensors",
            "fixtures/gated_mlp/block/inputs.safetensors",
            "fixtures/gated_mlp/block/weights.safetensors",
        ] {
            made.write(file, &fs::read(here.join(file)).unwrap());
        }
        made.write(PORT, b"// right\n");
        made.write("Cargo.toml", CARGO_TOML.as_bytes());
        made.write("tests/parity.rs", b"fn main() {}\n");
        made.write("xtask/.keep", b"");
        made.write(".gitignore", b"/target\n");
        made.git(&["init", "-q", "-b", "main"]);
        made.commit("Start");
        made.git(&["checkout", "-q", "-b", "change"]);
        made
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.path().join(file)).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`:\n{text}");
        self.write(file, text.replacen(from, to, 1).as_bytes());
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.0.path()).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        let output = command.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", subject]);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("lint").args(arguments).env("CARGO_MANIFEST_DIR", self.0.path().join("xtask"));
        command.env_remove("PARITY_FIXTURES").env_remove("PARITY_OUT");
        command
    }

    fn lint(&self) -> Output {
        self.command(&["--base", "main"]).output().unwrap()
    }
}

/// Makes the spec's policy for `out` a looser one.
fn loosen(repository: &Repository) {
    repository.edit(SPEC, "policy: fp32", "rtol: 1e-2, atol: 1e-2, why: planted");
}

#[test]
fn what_asks_no_less_is_right() {
    let repository = Repository::new();
    let said = check(repository.lint(), 0, &["0 things are wrong\n"]);
    assert!(!said.contains("warning"), "{said}");
    repository.edit(SPEC, "policy: fp32", "rtol: 1e-6, atol: 1e-6");
    repository.write(PORT, b"// better\n");
    repository.commit("Tighten");
    check(repository.lint(), 0, &["0 things are wrong\n"]);
}

#[test]
fn a_gate_loosened_alone_is_a_warning() {
    let repository = Repository::new();
    loosen(&repository);
    let words = [
        "warning: loosens a tolerance: `out`: policy `fp32` (atol 1e-5, rtol 1e-5) became atol 1e-2, rtol 1e-2",
        "block.yaml:",
        "help: say why",
        "0 things are wrong, 1 warning\n",
    ];
    check(repository.lint(), 0, &words);
    check(repository.command(&["--base", "main", "--strict"]).output().unwrap(), 1, &words);
    repository.commit("Loosen");
    check(repository.lint(), 0, &words);
}

#[test]
fn a_gate_loosened_with_port_code_is_an_error() {
    let repository = Repository::new();
    repository.write(PORT, b"// wrong\n");
    repository.commit("Change the port");
    loosen(&repository);
    let words = [
        "error: loosens a tolerance together with port code: `out`: policy `fp32`",
        "note: the same change touches `src/gated_mlp.rs`",
        "in a change of its own",
        "1 thing is wrong\n",
    ];
    check(repository.lint(), 1, &words);
    repository.commit("Loosen");
    check(repository.lint(), 1, &words);
}

#[test]
fn what_main_has_tightened_since_is_not_loosened_here() {
    let repository = Repository::new();
    repository.write(PORT, b"// other\n");
    repository.commit("Change the port");
    repository.git(&["checkout", "-q", "main"]);
    repository.edit(SPEC, "policy: fp32", "rtol: 1e-6, atol: 1e-6");
    repository.commit("Tighten");
    repository.git(&["checkout", "-q", "change"]);
    check(repository.lint(), 0, &["0 things are wrong\n"]);
}

#[test]
fn other_checks_and_policies_count_too() {
    let repository = Repository::new();
    repository.write("src/new.rs", b"// not even added\n");
    repository.edit(POLICIES, "fp32: {rtol: 1e-5, atol: 1e-5", "fp32: {rtol: 1e-4, atol: 1e-5");
    repository.edit(SPEC, "policy: fp32", "policy: fp32, hits: 2");
    check(
        repository.lint(),
        1,
        &[
            "error: loosens a tolerance together with port code: policy `fp32` became atol 1e-5, rtol 1e-4",
            "policies.yaml:",
            "error: loosens a check together with port code: `out`: `hits` became 2, from 1",
            "touches `src/new.rs`",
        ],
    );
    let repository = Repository::new();
    repository.git(&["rm", "-q", "-r", SPEC, "fixtures"]);
    check(repository.lint(), 1, &["loosens a check: spec `gated_mlp/block` is gone, with 3 checkpoints"]);
}

/// Edits the manifest's entry of a golden.
fn edit_golden(repository: &Repository, file: &str, name: &str, edit: impl FnOnce(&mut serde_json::Value)) {
    let path = repository.0.path().join(file);
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let tensors = manifest["tensors"].as_array_mut().unwrap();
    edit(tensors.iter_mut().find(|one| one["name"] == name).unwrap());
    fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

/// Changes a golden, as far as its manifest tells.
fn move_golden(repository: &Repository) {
    edit_golden(repository, MANIFEST, "norm", |norm| norm["sha256"] = "0".repeat(64).into());
}

/// Changes the reference, as far as the manifest tells.
fn move_reference(repository: &Repository) {
    let path = repository.0.path().join(MANIFEST);
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["made_by"]["key"] = "1".repeat(64).into();
    fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

#[test]
fn goldens_that_change_with_port_code_in_one_commit_are_errors() {
    let repository = Repository::new();
    move_golden(&repository);
    repository.write(PORT, b"// wrong\n");
    let words = [
        "error: goldens change together with port code: `norm`",
        "note: the uncommitted work tree changes them",
        "note: the same branch touches `src/gated_mlp.rs`",
        "note: neither their script, nor their `reference` block, nor the lock of the references changed",
        "in a branch of its own",
    ];
    check(repository.lint(), 1, &words);
    repository.commit("Change both");
    check(repository.lint(), 1, &[words[0], " Change both changes them"]);
    // A reference that changes with them excuses nothing here.
    move_reference(&repository);
    repository.git(&["commit", "-q", "-a", "--amend", "--no-edit"]);
    let words = [words[0], "their reference changed, but a commit changes both", "in a commit of its own"];
    check(repository.lint(), 1, &words);
}

/// A port that becomes its own oracle does not look like it in any single commit.
#[test]
fn goldens_that_follow_the_port_in_a_later_commit_are_errors() {
    for golden_first in [false, true] {
        let repository = Repository::new();
        let goldens = || {
            move_golden(&repository);
            repository.commit("Make goldens anew");
        };
        let port = || {
            repository.write(PORT, b"// wrong\n");
            repository.commit("Change the port");
        };
        let steps: [&dyn Fn(); 2] = if golden_first { [&goldens, &port] } else { [&port, &goldens] };
        steps.iter().for_each(|step| step());
        check(
            repository.lint(),
            1,
            &[
                "error: goldens change together with port code: `norm`",
                " Make goldens anew changes them",
                "note: the same branch touches `src/gated_mlp.rs`",
                "help: make them anew in a branch of its own",
            ],
        );
    }
    // Nor under another folder's name.
    let repository = Repository::new();
    repository.write(PORT, b"// wrong\n");
    repository.commit("Change the port");
    repository.git(&["mv", "fixtures/gated_mlp/block", "fixtures/gated_mlp/other"]);
    repository.edit(SPEC, "port:", "fixtures: gated_mlp/other\nport:");
    repository.commit("Move the set");
    let said = check(repository.lint(), 0, &["0 things are wrong\n"]);
    assert!(!said.contains("goldens change"), "{said}");
    let moved = "fixtures/gated_mlp/other/manifest.json";
    edit_golden(&repository, moved, "norm", |norm| norm["sha256"] = "0".repeat(64).into());
    repository.commit("Make goldens anew");
    check(repository.lint(), 1, &["error: goldens change together with port code: `norm`"]);
}

#[test]
fn a_port_may_follow_its_reference() {
    let repository = Repository::new();
    move_golden(&repository);
    move_reference(&repository);
    repository.commit("Follow the reference");
    // Alone it is what regenerating fixtures is for; the set is stale and corrupt here, which other checks tell.
    let said = check(repository.lint(), 1, &["error: spec `gated_mlp/block`"]);
    assert!(!said.contains("goldens change"), "{said}");
    repository.write(PORT, b"// as the reference has it now\n");
    repository.commit("Change the port");
    check(
        repository.lint(),
        1,
        &[
            "warning: goldens change in a branch that changes port code: `norm`",
            "note: their reference changed",
            "`cargo xtask regenerate-fixtures --check --run gated_mlp/block` shows whether",
        ],
    );
    // The lock of their environment is a part of the reference.
    let repository = Repository::new();
    repository.write("exporter/references/uv.lock", b"version = 1\n");
    repository.write("exporter/references/pyproject.toml", b"");
    move_golden(&repository);
    repository.commit("Update torch");
    repository.write(PORT, b"// as the reference has it now\n");
    check(repository.lint(), 1, &["warning: goldens change in a branch that changes port code: `norm`"]);
}

#[test]
fn goldens_that_change_without_their_reference_are_a_warning() {
    let repository = Repository::new();
    move_golden(&repository);
    repository.commit("Make goldens anew");
    check(
        repository.lint(),
        1,
        &["warning: goldens change, but their reference does not: `norm`", "--check --run gated_mlp/block`"],
    );
}

#[test]
fn floors_that_grew_are_loosened_tolerances() {
    let repository = Repository::new();
    let grow = |by: f64| {
        edit_golden(&repository, MANIFEST, "out", |out| {
            for part in ["max", "rms"] {
                out["floor"][part] = (out["floor"][part].as_f64().unwrap() * by).into();
            }
        });
    };
    grow(1000.0);
    repository.commit("Make goldens anew");
    let words = "loosens a tolerance: the floor of `out` grew 1000x, from max ";
    check(
        repository.lint(),
        0,
        &[&format!("warning: {words}"), "help: `cargo xtask regenerate-fixtures --check --run"],
    );
    check(repository.command(&["--base", "main", "--strict"]).output().unwrap(), 1, &[words]);
    repository.write(PORT, b"// wrong\n");
    let words = "error: loosens a tolerance together with port code: the floor of `out` grew 1000x";
    check(repository.lint(), 1, &[words, "note: the same branch touches `src/gated_mlp.rs`"]);
    // Less is no loosening, and the same golden has the same floor.
    grow(0.5e-3);
    check(repository.lint(), 0, &["0 things are wrong\n"]);
    grow(2.2);
    check(repository.lint(), 1, &["the floor of `out` grew 1.10x"]);
}

#[test]
fn a_new_set_beside_its_port_moves_nothing() {
    let repository = Repository::new();
    let set = "fixtures/gated_mlp/block";
    for file in ["manifest.json", "goldens.safetensors", "inputs.safetensors", "weights.safetensors"] {
        let bytes = fs::read(repository.0.path().join(set).join(file)).unwrap();
        repository.write(&format!("fixtures/gated_mlp/other/{file}"), &bytes);
    }
    let spec = fs::read(repository.0.path().join(SPEC)).unwrap();
    repository.write("parity-specs/gated_mlp/other.yaml", &spec);
    repository.write("src/other.rs", b"// new\n");
    repository.commit("Add a port");
    check(repository.lint(), 0, &["2 specs, 6 checkpoints", "0 things are wrong\n"]);
}

#[test]
fn a_file_of_goldens_without_its_manifest_counts_as_changed() {
    let repository = Repository::new();
    repository.write("fixtures/gated_mlp/block/goldens.safetensors", b"rubbish");
    repository.write(PORT, b"// wrong\n");
    let words = [
        "together with port code: `fixtures/gated_mlp/block/goldens.safetensors`",
        "the uncommitted work tree",
    ];
    check(repository.lint(), 1, &words);
}

impl Repository {
    /// Writes a tree object as it is: git's own commands refuse such names, a hostile remote does not.
    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").bytes());
            bytes.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
        }
        let path = self.0.path().join("../object");
        let path = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
        fs::write(path.path(), bytes).unwrap();
        let file = path.path().to_str().unwrap();
        self.ask(&["hash-object", "--literally", "-w", "-t", "tree", file])
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.0.path()).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        let output = command.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// What the base holds is written into a folder of its own, and never outside of it.
#[test]
fn a_tree_that_leads_out_of_its_folder_is_refused() {
    for hostile in ["..", ".git", "."] {
        let repository = Repository::new();
        let evil = repository.0.path().join("evil.yaml");
        fs::write(&evil, "planted: true\n").unwrap();
        let blob = repository.ask(&["hash-object", "-w", evil.to_str().unwrap()]);
        fs::remove_file(&evil).unwrap();
        let name = format!("parity-{}.yaml", std::process::id());
        // parity-specs/../NAME: beside the folder into which the base's specs are put.
        let inner = repository.tree(&[("100644", &name, &blob)]);
        let specs = repository.tree(&[("40000", hostile, &inner)]);
        let root = repository.tree(&[("40000", "parity-specs", &specs)]);
        let base = repository.ask(&["commit-tree", &root, "-m", "Hostile"]);
        repository.git(&["update-ref", "refs/heads/hostile", &base]);
        let tree = repository.ask(&["rev-parse", "HEAD^{tree}"]);
        let next = repository.ask(&["commit-tree", &tree, "-p", &base, "-m", "On top"]);
        repository.git(&["update-ref", "refs/heads/change", &next]);
        let temporary = tempfile::tempdir().unwrap();
        let output =
            repository.command(&["--base", "hostile"]).env("TMPDIR", temporary.path()).output().unwrap();
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "`{hostile}`: something was left");
        check(output, 1, &["error: commit `", "which no checkout can have", "to do: "]);
    }
}

#[test]
fn what_git_cannot_tell_is_one_clear_error() {
    let repository = Repository::new();
    let with = |reference: &str| repository.command(&["--base", reference]).output().unwrap();
    check(with("nowhere"), 1, &["error: there is no commit `nowhere`", "to do: fetch it", "fetch-depth: 0"]);
    check(with("--all"), 2, &[]);
    check(repository.command(&["--base=--all"]).output().unwrap(), 1, &["there is no commit `--all`"]);
    let mut without = repository.command(&["--base", "main"]);
    check(
        without.env("PATH", "/nowhere").output().unwrap(),
        1,
        &["error: cannot start git", "to do: install git"],
    );
    fs::remove_dir_all(repository.0.path().join(".git")).unwrap();
    check(with("main"), 1, &["is in no git repository", "leave `--base` out"]);
    let outside = Repository::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(outside.0.path().join("parity-specs"), elsewhere.path().join("specs")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("specs"), outside.0.path().join("parity-specs"))
        .unwrap();
    check(outside.lint(), 1, &["are outside of the git repository"]);
    let unrelated = Repository::new();
    unrelated.git(&["checkout", "-q", "--orphan", "alone"]);
    unrelated.commit("Alone");
    check(unrelated.lint(), 1, &["has no commit in common with `main`", "fetch-depth: 0"]);
}
