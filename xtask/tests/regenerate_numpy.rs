//! `cargo xtask regenerate-fixtures` with the real exporter and NumPy, on a copy of the gated MLP.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Project(tempfile::TempDir);

const SCRIPT: &str = "exporter/references/gated_mlp_block.py";
const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

impl Project {
    /// The gated MLP in a project that locks no environment, so that its script runs with the packages that the
    /// exporter's tests have.
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in [SCRIPT, SPEC, "parity-specs/policies.yaml", "exporter/requirements-test.txt"] {
            fs::create_dir_all(project.path(file).parent().unwrap()).unwrap();
            fs::copy(repository.join(file), project.path(file)).unwrap();
        }
        let set = "fixtures/gated_mlp/block";
        fs::create_dir_all(project.path(set)).unwrap();
        for entry in fs::read_dir(repository.join(set)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), project.path(set).join(entry.file_name())).unwrap();
        }
        let packages = repository.join(".parity/python");
        fs::create_dir_all(&packages).unwrap();
        fs::create_dir_all(project.path(".parity")).unwrap();
        symlink(packages, project.path(".parity/python")).unwrap();
        symlink(repository.join("exporter/parity_export"), project.path("exporter/parity_export")).unwrap();
        fs::create_dir(project.path("xtask")).unwrap();
        project
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`");
        fs::write(self.path(file), text.replacen(from, to, 1)).unwrap();
    }

    /// Runs the command, which must end so and say all of these.
    #[track_caller]
    fn says(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("PARITY_") && name != "PARITY_PYTHON" {
                command.env_remove(&*name);
            }
        }
        command.env("CARGO_MANIFEST_DIR", self.path("xtask")).stdin(Stdio::null());
        let output = command.arg("regenerate-fixtures").args(arguments).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "does not say `{word}`:\n{said}");
        }
    }
}

#[test]
fn a_changed_script_is_stale_until_it_was_run() {
    let project = Project::new();
    project.says(&["--check"], 0, &["1 current, 0 not"]);
    project.edit(SCRIPT, "np.float32(1e-6)", "np.float32(1e-5)");
    project.says(&["--check"], 1, &["are stale: the content of"]);
    // The committed inputs and weights are used again, and only what follows from the edit changes.
    project.says(
        &["--yes"],
        0,
        &["9 tensors: 3 changed, 6 the same", "golden norm  differs by up to", "x its floor"],
    );
    project.says(&["--check"], 0, &["1 current, 0 not"]);
    project.says(&["--check", "--run"], 0, &["3 goldens reproduced, 3 of them to the bit"]);
    project.says(&["--yes", "--force"], 0, &["made again to the byte"]);
    // Another seed changes nothing but with new inputs.
    project.edit(SCRIPT, "default_rng(0)", "default_rng(1)");
    project.says(&["--yes"], 0, &["9 tensors: 9 the same, but the manifest changes: made_by"]);
    project.says(&["--yes", "--force", "--new-inputs"], 0, &["9 tensors: 9 changed, 0 the same"]);
}

#[test]
fn other_parameters_give_tensors_of_another_shape() {
    let project = Project::new();
    project.edit(SPEC, "tokens: 6}", "tokens: 7}");
    project.says(
        &["--yes"],
        0,
        &[
            "`params` of the reference block changed",
            "4 of another dtype or shape, 5 the same",
            "old  float32 [1, 6, 32]",
            "new  float32 [1, 7, 32]",
        ],
    );
    project.says(&["--check"], 0, &[]);
}

#[test]
fn the_exporters_lint_has_the_last_word() {
    let project = Project::new();
    project.edit(SCRIPT, "x + gated @", "0 * (x + gated @");
    project.edit(SCRIPT, "w[\"down.bias\"])", "w[\"down.bias\"]))");
    project.says(
        &["--yes"],
        1,
        &["the lint refuses what", "zero             golden `out` is 0.0 in all of its"],
    );
    project.edit(
        SCRIPT,
        "    rec.save(\"out\"",
        "    rec.accept(\"zero\", \"out\", why=\"a test\")\n    rec.save(\"out\"",
    );
    project.says(&["--yes"], 0, &["accepted: zero: golden `out` is 0.0", "(a test)"]);
    project.edit(SCRIPT, "rec.save(\"out\"", "rec.save(\"ouch\"");
    project.says(
        &["--yes"],
        1,
        &["missing          the spec declares `out`, which the reference did not record"],
    );
}

#[test]
fn a_draw_without_a_seed_is_refused() {
    let project = Project::new();
    project.edit(SCRIPT, "default_rng(0)", "default_rng()");
    project.says(
        &["--yes", "--new-inputs"],
        1,
        &["does not give the same bytes twice: weight `norm.weight` differs by up to"],
    );
    project.says(&["--check"], 1, &["are stale"]);
}
