//! `cargo xtask setup` on machines that lack something. Small scripts stand in for the real tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::command::{BINARY, EMPTY_WORKSPACE};

/// A project and a machine: only programs that the test puts there are on the path.
struct Machine {
    home: tempfile::TempDir,
}

const LOCK: &str = "version = 4\n[[package]]\nname = \"mlx-sys\"\nversion = \"0.7.0\"\nchecksum = \"00\"\n";
const INCLUDE: &str = "include = [{ path = \"../.parity/mlx/config.toml\", optional = true }]\n";
/// A compiler that accepts everything.
const COMPILER: &str =
    "#!/bin/sh\n[ \"$1\" = --version ] && echo 'g++ (Test) 13.0'\n/bin/cat >/dev/null\nexit 0\n";

impl Machine {
    /// A machine on which everything is in order up to the first call of pip.
    fn new() -> Self {
        let machine = Self { home: tempfile::tempdir().unwrap() };
        machine.write("project/Cargo.toml", EMPTY_WORKSPACE);
        machine.write("project/Cargo.lock", LOCK);
        machine.write("project/.cargo/config.toml", INCLUDE);
        machine.write("mlx-sys/src/mlx-c/CMakeLists.txt", "GIT_TAG v0.32.2)\n");
        machine.program("g++", COMPILER);
        let manifest = machine.home.path().join("mlx-sys/Cargo.toml");
        let metadata = format!(
            "{{\"packages\": [{{\"name\": \"mlx-sys\", \"manifest_path\": \"{}\"}}]}}",
            manifest.display()
        );
        let workspace = machine.home.path().join("project/Cargo.toml");
        machine.program(
            "cargo",
            &format!(
                "#!/bin/sh\nif [ \"$1\" = locate-project ]; then echo '{}'; else echo '{metadata}'; fi\n",
                workspace.display()
            ),
        );
        machine.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": "23.2"}"#, "exit 0");
        machine
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        let file = format!("bin/{name}");
        self.write(&file, script);
        fs::set_permissions(self.home.path().join(file), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A Python that prints these facts, and whose pip runs `pip`, where `$9` is the folder to download to.
    fn python(&self, facts: &str, pip: &str) {
        self.program(
            "python3",
            &format!("#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{facts}'; exit 0; fi\n{pip}\n"),
        );
    }

    fn without(self, program: &str) -> Self {
        fs::remove_file(self.home.path().join("bin").join(program)).unwrap();
        self
    }

    fn with(self, change: impl FnOnce(&Self)) -> Self {
        change(&self);
        self
    }

    /// The line of `doctor` about MLX.
    fn doctor(&self) -> String {
        let bin = self.home.path().join("bin");
        let output = Command::new(BINARY)
            .arg("doctor")
            .env_clear()
            .env("PATH", &bin)
            .current_dir(self.home.path().join("project"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("  MLX  ") || line.contains("  MLX ")).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Runs `setup`, which must fail, and print all of `words` and a line that begins with `to do`.
    #[track_caller]
    fn prints(&self, words: &[&str]) {
        let bin = self.home.path().join("bin");
        let output = Command::new(BINARY)
            .arg("setup")
            .env_clear()
            .env("PATH", &bin)
            .env("CARGO", bin.join("cargo"))
            .current_dir(self.home.path().join("project"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(output.stdout.is_empty());
        for word in ["error: ", "\nto do: "].iter().chain(words) {
            assert!(text.contains(word), "does not print `{word}`:\n{text}");
        }
    }

    fn project(&self) -> &Path {
        self.home.path()
    }
}

#[test]
fn a_project_that_is_not_ready_gets_the_lines_to_write() {
    Machine::new()
        .with(|m| fs::remove_file(m.project().join("project/Cargo.lock")).unwrap())
        .prints(&["Cargo.lock` does not exist", "cargo generate-lockfile"]);
    Machine::new()
        .with(|m| m.write("project/Cargo.lock", "version = 4\n"))
        .prints(&["has no mlx-sys", "run `cargo parity init`, which adds mlx-rs"]);
    Machine::new().with(|m| m.write("project/Cargo.lock", &LOCK.replace("0.7.0", "0.9.1"))).prints(&[
        "mlx-sys 0.9.1 is not supported",
        "which supports 0.7.0",
        "use mlx-rs 0.33",
    ]);
    Machine::new().with(|m| m.write("project/.cargo/config.toml", "[alias]\n")).prints(&[
        "config.toml` does not include",
        "put `include = [{ path = \"../.parity/mlx/config.toml\"",
    ]);
    Machine::new()
        .with(|m| m.write("mlx-sys/src/mlx-c/CMakeLists.txt", "GIT_TAG v0.33.0)\n"))
        .prints(&["written against MLX 0.33.0", "pinned wheel is MLX 0.32.2"]);
}

#[test]
fn a_missing_or_old_compiler_is_named() {
    Machine::new()
        .without("g++")
        .prints(&["no C++ compiler was found (tried g++, c++, clang++)", "apt install g++"]);
    let old = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'g++ (Test) 9.4' && exit 0\nexit 1\n";
    Machine::new().with(|m| m.program("g++", old)).prints(&[
        "no C++ compiler here supports C++20",
        "found g++ (Test) 9.4",
        "g++ 12 or newer",
    ]);
}

#[test]
fn a_missing_or_old_python_is_named() {
    Machine::new().without("python3").prints(&["cannot run `python3`", "python3-pip"]);
    Machine::new()
        .with(|m| m.python(r#"{"version": [3, 8], "libc": ["glibc", "2.36"], "pip": "20"}"#, ""))
        .prints(&["`python3` is Python 3.8, but 3.10 or newer is needed"]);
    Machine::new()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": null}"#, ""))
        .prints(&["`python3` has no pip", "ensurepip"]);
    Machine::new().with(|m| m.python("Traceback", "")).prints(&["`python3` does not work"]);
}

#[test]
fn an_old_c_library_is_named_before_anything_is_fetched() {
    Machine::new()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.31"], "pip": "23.2"}"#, "exit 9"))
        .prints(&["needs glibc 2.35 or newer, but this machine has glibc 2.31", "Ubuntu 22.04"]);
    Machine::new()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["", ""], "pip": "23.2"}"#, "exit 9"))
        .prints(&["this machine has another C library"]);
}

#[test]
fn a_pip_that_cannot_fetch_is_quoted() {
    let offline = "echo 'ERROR: Could not find a version that satisfies the requirement' >&2; exit 1";
    Machine::new()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": "23.2"}"#, offline))
        .prints(&["pip could not fetch mlx-cpu==0.32.2: ERROR: Could not find a version", "PIP_INDEX_URL"]);
    Machine::new().prints(&["pip fetched no wheel for mlx-cpu==0.32.2"]);
}

#[test]
fn a_wheel_with_another_checksum_is_refused_and_not_kept() {
    let forged = "echo forged > \"$9/mlx_cpu-0.32.2-py3-none-any.whl\"";
    let machine = Machine::new()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": "23.2"}"#, forged));
    for _ in 0..2 {
        machine.prints(&[
            "mlx_cpu-0.32.2-py3-none-any.whl` has SHA-256",
            "is pinned",
            "do not use that file",
        ]);
    }
    assert!(!machine.project().join("project/.parity/mlx/mlx-cpu.whl").exists());
    assert!(!machine.project().join("project/.parity/mlx/config.toml").exists());
}

#[test]
fn doctor_says_what_is_not_set_up() {
    let machine = Machine::new();
    let text = machine.doctor();
    let arch = std::env::consts::ARCH;
    assert_eq!(text, format!("wrong MLX MLX 0.32.2 (CPU backend, Linux {arch}) is not set up"));
}
