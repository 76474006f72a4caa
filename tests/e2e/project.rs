//! A temporary project in which the binary `bad_ports` runs as a suite or as `cargo xtask`, and what it printed there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The only spec of a [`Project`].
pub(crate) const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

/// Where a project's workers keep the kernels that MLX compiles for the CPU.
pub(crate) const KERNELS: &str = "target/parity/tmp/mlx";

/// What the gated MLP's spec needs of this repository.
pub(crate) const FILES: [&str; 8] = [
    "parity-specs/policies.yaml",
    SPEC,
    "exporter/references/gated_mlp_block.py",
    "fixtures/gated_mlp/block/manifest.json",
    "fixtures/gated_mlp/block/goldens.safetensors",
    "fixtures/gated_mlp/block/inputs.safetensors",
    "fixtures/gated_mlp/block/recipes.json",
    "fixtures/gated_mlp/block/weights.safetensors",
];

/// A project with the spec of the gated MLP, its fixtures and its snapshot.
pub(crate) struct Project {
    root: tempfile::TempDir,
}

impl Project {
    /// The spec names this port of `bad_ports/misbehaving.rs`.
    pub(crate) fn with_port(port: &str) -> Self {
        let project = Self::without_kernels(port);
        copy_folder(kernels(), &project.path(KERNELS));
        project
    }

