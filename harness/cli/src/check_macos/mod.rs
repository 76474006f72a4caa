//! `cargo xtask check-macos`: whether the workspace compiles for macOS on Apple silicon, checked on Linux too.
//!
//! The check covers types and names, as `cargo check` does: nothing is linked and nothing runs. Everything that it makes is in
//! `.parity/macos/`, with a target folder of its own, so that the normal build stays as it is.

mod c_compiler;
mod toolchain;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use thiserror::Error;

use super::cargo::{CargoError, cargo, status};
use super::python::PythonError;
use super::setup::{self, SetupError};
use super::{CliError, Project};
use crate::error::CommandError;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::indented;
use toolchain::{StdSource, Toolchain, ToolchainError};

/// What is checked: MLX on macOS runs on Apple silicon only.
const TARGET: &str = "aarch64-apple-darwin";
/// The exit code when a tool is missing, so that nothing was checked.
const UNAVAILABLE: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask check-macos                   check the whole workspace, on Linux or macOS\n  \
    cargo xtask check-macos --if-available    the same, but succeed where a tool is missing\n\n\
    On Linux, the check needs a Rust that can compile for aarch64-apple-darwin: one with that target\n\
    (`rustup target add aarch64-apple-darwin`), or one with the sources of the standard library\n\
    (`rustup component add rust-src`; Debian: `apt install rustc-web cargo-web rust-web-src`).\n\
    A C compiler for macOS (Zig, a download of about 100 MB) and MLX's bindings are put into\n\
    .parity/. The first check takes minutes, later ones seconds.\n\n\
    Exits with 0 when the check ran and passed, 1 when it failed, and 2 when a tool is missing;\n\
    with --if-available, a missing tool exits with 0.")]
pub(crate) struct Arguments {
    /// Exit with 0 when a tool is missing, and print which one
    #[arg(long)]
    if_available: bool,
}

/// Why the workspace was not checked for macOS.
#[derive(Debug, Error)]
pub(crate) enum CheckMacosError {
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    #[error(transparent)]
    Python(#[from] PythonError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Cargo(#[from] CargoError),
    #[error("the path `{}` is not valid Unicode, so Cargo's configuration cannot contain it", path.display())]
    Unicode { path: PathBuf },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl CheckMacosError {
    fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    /// Whether the error is a missing tool, which could be installed. `--if-available` accepts no other error.
    fn is_unavailable(&self) -> bool {
        match self {
            Self::Toolchain(_) => true,
            Self::Python(error) | Self::Setup(SetupError::Python(error)) => {
                !matches!(error, PythonError::Read { .. } | PythonError::Write { .. })
            }
            _ => false,
        }
    }
}

impl CommandError for CheckMacosError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Toolchain(error) => Some(error.next()),
            Self::Python(error) => error.next(),
            Self::Setup(error) => error.next(),
            Self::Cargo(_) => None,
            Self::Unicode { .. } => Some("move the checkout to a path that is valid Unicode".into()),
            Self::Write { .. } => {
                Some("free some space or fix the permissions, then rerun the command".into())
            }
        }
    }
}

