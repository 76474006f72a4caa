//! A Rust toolchain on this machine that can compile for macOS.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use super::TARGET;
use crate::rustc::{is_new_enough, rust_version};

/// Where the standard library for macOS comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdSource {
    /// It is installed.
    Prebuilt,
    /// Cargo builds it from its sources (`-Zbuild-std`).
    Sources,
}

/// A compiler and the Cargo beside it.
#[derive(Debug, Clone)]
pub(super) struct Toolchain {
    pub(super) cargo: PathBuf,
    pub(super) rustc: PathBuf,
    /// The line that `rustc --version` prints.
    pub(super) version: String,
    pub(super) std: StdSource,
}

/// No toolchain can compile for macOS.
#[derive(Debug, Error)]
#[error("no Rust here can compile for {TARGET}: {}", found.join("; "))]
pub(crate) struct ToolchainError {
    /// Each toolchain, and what it lacks.
    found: Vec<String>,
}

impl ToolchainError {
    pub(super) fn next(&self) -> String {
        format!(
            "run `rustup target add {TARGET}`, or install a Rust with the sources of its standard library (`rustup component \
             add rust-src`; Debian: `sudo apt update && sudo apt install rustc-web cargo-web rust-web-src`), then rerun the \
             command"
        )
    }
}

impl Toolchain {
    /// Returns the first toolchain that is new enough for the project in `root` and has the target installed, or else the
    /// first that has the sources of the standard library.
    ///
    /// The toolchain that runs this command comes first, then those on the path.
    pub(super) fn find(root: &Path) -> Result<Self, ToolchainError> {
        let oldest = rust_version(root);
        let (mut usable, mut lacking) = (Vec::new(), Vec::new());
        let mut sysroots = BTreeSet::new();
        for rustc in candidates() {
            let Some((version, sysroot)) = asked(&rustc, root) else { continue };
            // A proxy of rustup and the compiler that it starts are one toolchain.
            if !sysroots.insert(sysroot.clone()) {
                continue;
            }
            match judged(&rustc, &version, &sysroot, oldest.as_deref()) {
                Ok(toolchain) => usable.push(toolchain),
                Err(lacks) => lacking.push(format!("{version} in `{}` {lacks}", sysroot.display())),
            }
        }
        usable.sort_by_key(|toolchain| toolchain.std != StdSource::Prebuilt);
        if lacking.is_empty() {
            lacking.push("no `rustc` is on the path".to_owned());
        }
        usable.into_iter().next().ok_or(ToolchainError { found: lacking })
    }
}

/// Paths at which a compiler may be: where the environment names one, beside the Cargo that runs this, on the path.
fn candidates() -> Vec<PathBuf> {
    let beside_cargo =
        std::env::var_os("CARGO").and_then(|cargo| Some(Path::new(&cargo).parent()?.join("rustc")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("rustc"));
    let named = std::env::var_os("RUSTC").map(PathBuf::from);
    named.into_iter().chain(beside_cargo).chain(on_path).filter(|path| path.is_file()).collect()
}

/// The version line and the sysroot of a compiler; none if it does not run.
fn asked(rustc: &Path, root: &Path) -> Option<(String, PathBuf)> {
    let ask = |arguments: &[&str]| {
        let output = Command::new(rustc).args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    Some((ask(&["--version"])?, ask(&["--print", "sysroot"])?.into()))
}

/// The toolchain of a compiler, or what it lacks.
fn judged(rustc: &Path, version: &str, sysroot: &Path, oldest: Option<&str>) -> Result<Toolchain, String> {
    if let Some(oldest) = oldest.filter(|oldest| !is_new_enough(version, oldest)) {
        return Err(format!("is older than {oldest}"));
    }
    // In a sysroot of rustup both programs are real ones; Debian's have their sysroot in `/usr`, and are in `/usr/bin`.
    let program = |name: &str| {
        let folders = [Some(sysroot.join("bin")), rustc.parent().map(Path::to_owned)];
        folders.into_iter().flatten().map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    let Some(cargo) = program("cargo") else { return Err("has no Cargo beside it".to_owned()) };
    let library = sysroot.join("lib/rustlib");
    let std = if library.join(TARGET).join("lib").is_dir() {
        StdSource::Prebuilt
    } else if library.join("src/rust/library/std/Cargo.toml").is_file() {
        StdSource::Sources
    } else {
        return Err("has neither that target nor the sources of the standard library".to_owned());
    };
    let rustc = program("rustc").unwrap_or_else(|| rustc.to_owned());
    Ok(Toolchain { cargo, rustc, version: version.to_owned(), std })
}
