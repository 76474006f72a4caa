//! `cargo parity init` in crates of its own: what it writes, what it keeps, and what it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use walkdir::WalkDir;

use crate::command::{cargo_parity, check, repository};

struct Crate(tempfile::TempDir);

impl Crate {
    /// A library that `cargo new` made.
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut cargo = Command::new("cargo");
        cargo.args(["new", "--lib", "--vcs", "none", "--name", "my-port", "port"]).current_dir(home.path());
        check(cargo.output().unwrap(), 0, &[]);
        Self(home)
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("port")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Every file with its text.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let files = WalkDir::new(self.root()).into_iter().filter_map(Result::ok);
        let files = files.filter(|entry| entry.file_type().is_file());
        files.map(|entry| (entry.path().to_owned(), fs::read_to_string(entry.path()).unwrap())).collect()
    }

    /// Runs `init --path` with the crates of this repository, from a folder of the crate.
    #[track_caller]
    fn init_in(&self, folder: &str, arguments: &[&str], code: i32, words: &[&str]) -> String {
        let mut command = cargo_parity(&self.root().join(folder), &["init", "--path"]);
        check(command.arg(repository()).args(arguments).output().unwrap(), code, words)
    }

    #[track_caller]
    fn init(&self, arguments: &[&str], code: i32, words: &[&str]) -> String {
        self.init_in("", arguments, code, words)
    }
}

/// The text with `REPOSITORY` for the path of this repository.
fn without_paths(text: &str) -> String {
    text.replace(repository().canonicalize().unwrap().to_str().unwrap(), "REPOSITORY")
        .replace(repository().to_str().unwrap(), "REPOSITORY")
}

#[test]
fn a_new_crate_is_prepared_once() {
    let port = Crate::new();
    let before = port.files();
    let shown = port.init(&["--dry-run"], 0, &["would change; nothing was written"]);
    assert_eq!(port.files(), before);
    insta::assert_snapshot!("new_crate", without_paths(&shown));
    port.init(&[], 1, &["there is no terminal to ask on; nothing was written", "pass `--yes`"]);
    assert_eq!(port.files(), before);

    port.init(&["--yes"], 0, &["wrote 9 files", "next:", "cargo parity new-spec my_model/block --from"]);
    let manifest = port.read("Cargo.toml");
    assert!(manifest.starts_with(&before[&port.root().join("Cargo.toml")]), "{manifest}");
    let suite = port.read("tests/parity.rs");
    assert!(suite.contains("Suite::new(\".\", \"parity-specs\", \"fixtures\")"), "{suite}");
    assert!(port.read("exporter/references/uv.lock").contains("name = \"torch\""));
    let missing = port.read(".cargo/mlx-missing.toml");
    assert!(missing.contains("run `cargo parity setup` once"), "{missing}");

    let prepared = port.files();
    port.init(&["--yes"], 0, &["nothing to change: the project is prepared"]);
    cargo_parity_init(&port);
    assert_eq!(port.files(), prepared);
    // The suite is found, and all that is missing is a spec.
    let lint = cargo_parity(&port.root(), &["lint"]).output().unwrap();
    let words =
        ["error: no spec was found in", "cargo parity new-spec <model>/<component> --from", ": 1 error\n"];
    check(lint, 1, &words);
}

/// Runs `init` without a source: what is there stays, whatever its source is.
#[track_caller]
fn cargo_parity_init(port: &Crate) {
    let output = cargo_parity(&port.root(), &["init", "--yes"]).output().unwrap();
    check(output, 0, &["nothing to change"]);
}

