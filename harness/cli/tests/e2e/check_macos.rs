//! What `cargo xtask check-macos` prints on Linux machines that lack something, played by small scripts in place of the real tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::command::{cargo_parity, check};

/// A project, and a folder `bin` that is the only one on the path.
struct Machine {
    home: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { home: tempfile::tempdir().unwrap() };
        machine.write("project/Cargo.toml", "[workspace.package]\nrust-version = \"1.94\"\n");
        machine.write("project/xtask/.keep", "");
        machine.write("bin/.keep", "");
        // Finds the workspace for the command, and is no part of any toolchain.
        let manifest = machine.home.path().join("project/Cargo.toml");
        machine.program("../locator", &format!("#!/bin/sh\necho '{}'\n", manifest.display()));
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

    /// A compiler of this version, whose sysroot is the folder `sysroot`.
    fn rustc(&self, version: &str) {
        let sysroot = self.home.path().join("sysroot");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'rustc {version}'; else echo '{}'; fi\n",
            sysroot.display()
        );
        self.program("rustc", &script);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let arguments: Vec<&str> = ["check-macos"].iter().chain(arguments).copied().collect();
        let mut command = cargo_parity(&self.home.path().join("project"), &arguments);
        command
            .env("PATH", self.home.path().join("bin"))
            .env("CARGO", self.home.path().join("locator"))
            .env_remove("RUSTC")
            .output()
            .unwrap()
    }

    /// Expects that nothing is checked, for this reason: exit code 2, or 0 where that is asked for.
    #[track_caller]
    fn lacks(&self, reason: &str) {
        let advice = ["rustup target add aarch64-apple-darwin", "rust-src", "rust-web-src"];
        let text = check(self.run(&[]), 2, &advice);
        assert!(text.starts_with("error: no Rust here can compile for aarch64-apple-darwin: "), "{text}");
        assert!(text.contains(reason) && text.contains("\nto do: "), "{text}");
        let text = check(self.run(&["--if-available"]), 0, &advice);
        assert!(text.starts_with("skipped the check for macOS: no Rust here can compile"), "{text}");
        assert!(text.contains(reason) && !text.contains("type-checks"), "{text}");
        assert!(!self.project().join(".parity").exists(), "something was installed");
    }

    fn project(&self) -> std::path::PathBuf {
        self.home.path().join("project")
    }
}

#[test]
fn a_machine_without_a_toolchain_for_macos_learns_what_is_missing() {
    let machine = Machine::new();
    machine.lacks("no `rustc` is on the path");
    machine.rustc("1.93.1 (abc 2026-01-01)");
    machine.lacks("rustc 1.93.1 (abc 2026-01-01) in `");
    machine.lacks("is older than 1.94");
    machine.rustc("1.96.0");
    machine.lacks("has no Cargo beside it");
    machine.program("cargo", "#!/bin/sh\nexit 0\n");
    machine.lacks("has neither that target nor the sources of the standard library");
}

/// A toolchain alone is not enough: what set-up needs is missing in this project, which no machine can mend.
#[test]
fn a_project_that_cannot_be_set_up_is_an_error_and_never_skipped() {
    for part in ["aarch64-apple-darwin/lib/.keep", "src/rust/library/std/Cargo.toml"] {
        let machine = Machine::new();
        machine.rustc("1.96.0");
        machine.program("cargo", "#!/bin/sh\nexit 0\n");
        machine.write(&Path::new("sysroot/lib/rustlib").join(part).display().to_string(), "");
        for arguments in [&[][..], &["--if-available"]] {
            let text = check(machine.run(arguments), 1, &["error: ", "Cargo.lock", "to do: "]);
            assert!(!text.contains("type-checks for aarch64-apple-darwin with"), "{text}");
        }
    }
}