    /// A project whose first run compiles the kernel of `silu`, which takes most of a second.
    pub(crate) fn without_kernels(port: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        copy_from_repository(&FILES, root.path());
        copy_from_repository(&["tests/snapshots/gated_mlp__block.snap"], root.path());
        let manifest = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[[test]]\nname = \"parity\"\n\
            harness = false\n\n[workspace]\n";
        fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(root.path().join("tests/parity.rs"), "fn main() {}\n").unwrap();
        let project = Self { root };
        project.edit(SPEC, "port: gated_mlp::block", &format!("port: {port}"));
        project
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    /// Replaces the first `from` in a file by `to`; the file must have it.
    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`");
        fs::write(self.path(file), text.replacen(from, to, 1)).unwrap();
    }

    /// Replaces the line that declares the checkpoint `gated`.
    pub(crate) fn declare(&self, checkpoint: &str) {
        let path = self.path(SPEC);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> =
            text.lines().map(|line| if line.contains("name: gated,") { checkpoint } else { line }).collect();
        fs::write(path, lines.join("\n")).unwrap();
    }

    /// The suite as Cargo runs it, in a package whose folder is the project's root.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(bad_ports());
        command.args(arguments).env("CARGO_MANIFEST_DIR", self.root.path());
        for (name, _) in std::env::vars_os() {
            let is_ours = |prefix: &&str| name.to_string_lossy().starts_with(prefix);
            if ["NEXTEST", "PARITY_", "INSTA_"].iter().any(is_ours) {
                command.env_remove(name);
            }
        }
        // A backtrace costs a tenth of a second per panic, and red ports panic.
        command.env_remove("RUST_BACKTRACE");
        // In CI the suite refuses some settings, and insta, which looks at both, writes nothing.
        command.env_remove("CI").env_remove("TF_BUILD");
        command.env("BAD_PORTS_MODE", "misbehaving").env("BAD_PORTS_ROOT", ".");
        command.env("BAD_PORTS_COUNT", self.path("count"));
        command
    }

    /// `cargo xtask` in this project. The Cargo that it starts is a script, which runs the suite.
    pub(crate) fn xtask(&self, arguments: &[&str]) -> Command {
        let (suite, root, real) = (bad_ports(), self.root.path().display(), env!("CARGO"));
        // Cargo sets the package's folder for what it runs; `cargo xtask` has removed its own.
        let script = format!(
            "[ \"$1\" = metadata ] && exec '{real}' \"$@\"\n\
             export BAD_PORTS_MODE=misbehaving CARGO_MANIFEST_DIR='{root}'\n\
             while [ \"$1\" != -- ]; do shift; done\nshift\nexec '{}' \"$@\"",
            suite.display()
        );
        let cargo = write_script(&self.path("cargo"), &script);
        let mut command = self.command(arguments);
        command.env("BAD_PORTS_MODE", "xtask").env("CARGO", cargo);
        command
    }

    /// Runs `cargo xtask report` on the newest run.
    pub(crate) fn report(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.xtask(&[&["report"], arguments].concat()).output().unwrap())
    }

    /// Runs the suite.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs one trial as nextest does: a process per test, all with the same run id.
    pub(crate) fn as_nextest(&self, name: &str, run: &str, attempt: &str) -> Ran {
        let mut command = self.command(&["--exact", &format!("gated_mlp/block::{name}"), "--nocapture"]);
        command.env("NEXTEST_RUN_ID", run).env("NEXTEST_ATTEMPT", attempt);
        Ran::of(command.output().unwrap())
    }

    /// The verdicts of the newest run, one JSON line per trial.
    pub(crate) fn trials(&self) -> String {
        fs::read_to_string(self.path("target/parity/runs/latest/trials.jsonl")).unwrap()
    }

    /// The process numbers of the workers, one entry per forward pass.
    pub(crate) fn workers(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.path("count")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// The number of forward passes so far.
    pub(crate) fn forwards(&self) -> usize {
        self.workers().len()
    }
}

/// The kernels of the right port, compiled once for all tests.
fn kernels() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        if !folder.is_dir() {
            let project = Project::without_kernels("right");
            project.run(&[]).is_green();
            // Another process may do the same at the same time: the first one to rename wins.
            let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            copy_folder(&project.path(KERNELS), &own.path().join("kernels"));
            let _ = fs::rename(own.path().join("kernels"), &folder);
        }
        folder
    })
}

/// Copies a folder with all that it holds. A folder that does not exist has nothing to copy.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().filter_map(Result::ok) {
        let copy = to.join(entry.path().strip_prefix(from).unwrap());
        match entry.file_type().is_dir() {
            true => fs::create_dir_all(copy).unwrap(),
            false => drop(fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

/// Copies files of this repository to the same places below `root`.
pub(crate) fn copy_from_repository(files: &[&str], root: &Path) {
    for file in files {
        let copy = root.join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(repository().join(file), copy).unwrap();
    }
}

/// Writes a shell script that can be executed, and returns its path.
pub(crate) fn write_script(path: &Path, body: &str) -> PathBuf {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// This repository. Asked for at run time, since a checkout may be copied together with what was compiled in it.
pub(crate) fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo runs this");
    PathBuf::from(package).parent().unwrap().to_owned()
}

/// The binary `bad_ports`, at run time too.
pub(crate) fn bad_ports() -> PathBuf {
    let now = ["CARGO_BIN_EXE_bad_ports", "NEXTEST_BIN_EXE_bad_ports"].into_iter().find_map(std::env::var_os);
    now.map_or_else(|| env!("CARGO_BIN_EXE_bad_ports").into(), PathBuf::from)
}

/// How a command ended, and what it printed.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Standard output, then standard error.
    pub(crate) text: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let text = stdout.clone() + &String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), stdout, text }
    }

    /// Expects the exit code of a suite with a failing trial, and these words.
    #[track_caller]
    pub(crate) fn is_red(&self, words: &[&str]) {
        assert_eq!(self.code, Some(101), "{}", self.text);
        self.prints(words);
    }

    #[track_caller]
    pub(crate) fn is_green(&self) {
        assert_eq!(self.code, Some(0), "{}", self.text);
    }

    #[track_caller]
    pub(crate) fn prints(&self, words: &[&str]) {
        for word in words {
            assert!(self.text.contains(word), "does not print `{word}`:\n{}", self.text);
        }
    }

    /// The trials with this outcome, `ok` or `FAILED`, sorted by name. Without `stats`, which most wrong ports turn red: see
    /// [`Ran::stats`].
    pub(crate) fn ended(&self, how: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(how)?.trim_end().strip_suffix("..."))
            .filter_map(|name| name.trim().strip_prefix("gated_mlp/block::"))
            .filter(|name| *name != "stats")
            .collect();
        names.sort_unstable();
        names
    }

    /// The outcome of the trial `stats`, `ok` or `FAILED`, if it ran.
    pub(crate) fn stats(&self) -> Option<&str> {
        let line = self.text.lines().find(|line| line.starts_with("test gated_mlp/block::stats "))?;
        line.rsplit(' ').next()
    }
}
