//! What can be in the way of a set-up, and what to do about each.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::cli::python::PythonError;

/// Why this machine could not be made ready.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error("mlx-rs runs on macOS and Linux, not on {found}")]
    UnknownOs { found: &'static str },
    #[error("MLX has wheels for Linux on x86_64 and aarch64, not on {found}")]
    UnknownArch { found: String },
    #[error("`{path}` is not there, so the version of mlx-sys is not known")]
    NoLock { path: PathBuf },
    #[error("`{lock}` has no mlx-sys")]
    NoMlxSys { lock: PathBuf },
    #[error("mlx-sys {found} is not known to this version of mlx-parity, which knows {known}")]
    UnknownMlxSys { found: String, known: &'static str },
    #[error("the mlx-c of this mlx-sys is written against MLX {found}, but the pinned wheel is MLX {wanted}")]
    MlxVersion { found: String, wanted: String },
    #[error("`{path}` does not include the configuration that set-up writes")]
    NotIncluded { path: PathBuf, include: &'static str },
    #[error("cannot read `{path}`: {source}")]
    Config { path: PathBuf, source: Box<toml::de::Error> },
    #[error("`cargo metadata` failed: {said}")]
    Metadata { said: String },
    #[error("no C++ compiler was found (tried {tried})")]
    NoCompiler { tried: String },
    #[error("no C++ compiler here knows C++20 with half-precision floats; found {found}")]
    OldCompiler { found: String },
    #[error("MLX's wheel needs {wanted}, but this machine has {found}")]
    OldLibc { found: String, wanted: String },
    #[error(transparent)]
    Python(#[from] PythonError),
    #[error("pip fetched no wheel for {requirement}")]
    NoWheel { requirement: String },
    #[error("`{file}` has SHA-256 {found}, but {wanted} is pinned")]
    Checksum { file: String, found: String, wanted: &'static str },
    #[error("cannot unpack `{file}`")]
    Unpack { file: PathBuf, source: zip::result::ZipError },
    #[error("{compiler} could not compile mlx-c: {said}")]
    Compile { compiler: String, said: String },
    #[error("bindgen could not read mlx-c's headers: {said}")]
    Bindings { said: String },
    #[error("`{command}` does not answer")]
    AppleTool { command: String, next: &'static str },
    #[error("`{path}` is not valid Unicode, and Cargo's configuration must be")]
    Unicode { path: PathBuf },
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

impl SetupError {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    /// What the user can do about it.
    pub(crate) fn next(&self) -> Option<String> {
        const AGAIN: &str = "then run `cargo xtask setup` again";
        Some(match self {
            Self::UnknownOs { .. } | Self::UnknownArch { .. } => {
                "use macOS on Apple silicon, or Linux on x86_64 or aarch64; `cargo test -p mlx-parity \
                 --no-default-features` needs no MLX"
                    .into()
            }
            Self::NoLock { .. } => format!("run `cargo generate-lockfile`, {AGAIN}"),
            Self::NoMlxSys { .. } => {
                format!("add mlx-rs (0.33, `default-features = false`) to the workspace, {AGAIN}")
            }
            Self::UnknownMlxSys { .. } | Self::MlxVersion { .. } => {
                "use mlx-rs 0.33, or an mlx-parity that knows the newer one".into()
            }
            Self::NotIncluded { path, include } => format!(
                "put `include = [{{ path = \"{include}\", optional = true }}]` at the top of `{}`, {AGAIN}",
                path.display()
            ),
            Self::Config { path, .. } => format!("mend `{}`, {AGAIN}", path.display()),
            Self::Metadata { .. } => {
                format!("see that `cargo metadata --locked` works (network, Cargo.lock up to date), {AGAIN}")
            }
            Self::NoCompiler { .. } | Self::OldCompiler { .. } => format!(
                "install g++ 12 or newer (Debian, Ubuntu: `sudo apt install g++`; Fedora: `sudo dnf install \
                 gcc-c++`) or name a compiler in CXX, {AGAIN}"
            ),
            Self::OldLibc { .. } => {
                "use a newer system (Ubuntu 22.04, Debian 12, Fedora 36 or later; not Alpine)".into()
            }
            Self::Python(error) => return error.next(),
            Self::NoWheel { .. } => format!("see that pip can fetch wheels for this Python, {AGAIN}"),
            Self::Checksum { .. } => format!(
                "do not use that file: see which index or mirror pip reads (`python3 -m pip config list`), {AGAIN}"
            ),
            Self::Unpack { .. } | Self::Read { .. } | Self::Write { .. } => {
                format!("see that the disk has space (350 MB) and the folder can be written, {AGAIN}")
            }
            Self::Compile { .. } | Self::Bindings { .. } => {
                format!("see that the compiler and its headers are whole (CXX names another), {AGAIN}")
            }
            Self::AppleTool { next, .. } => format!("{next}, {AGAIN}"),
            Self::Unicode { .. } => format!("move the checkout to a path of plain characters, {AGAIN}"),
        })
    }
}
