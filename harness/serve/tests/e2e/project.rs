//! A temporary project with the spec of the gated MLP, whose suite is the binary `bad_ports`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The spec of every project.
pub(crate) const ID: &str = "gated_mlp/block";

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const FILES: [&str; 9] = [
    "parity-specs/policies.yaml",
    SPEC,
    "exporter/references/gated_mlp_block.py",
    "fixtures/gated_mlp/block/manifest.json",
    "fixtures/gated_mlp/block/goldens.safetensors",
    "fixtures/gated_mlp/block/inputs.safetensors",
    "fixtures/gated_mlp/block/recipes.json",
    "fixtures/gated_mlp/block/weights.safetensors",
    "tests/snapshots/gated_mlp__block.snap",
];

/// A project in a temporary folder.
pub(crate) struct Project {
    root: tempfile::TempDir,
}

impl Project {
    /// The spec names this port of `tests/bad_ports/misbehaving.rs`.
    pub(crate) fn with_port(port: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for file in FILES {
            let copy = root.path().join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(repository().join(file), copy).unwrap();
        }
        let manifest = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[[test]]\nname = \"parity\"\n\
            harness = false\n\n[workspace]\n";
        fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(root.path().join("tests/parity.rs"), "fn main() {}\n").unwrap();
        let project = Self { root };
        project.set_port("gated_mlp::block", port);
        project
    }

    /// A project whose port has three blocks with scopes, and checkpoints in them.
    pub(crate) fn scoped() -> Self {
        let project = Self::with_port("scoped");
        let text = fs::read_to_string(project.path(SPEC)).unwrap();
        let spec = text.trim_end().to_owned()
            + "\n  - {name: \"blocks.{i}.attn.q\", for: {i: 0..3}, dtype: float32, shape: [2], range: [0, 9]}\
               \n  - {name: \"blocks.{i}.out\", for: {i: 0..3}, dtype: float32, shape: [2], range: [0, 9]}\
               \n  - {name: end, dtype: float32, shape: [2], range: [0, 9]}\n";
        fs::write(project.path(SPEC), spec).unwrap();
        project
    }

    /// Replaces the line that declares the checkpoint `gated`.
    pub(crate) fn declare(&self, checkpoint: &str) {
        let text = fs::read_to_string(self.path(SPEC)).unwrap();
        let line = text.lines().find(|line| line.contains("name: gated,")).unwrap();
        fs::write(self.path(SPEC), text.replacen(line, checkpoint, 1)).unwrap();
    }

    /// Lets the spec name another port.
    pub(crate) fn set_port(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(SPEC)).unwrap();
        let (from, to) = (format!("port: {from}\n"), format!("port: {to}\n"));
        assert!(text.contains(&from), "{text}");
        fs::write(self.path(SPEC), text.replacen(&from, &to, 1)).unwrap();
    }

    /// The events of the only debug session.
    pub(crate) fn trace(&self) -> Vec<serde_json::Value> {
        let entries = fs::read_dir(self.path("target/parity/debug")).unwrap();
        let traces = entries.map(|entry| entry.unwrap().path().join("trace.jsonl"));
        let traces: Vec<PathBuf> = traces.filter(|path| path.is_file()).collect();
        assert_eq!(traces.len(), 1, "{traces:?}");
        let text = fs::read_to_string(&traces[0]).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    /// `cargo xtask` in this project. The Cargo that it starts is a script, which runs the suite.
    pub(crate) fn xtask(&self, arguments: &[&str]) -> Command {
        let (root, real) = (self.root.path().display(), env!("CARGO"));
        // Cargo sets the package's folder for what it runs; `cargo xtask` has removed its own.
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in metadata|locate-project) exec '{real}' \"$@\";; esac\n\
             export BAD_PORTS_MODE=misbehaving CARGO_MANIFEST_DIR='{root}'\n\
             while [ \"$1\" != -- ]; do shift; done\nshift\nexec '{}' \"$@\"\n",
            bad_ports().display()
        );
        let cargo = self.path("cargo");
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(bad_ports());
        for (name, _) in std::env::vars_os() {
            let is_ours = |prefix: &&str| name.to_string_lossy().starts_with(prefix);
            if ["NEXTEST", "PARITY_", "INSTA_"].iter().any(is_ours) {
                command.env_remove(name);
            }
        }
        command.env_remove("RUST_BACKTRACE").env_remove("CI").env_remove("TF_BUILD");
        command.env("BAD_PORTS_MODE", "xtask").env("BAD_PORTS_ROOT", ".").env("CARGO", cargo);
        command.env("CARGO_MANIFEST_DIR", self.root.path()).env("BAD_PORTS_COUNT", self.path("count"));
        command.args(arguments).current_dir(self.root.path());
        command
    }
}

/// This repository. Asked for at run time, since a checkout may be copied together with what was compiled in it.
fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo runs this");
    Path::new(&package).parent().unwrap().parent().unwrap().to_owned()
}

/// The binary with the ports.
fn bad_ports() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("bad_ports"))
}

/// The commands of this repository, in this repository.
pub(crate) fn own_xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(built("xtask"));
    command.args(arguments).current_dir(repository()).env("CARGO_MANIFEST_DIR", repository().join("xtask"));
    command
}

/// A program of another package. Cargo builds it, if nothing has built it before.
fn built(program: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.args(["build", "--quiet", "--workspace", "--bin", program, "--message-format=json"]);
    let output = command.current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    built.expect("Cargo names the program that it built")
}