/// Checks the workspace. A missing tool is exit code 2, or 0 with `--if-available`; a failed check is 1.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let checked = match std::env::consts::OS {
        "macos" => on_macos(project),
        _ => on_linux(project),
    };
    match checked {
        Err(error) if error.is_unavailable() && arguments.if_available => {
            println!("skipped the check for macOS: {}", indented(&error_chain(&error), 2));
            if let Some(next) = error.next() {
                println!("to check it here: {}", indented(&next, 2));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.is_unavailable() => {
            eprintln!("error: {}", indented(&error_chain(&error), 7));
            if let Some(next) = error.next() {
                eprintln!("to do: {}", indented(&next, 7));
            }
            Ok(ExitCode::from(UNAVAILABLE))
        }
        Err(error) => Err(error.into()),
        Ok(check) => Ok(report(&check)),
    }
}

/// A check that ran to its end.
#[derive(Debug)]
struct MacosCheck {
    passed: bool,
    /// The compiler that checked, as it prints its version.
    compiler: String,
}

fn report(check: &MacosCheck) -> ExitCode {
    if check.passed {
        println!("the workspace type-checks for {TARGET} with {}; nothing was linked or run", check.compiler);
        ExitCode::SUCCESS
    } else {
        eprintln!(
            "error: the workspace does not type-check for {TARGET}; Cargo's output above has the reason"
        );
        ExitCode::FAILURE
    }
}

/// On macOS the ordinary check is the check for macOS.
fn on_macos(project: &Project) -> Result<MacosCheck, CheckMacosError> {
    setup::ensure(project)?;
    let ended = status(cargo(project.root()).args(["check", "--workspace", "--all-targets"]))?;
    Ok(MacosCheck { passed: ended.success(), compiler: "this machine's Rust".into() })
}

/// Finds a toolchain before anything is fetched, then adds the bindings and the C compiler, and checks.
fn on_linux(project: &Project) -> Result<MacosCheck, CheckMacosError> {
    let toolchain = Toolchain::find(project.root())?;
    let bindings = setup::bindings_folder(project)?;
    let home = project.private_folder().join("macos");
    fs::create_dir_all(&home)
        .and_then(|()| project.keep_git_away())
        .map_err(|source| CheckMacosError::write(&home, source))?;
    let compiler = c_compiler::install(project, &home)?;
    check(project.root(), &toolchain, &bindings, &compiler, &home)
}

/// Runs Cargo's check in `root`; its configuration and its target folder are in `home`.
fn check(
    root: &Path,
    toolchain: &Toolchain,
    bindings: &Path,
    compiler: &Path,
    home: &Path,
) -> Result<MacosCheck, CheckMacosError> {
    let config = home.join("config.toml");
    let text = config_text(bindings)?;
    write_atomically(&config, |out| out.write_all(text.as_bytes()))
        .map_err(|source| CheckMacosError::write(&config, source))?;
    let ended = status(&mut check_command(root, toolchain, compiler, &config, &home.join("target")))?;
    Ok(MacosCheck { passed: ended.success(), compiler: toolchain.version.clone() })
}

/// The Cargo configuration that replaces mlx-sys's build script, which calls cmake and Xcode, by the bindings that set-up
/// generated on Linux. They declare the same functions on both systems.
fn config_text(bindings: &Path) -> Result<String, CheckMacosError> {
    let folder = bindings.to_str().ok_or_else(|| CheckMacosError::Unicode { path: bindings.to_owned() })?;
    Ok(format!(
        "# Written by `cargo xtask check-macos`; never edit or commit.\n\
         [target.{TARGET}.mlx]\n\
         rustc-link-lib = [\"dylib=mlxc\"]\n\
         rustc-env = {{ OUT_DIR = {} }}\n",
        toml::Value::String(folder.to_owned())
    ))
}

fn check_command(
    root: &Path,
    toolchain: &Toolchain,
    compiler: &Path,
    config: &Path,
    target: &Path,
) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    command.current_dir(root);
    // What `cargo run` set for this process is removed for this Cargo too.
    for (name, _) in cargo(root).get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command.arg("--config").arg(config).arg("check");
    if toolchain.std == StdSource::Sources {
        // This variable lets a stable compiler take `-Z`.
        command.arg("-Zbuild-std=std,panic_abort,test").env("RUSTC_BOOTSTRAP", "1");
    }
    command.args(["--target", TARGET, "--workspace", "--all-targets", "--target-dir"]).arg(target);
    command.env("RUSTC", &toolchain.rustc).env("CC_aarch64_apple_darwin", compiler);
    // rustup sets these for the toolchain that started this command, which may be a different one.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTDOC");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_the_bindings() {
        let text = config_text(Path::new("/home/o\"brien/native")).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let mlx = &table["target"][TARGET]["mlx"];
        assert_eq!(mlx["rustc-env"]["OUT_DIR"].as_str(), Some("/home/o\"brien/native"));
    }

    /// Runs the check in a project whose Cargo is a script that notes how it was called and ends with `code`.
    #[cfg(unix)]
    fn check_with(std: StdSource, code: u8) -> (MacosCheck, String) {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let (cargo, notes) = (home.path().join("cargo"), home.path().join("notes"));
        let script = format!(
            "#!/bin/sh\n{{ echo \"$@\"; echo \"$RUSTC $CC_aarch64_apple_darwin ${{RUSTC_BOOTSTRAP-none}}\"; }} > '{}'\nexit {code}\n",
            notes.display()
        );
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let toolchain = Toolchain { cargo, rustc: "/r/rustc".into(), version: "rustc 1.99.0".into(), std };
        let (bindings, compiler) = (Path::new("/native"), Path::new("/cc"));
        let checked = check(home.path(), &toolchain, bindings, compiler, home.path()).unwrap();
        let notes = fs::read_to_string(notes).unwrap();
        (checked, notes.replace(&home.path().display().to_string(), "HOME"))
    }

    #[cfg(unix)]
    #[test]
    fn the_standard_library_is_built_only_where_it_is_not_installed() {
        let rest = "--target aarch64-apple-darwin --workspace --all-targets --target-dir HOME/target";
        let (_, notes) = check_with(StdSource::Prebuilt, 0);
        assert_eq!(notes, format!("--config HOME/config.toml check {rest}\n/r/rustc /cc none\n"));
        let (_, notes) = check_with(StdSource::Sources, 0);
        let build_std = "-Zbuild-std=std,panic_abort,test";
        assert_eq!(notes, format!("--config HOME/config.toml check {build_std} {rest}\n/r/rustc /cc 1\n"));
    }

    #[cfg(unix)]
    #[test]
    fn only_a_check_that_passed_counts() {
        assert!(check_with(StdSource::Prebuilt, 0).0.passed);
        for code in [1, 101] {
            let (failed, _) = check_with(StdSource::Sources, code);
            assert!(!failed.passed, "{failed:?}");
        }
    }
}
