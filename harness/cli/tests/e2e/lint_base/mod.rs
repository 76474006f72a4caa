//! What `cargo xtask lint --base` reports about a change, in a git repository per test.

mod git;
mod goldens;

use std::fs;
use std::process::{Command, Output};

use crate::command::{CARGO_TOML, GATED_MLP, cargo_parity, check, copy_from_repository};

struct Repository(tempfile::TempDir);

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const POLICIES: &str = "parity-specs/policies.yaml";
const MANIFEST: &str = "fixtures/gated_mlp/block/manifest.json";
const PORT: &str = "src/gated_mlp.rs";

impl Repository {
    /// Commits the gated MLP, its fixtures and a port on `main`, and starts the branch `change`.
    fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        copy_from_repository(&GATED_MLP, made.0.path());
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
        cargo_parity(self.0.path(), &[&["lint"], arguments].concat())
    }

    fn lint(&self) -> Output {
        self.command(&["--base", "main"]).output().unwrap()
    }
}

/// Gives `out` a looser policy.
fn loosen(repository: &Repository) {
    repository.edit(SPEC, "policy: fp32", "rtol: 1e-2, atol: 1e-2, why: a test");
}

#[test]
fn a_change_that_loosens_nothing_is_right() {
    let repository = Repository::new();
    let text = check(repository.lint(), 0, &["0 errors\n"]);
    assert!(!text.contains("warning"), "{text}");
    repository.edit(SPEC, "policy: fp32", "rtol: 1e-6, atol: 1e-6");
    repository.write(PORT, b"// better\n");
    repository.commit("Tighten");
    check(repository.lint(), 0, &["0 errors\n"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_gate_loosened_alone_is_a_warning() {
    let repository = Repository::new();
    loosen(&repository);
    let words = [
        "warning: loosens a tolerance: `out`: policy `fp32` (atol 1e-5, rtol 1e-5) became atol 1e-2, rtol 1e-2",
        "block.yaml:",
        "help: explain in `why`",
        "0 errors, 1 warning\n",
    ];
    check(repository.lint(), 0, &words);
    check(repository.command(&["--base", "main", "--strict"]).output().unwrap(), 1, &words);
    repository.commit("Loosen");
    check(repository.lint(), 0, &words);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_approved_picture_is_shown_to_whoever_reviews_the_branch() {
    let repository = Repository::new();
    repository.edit(
        SPEC,
        "shape: [1, tokens, hidden], stage: mlp",
        "shape: [tokens, hidden], squeeze: [0], stage: image",
    );
    let hash = "0".repeat(64);
    let approvals = format!(
        "{{\"version\": 1, \"pictures\": [{{\"checkpoint\": \"gated\", \"device\": \"cpu\", \"actual\": \"{hash}\", \
         \"golden\": \"{hash}\", \"psnr_db\": 30, \"by\": \"Ada\", \"reason\": \"grain\"}}]}}"
    );
    let file = "parity-specs/gated_mlp/block.approved.json";
    repository.write(file, approvals.as_bytes());
    repository.commit("Approve");
    let words = [
        "warning: approves `gated` by eye on cpu: Ada: grain",
        "block.approved.json:1:1",
        "look at the picture too",
    ];
    check(repository.lint(), 0, &words);
    // Once it is on the base, it is no news. Another reason is.
    repository.git(&["branch", "-f", "main", "change"]);
    let text = check(repository.lint(), 0, &["0 errors\n"]);
    assert!(!text.contains("by eye"), "{text}");
    repository.edit(file, "grain", "noise");
    check(repository.lint(), 0, &["approves `gated` by eye on cpu: Ada: noise"]);
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
        "in a separate change",
        "1 error\n",
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
    check(repository.lint(), 0, &["0 errors\n"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn other_checks_and_policies_count_too() {
    let repository = Repository::new();
    repository.write("src/new.rs", b"// not even added\n");
    repository.edit(POLICIES, "fp32: {rtol: 1e-5, atol: 1e-5", "fp32: {rtol: 1e-4, atol: 1e-5");
    repository.edit(SPEC, "policy: fp32", "policy: fp32, hits: 2");
    check(
        repository.lint(),
        1,
        &[
            "error: loosens a tolerance together with port code: policy `fp32` changed from atol 1e-5, rtol 1e-5 to atol 1e-5, rtol 1e-4",
            "policies.yaml:",
            "error: loosens a check together with port code: `out`: `hits` changed from 1 to 2",
            "touches `src/new.rs`",
        ],
    );
    let repository = Repository::new();
    repository.git(&["rm", "-q", "-r", SPEC, "fixtures"]);
    check(repository.lint(), 1, &["loosens a check: spec `gated_mlp/block` was removed, with 3 checkpoints"]);
}