#[test]
fn comments_order_and_settings_of_ones_own_stay() {
    let port = Crate::new();
    let manifest = "# My port.\n[package]\nname = \"my-port\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
        [profile.dev]\ndebug = 2 # I like it\n\n[profile.dev.package.sha2]\nopt-level = 1\n\n\
        [dependencies]\nmlx-rs = \"0.33\" # with Metal\n\n[[test]]\nname = \"other\"\n";
    port.write("Cargo.toml", manifest);
    port.write("tests/other.rs", "");
    port.write(".cargo/config.toml", "# Mine.\n[alias]\nx = \"run\"\n\n[build]\njobs = 1\n");
    port.write(".gitignore", "target\n");
    port.init(&["--yes"], 0, &["change Cargo.toml", "change .cargo/config.toml", "change .gitignore"]);
    insta::assert_snapshot!("edited_manifest", without_paths(&port.read("Cargo.toml")));
    insta::assert_snapshot!("edited_config", port.read(".cargo/config.toml"));
    assert_eq!(port.read(".gitignore"), "target\n/.parity\n*.snap.new\n");
    let prepared = port.files();
    port.init(&["--yes"], 0, &["nothing to change"]);
    assert_eq!(port.files(), prepared);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_cannot_be_merged_is_refused_and_nothing_is_written() {
    let harness = Crate::new();
    harness.write("tests/parity.rs", "#[test]\nfn mine() {}\n");
    let before = harness.files();
    harness.init(
        &["--yes"],
        1,
        &["`tests/parity.rs` is a test of your own, not a suite", "`suite = \"…\"`", "nothing was written"],
    );
    assert_eq!(harness.files(), before);
    // Under another name, both exist.
    let manifest = harness.read("Cargo.toml");
    harness.write("Cargo.toml", &format!("{manifest}\n[package.metadata.parity]\nsuite = \"golden\"\n"));
    harness.init(&["--yes"], 0, &["tests/golden.rs"]);
    assert_eq!(harness.read("tests/parity.rs"), "#[test]\nfn mine() {}\n");

    let listed = Crate::new();
    let manifest = listed.read("Cargo.toml");
    listed.write("tests/parity.rs", "use mlx_parity::Suite;\n");
    listed.write("Cargo.toml", &format!("{manifest}\n[[test]]\nname = \"parity\"\nharness = true\n"));
    listed.init(&["--yes"], 1, &["has a test target `parity` that runs with libtest's harness"]);

    let source = Crate::new();
    let manifest = source.read("Cargo.toml");
    source.write(
        "Cargo.toml",
        &format!("{manifest}\n[dev-dependencies]\nmlx-parity = {{ git = \"https://e.invalid/x\" }}\n"),
    );
    source.init(&["--yes"], 1, &["has mlx-parity as `{ git = \"https://e.invalid/x\" }`, but"]);
    // Without a source of its own, the command keeps that one, for the tap too.
    let output = cargo_parity(&source.root(), &["init", "--yes"]).output().unwrap();
    check(output, 0, &["wrote"]);
    assert!(source.read("Cargo.toml").contains("mlx-parity-tap = { git = \"https://e.invalid/x\" }"));

    let broken = Crate::new();
    broken.write(".cargo/config", "");
    broken.init(&["--yes"], 1, &["`.cargo/config` exists: rename it to `.cargo/config.toml`"]);
    let output = cargo_parity(&broken.root(), &["init", "--path", "/tmp"]).output().unwrap();
    check(output, 1, &["`/tmp` is not a checkout of mlx-parity"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_workspace_gets_the_suite_in_one_package() {
    let port = Crate::new();
    port.write("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n");
    for name in ["model", "tools"] {
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        port.write(&format!("crates/{name}/Cargo.toml"), &manifest);
        port.write(&format!("crates/{name}/src/lib.rs"), "");
    }
    port.init(&["--yes"], 1, &["several packages: `model`, `tools`", "cargo parity init --package <NAME>"]);
    port.init(&["--yes", "--package", "mode"], 1, &["has no package `mode`, but `model`, `tools`"]);
    port.init_in("crates/model", &["--yes"], 0, &["change crates/model/Cargo.toml", "change Cargo.toml"]);
    let suite = port.read("crates/model/tests/parity.rs");
    assert!(suite.contains("Suite::new(\"../..\", \"parity-specs\", \"fixtures\")"), "{suite}");
    assert!(port.read("Cargo.toml").contains("[profile.dev.package.mlx-parity-tensor]"));
    assert!(!port.read("crates/model/Cargo.toml").contains("[profile"));
    assert!(port.root().join("parity-specs/policies.yaml").is_file());
    port.init(&["--yes", "--package", "model"], 0, &["nothing to change"]);
    // A new spec puts its port beside the suite.
    let output =
        cargo_parity(&port.root(), &["new-spec", "llama/decoder", "--template", "llm"]).output().unwrap();
    let words = [
        "wrote crates/model/src/llama/decoder.rs",
        "in `crates/model/tests/parity.rs`",
        "model::llama::decoder::Port",
    ];
    check(output, 0, &words);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn another_mlx_rs_is_reported() {
    let port = Crate::new();
    let manifest = port.read("Cargo.toml");
    port.write("Cargo.toml", &format!("{manifest}mlx-rs = \"0.25\"\n"));
    let words = [
        "warning: package `my-port` depends on mlx-rs ^0.25",
        "`Array` types are different",
        "[patch.crates-io]",
    ];
    port.init(&["--yes"], 0, &words);
    assert!(port.read("Cargo.toml").contains("mlx-rs = \"0.25\""));
    let package = |version: &str| format!("[[package]]\nname = \"mlx-rs\"\nversion = \"{version}\"\n");
    port.write("Cargo.lock", &format!("version = 4\n{}{}", package("0.25.0"), package("0.33.0")));
    let output = cargo_parity(&port.root(), &["doctor"]).output().unwrap();
    check(
        output,
        1,
        &["wrong  mlx-rs", "Cargo.lock has mlx-rs 0.25.0 from a folder and 0.33.0", "cargo tree --invert"],
    );
}

/// A project that declares environments and has no lock: `doctor` says so, and `init` has uv make it.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_lock_is_made_with_uv_for_environments_of_ones_own() {
    let port = Crate::new();
    port.init(&["--yes"], 0, &[]);
    fs::remove_file(port.root().join("exporter/references/uv.lock")).unwrap();
    port.write("exporter/references/pyproject.toml", "[project]\nname = \"mine\"\n");
    let output = cargo_parity(&port.root(), &["doctor"]).output().unwrap();
    check(output, 1, &["has a `pyproject.toml`, but no `uv.lock`", "to do: run `cargo parity init`"]);
    port.write("bin/uv", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'uv 0.13.7'; exit 0; fi\necho 'version = 1' > uv.lock\n");
    fs::set_permissions(port.root().join("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", port.root().join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = cargo_parity(&port.root(), &["init", "--yes"]);
    check(command.env("PATH", path).output().unwrap(), 0, &["uv 0.13.7 made `"]);
    assert_eq!(port.read("exporter/references/uv.lock"), "version = 1\n");
    assert_eq!(port.read("exporter/references/pyproject.toml"), "[project]\nname = \"mine\"\n");
}

/// From an empty library to a green suite, without torch: `init`, a spec from a NumPy reference, goldens, a port.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
#[cfg(target_os = "linux")]
fn a_new_crate_becomes_green() {
    let port = Crate::new();
    port.init(&["--yes"], 0, &[]);
    // What a person would wait for: MLX, and the packages of a NumPy reference. This repository has them.
    fs::copy(repository().join("Cargo.lock"), port.root().join("Cargo.lock")).unwrap();
    let private = port.root().join(".parity");
    fs::create_dir_all(&private).unwrap();
    let target = repository().join("target/init-test");
    fs::create_dir_all(private.join("mlx")).unwrap();
    let config = "mlx/config.toml";
    fs::copy(repository().join(".parity").join(config), private.join(config)).unwrap();
    let suite = || {
        let mut command = Command::new("cargo");
        command.args(["test", "--offline", "--test", "parity"]).current_dir(port.root());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PARITY_") {
                command.env_remove(name);
            }
        }
        command.env("CARGO_TARGET_DIR", &target).env_remove("CI").output().unwrap()
    };
    // Before there is a spec, the suite builds and says what to type.
    check(suite(), 101, &["no spec was found in", "cargo parity new-spec <model>/<component> --from"]);

    // No lock: the script runs with the packages of the exporter's tests.
    fs::remove_dir_all(port.root().join("exporter/references")).unwrap();
    let packages = fs::read_dir(repository().join(".parity/python")).unwrap();
    let packages =
        packages.filter_map(Result::ok).map(|entry| entry.path()).find(|path| path.join("numpy").is_dir());
    port.write("exporter/references/mlp.py", REFERENCE);
    let with_numpy = |arguments: &[&str]| {
        let mut command = cargo_parity(&port.root(), arguments);
        command.env("PYTHONPATH", packages.as_ref().unwrap());
        command.envs(std::env::var_os("PARITY_PYTHON").map(|python| ("PARITY_PYTHON", python)));
        command.output().unwrap()
    };
    let from = ["new-spec", "mlp/stack", "--from", "exporter/references/mlp.py", "--param", "layers=2"];
    check(
        with_numpy(&from),
        0,
        &[
            "wrote parity-specs/mlp/stack.yaml",
            "left out: mask  (zero: golden `mask` is 0.0 in all of its",
            "scope(\"layers\", i)",
        ],
    );
    check(with_numpy(&["regenerate-fixtures", "--yes"]), 0, &["1 new, 0 replaced"]);
    port.write("src/lib.rs", "pub mod mlp;\n");
    port.write("src/mlp/stack.rs", PORT);
    let text = port.read("tests/parity.rs").replace(
        "        .main()",
        concat!(
            "        .port(\"mlp::stack\", |run| {\n",
            "            let weights = run.weights()?;\n",
            "            my_port::mlp::stack::forward(&run.input(\"x\")?, &weights.get(\"up\")?, 2)?;\n",
            "            Ok(())\n        })\n        .main()"
        ),
    );
    port.write("tests/parity.rs", &text);
    let text = check(suite(), 0, &["mlp/stack::layers.0.out", "mlp/stack::layers.1.out", "mlp/stack::sum"]);
    assert!(!text.contains("FAILED"), "{text}");
    // The port taps one tensor more than the spec declares, which the reference does not record.
    check(with_numpy(&["new-spec", "mlp/stack", "--missing"]), 0, &["declares every golden", "  extra\n"]);
}

const REFERENCE: &str = r#"import numpy as np
from parity_export import main


def reference(rec, dim=8, layers=3, tokens=5):
    draw = np.random.default_rng(0)
    w = rec.weights({"up": draw.standard_normal((dim, dim)).astype(np.float32)})
    x = rec.input("x", draw.standard_normal((tokens, dim)).astype(np.float32))
    for i in rec.axis("layers", layers):
        x = rec.save("out", np.maximum(x @ w["up"], np.float32(0)) * np.float32(0.5))
    rec.save("mask", x * np.float32(0))
    rec.save("sum", x + x[::-1])


if __name__ == "__main__":
    main(reference)
"#;

const PORT: &str = r#"use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::{Array, array, ops};

pub fn forward(x: &Array, up: &Array, layers: usize) -> Result<Array, Exception> {
    let mut x = x.clone();
    for i in 0..layers {
        let _scope = scope("layers", i);
        x = tap("out", ops::maximum(x.matmul(up)?, array!(0.0f32))?.multiply(array!(0.5f32))?)?;
    }
    tap("extra", x.negative()?)?;
    let index = Array::from_slice(&[4, 3, 2, 1, 0], &[5]);
    tap("sum", x.add(x.take_axis(&index, 0)?)?)
}
"#;
