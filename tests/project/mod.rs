//! A project for the real binary of `faulty.rs` to run in, and what it said there.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A project of its own, with one spec whose port is the one named.
pub(crate) struct Project {
    root: tempfile::TempDir,
}

impl Project {
    pub(crate) fn with_port(port: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let repository = repository();
        for file in [
            "parity-specs/policies.yaml",
            "parity-specs/gated_mlp/block.yaml",
            "exporter/references/gated_mlp_block.py",
            "fixtures/gated_mlp/block/manifest.json",
            "fixtures/gated_mlp/block/goldens.safetensors",
            "fixtures/gated_mlp/block/inputs.safetensors",
            "fixtures/gated_mlp/block/weights.safetensors",
            "tests/snapshots/gated_mlp__block.snap",
        ] {
            let copy = root.path().join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(repository.join(file), copy).unwrap();
        }
        let manifest = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[[test]]\nname = \"parity\"\n\
            harness = false\n\n[workspace]\n";
        fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(root.path().join("tests/parity.rs"), "fn main() {}\n").unwrap();
        let project = Self { root };
        project.edit("parity-specs/gated_mlp/block.yaml", "port: gated_mlp::block", &format!("port: {port}"));
        project
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`");
        fs::write(self.path(file), text.replacen(from, to, 1)).unwrap();
    }

    /// Declares another checkpoint of the same spec, in place of `gated`.
    pub(crate) fn declare(&self, checkpoint: &str) {
        let path = self.path("parity-specs/gated_mlp/block.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> =
            text.lines().map(|line| if line.contains("name: gated,") { checkpoint } else { line }).collect();
        fs::write(path, lines.join("\n")).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(faulty());
        // As Cargo runs it, in a package that is the project's root.
        command.args(arguments).env("FAULTY_ROOT", ".").env("CARGO_MANIFEST_DIR", self.root.path());
        for (name, _) in std::env::vars_os() {
            if ["NEXTEST", "PARITY_", "INSTA_"]
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        // Where insta looks to learn whether it may write.
        command.env_remove("CI").env_remove("TF_BUILD");
        command.env("FAULTY_COUNT", self.path("count"));
        // CI refuses what these tests are about.
        command.env_remove("CI");
        command
    }

    /// A command of `cargo xtask` in this project; where it runs Cargo, it runs the suite.
    pub(crate) fn xtask(&self, arguments: &[&str]) -> Command {
        let cargo = self.path("cargo");
        let (faulty, root, real) = (faulty(), self.root.path().display(), env!("CARGO"));
        // Cargo names the package to what it runs; `cargo xtask` has taken its own name away.
        let script = format!(
            "#!/bin/sh\nunset FAULTY_XTASK\n[ \"$1\" = metadata ] && exec '{real}' \"$@\"\n\
             export CARGO_MANIFEST_DIR='{root}'\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n\
             exec '{}' \"$@\"\n",
            faulty.display()
        );
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command(arguments);
        command.env("FAULTY_XTASK", "1").env("CARGO", cargo);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// As nextest does it: a process a test, all with the same run id.
    pub(crate) fn as_nextest(&self, name: &str, run: &str, attempt: &str) -> Ran {
        let mut command = self.command(&["--exact", &format!("gated_mlp/block::{name}"), "--nocapture"]);
        command.env("NEXTEST_RUN_ID", run).env("NEXTEST_ATTEMPT", attempt);
        Ran::of(command.output().unwrap())
    }

    /// The processes in which a port was run, one a forward pass.
    pub(crate) fn workers(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.path("count")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// How often a port was run.
    pub(crate) fn forwards(&self) -> usize {
        self.workers().len()
    }
}

/// This repository, where it is now: what was compiled may have been copied together with its checkout.
pub(crate) fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo runs this");
    PathBuf::from(package).parent().unwrap().to_owned()
}

/// The binary of `faulty.rs`, where it is now.
pub(crate) fn faulty() -> PathBuf {
    let now = ["CARGO_BIN_EXE_faulty", "NEXTEST_BIN_EXE_faulty"].into_iter().find_map(std::env::var_os);
    now.map_or_else(|| env!("CARGO_BIN_EXE_faulty").into(), PathBuf::from)
}

/// What a run of the suite said.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), said }
    }

    #[track_caller]
    pub(crate) fn is_red(&self, words: &[&str]) {
        assert_eq!(self.code, Some(101), "{}", self.said);
        self.says(words);
    }

    #[track_caller]
    pub(crate) fn is_green(&self) {
        assert_eq!(self.code, Some(0), "{}", self.said);
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.said.contains(word), "does not say `{word}`:\n{}", self.said);
        }
    }

    /// The trials with that outcome, `ok` or `FAILED`, in order of their names; `stats`, which is red beside most faults
    /// of a port, only by [`Ran::stats`].
    pub(crate) fn ended(&self, how: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .said
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(how)?.trim_end().strip_suffix("..."))
            .filter_map(|name| name.trim().strip_prefix("gated_mlp/block::"))
            .filter(|name| *name != "stats")
            .collect();
        names.sort_unstable();
        names
    }

    /// How the trial `stats` ended, `ok` or `FAILED`, if it ran.
    pub(crate) fn stats(&self) -> Option<&str> {
        let line = self.said.lines().find(|line| line.starts_with("test gated_mlp/block::stats "))?;
        line.rsplit(' ').next()
    }
}
