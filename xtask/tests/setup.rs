//! What `cargo xtask setup` says on machines that lack something, played by small scripts in place of the real tools.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A project and a machine of its own: nothing but what a test puts there is on the path.
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
        machine.write("project/Cargo.lock", LOCK);
        machine.write("project/.cargo/config.toml", INCLUDE);
        machine.write("mlx-sys/src/mlx-c/CMakeLists.txt", "GIT_TAG v0.32.2)\n");
        machine.program("g++", COMPILER);
        let manifest = machine.home.path().join("mlx-sys/Cargo.toml");
        let metadata = format!(
            "{{\"packages\": [{{\"name\": \"mlx-sys\", \"manifest_path\": \"{}\"}}]}}",
            manifest.display()
        );
        machine.program("cargo", &format!("#!/bin/sh\necho '{metadata}'\n"));
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

    /// A Python that tells these facts, and whose pip does `pip`; the folder to download to is `$9` there.
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

    /// What `doctor` says about MLX.
    fn doctor(&self) -> String {
        let bin = self.home.path().join("bin");
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("doctor")
            .env_clear()
            .env("PATH", &bin)
            .env("CARGO_MANIFEST_DIR", self.home.path().join("project/xtask"))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|line| line.contains("  MLX  ") || line.contains("  MLX ")).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Runs set-up, which must fail, and hold all of `words` and a line that says what to do.
    #[track_caller]
    fn says(&self, words: &[&str]) {
        let bin = self.home.path().join("bin");
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("setup")
            .env_clear()
            .env("PATH", &bin)
            .env("CARGO", bin.join("cargo"))
            .env("CARGO_MANIFEST_DIR", self.home.path().join("project/xtask"))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty());
        for word in ["error: ", "\nto do: "].iter().chain(words) {
            assert!(said.contains(word), "does not say `{word}`:\n{said}");
        }
    }

    fn project(&self) -> &Path {
        self.home.path()
    }
}

fn machine() -> Machine {
    let machine = Machine::new();
    fs::create_dir_all(machine.project().join("project/xtask")).unwrap();
    machine
}

#[test]
fn a_project_that_is_not_ready_is_told_what_to_write() {
    machine()
        .with(|m| fs::remove_file(m.project().join("project/Cargo.lock")).unwrap())
        .says(&["Cargo.lock` is not there", "cargo generate-lockfile"]);
    machine()
        .with(|m| m.write("project/Cargo.lock", "version = 4\n"))
        .says(&["has no mlx-sys", "add mlx-rs"]);
    machine().with(|m| m.write("project/Cargo.lock", &LOCK.replace("0.7.0", "0.9.1"))).says(&[
        "mlx-sys 0.9.1 is not known",
        "which knows 0.7.0",
        "use mlx-rs 0.33",
    ]);
    machine()
        .with(|m| m.write("project/.cargo/config.toml", "[alias]\n"))
        .says(&["config.toml` does not include", "put `include = [{ path = \"../.parity/mlx/config.toml\""]);
    machine()
        .with(|m| m.write("mlx-sys/src/mlx-c/CMakeLists.txt", "GIT_TAG v0.33.0)\n"))
        .says(&["written against MLX 0.33.0", "pinned wheel is MLX 0.32.2"]);
}

#[test]
fn a_missing_or_old_compiler_is_named() {
    machine()
        .without("g++")
        .says(&["no C++ compiler was found (tried g++, c++, clang++)", "apt install g++"]);
    let old = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'g++ (Test) 9.4' && exit 0\nexit 1\n";
    machine().with(|m| m.program("g++", old)).says(&[
        "no C++ compiler here knows C++20",
        "found g++ (Test) 9.4",
        "g++ 12 or newer",
    ]);
}

#[test]
fn a_missing_or_old_python_is_named() {
    machine().without("python3").says(&["cannot run `python3`", "python3-pip"]);
    machine()
        .with(|m| m.python(r#"{"version": [3, 8], "libc": ["glibc", "2.36"], "pip": "20"}"#, ""))
        .says(&["`python3` is Python 3.8, but 3.10 or newer is needed"]);
    machine()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": null}"#, ""))
        .says(&["`python3` has no pip", "ensurepip"]);
    machine().with(|m| m.python("Traceback", "")).says(&["`python3` does not work"]);
}

#[test]
fn an_old_c_library_is_named_before_anything_is_fetched() {
    machine()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.31"], "pip": "23.2"}"#, "exit 9"))
        .says(&["needs glibc 2.35 or newer, but this machine has glibc 2.31", "Ubuntu 22.04"]);
    machine()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["", ""], "pip": "23.2"}"#, "exit 9"))
        .says(&["this machine has another C library"]);
}

#[test]
fn a_pip_that_cannot_fetch_is_quoted() {
    let offline = "echo 'ERROR: Could not find a version that satisfies the requirement' >&2; exit 1";
    machine()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": "23.2"}"#, offline))
        .says(&["pip could not fetch mlx-cpu==0.32.2: ERROR: Could not find a version", "PIP_INDEX_URL"]);
    machine().says(&["pip fetched no wheel for mlx-cpu==0.32.2"]);
}

#[test]
fn a_wheel_with_another_checksum_is_refused_and_not_kept() {
    let forged = "echo forged > \"$9/mlx_cpu-0.32.2-py3-none-any.whl\"";
    let machine = machine()
        .with(|m| m.python(r#"{"version": [3, 11], "libc": ["glibc", "2.36"], "pip": "23.2"}"#, forged));
    for _ in 0..2 {
        machine.says(&["mlx_cpu-0.32.2-py3-none-any.whl` has SHA-256", "is pinned", "do not use that file"]);
    }
    assert!(!machine.project().join("project/.parity/mlx/mlx-cpu.whl").exists());
    assert!(!machine.project().join("project/.parity/mlx/config.toml").exists());
}

#[test]
fn help_shows_examples() {
    for command in
        ["", "setup", "test", "parity", "lint", "list", "regenerate-fixtures", "doctor", "new-spec"]
    {
        let arguments = [command, "--help"].into_iter().filter(|argument| !argument.is_empty());
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.contains("Example") && said.contains("cargo xtask"),
            "{said}"
        );
    }
}

#[test]
fn doctor_says_what_is_not_set_up() {
    let machine = Machine::new();
    machine.write("project/xtask/.keep", "");
    let said = machine.doctor();
    let arch = std::env::consts::ARCH;
    assert_eq!(said, format!("wrong MLX MLX 0.32.2 (CPU backend, Linux {arch}) is not set up"));
}
