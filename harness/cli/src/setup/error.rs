//! Why a set-up fails, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::CommandError;
use crate::python::PythonError;

/// Why this machine could not be made ready.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error("mlx-rs runs on macOS and Linux, not on {found}")]
    UnknownOs { found: &'static str },
    #[error("MLX has wheels for Linux on x86_64 and aarch64, not on {found}")]
    UnknownArch { found: String },
    #[error("`{path}` does not exist, so the version of mlx-sys is unknown")]
    NoLock { path: PathBuf },
    #[error("`{lock}` has no mlx-sys")]
    NoMlxSys { lock: PathBuf },
    #[error("mlx-sys {found} is not supported by this version of mlx-parity, which supports {known}")]
    UnknownMlxSys { found: String, known: &'static str },
    #[error("the mlx-c of this mlx-sys is written against MLX {found}, but the pinned wheel is MLX {wanted}")]
    MlxVersion { found: String, wanted: String },
    #[error("`{path}` does not include the configuration that set-up writes")]
    NotIncluded { path: PathBuf, include: &'static str },
    #[error("cannot read `{path}`: {source}")]
    Config { path: PathBuf, source: Box<toml::de::Error> },
    #[error("`cargo metadata` failed: {reason}")]
    Metadata { reason: String },
    #[error("no C++ compiler was found (tried {tried})")]
    NoCompiler { tried: String },
    #[error("no C++ compiler here supports C++20 with half-precision floats; found {found}")]
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
    #[error("{compiler} could not compile mlx-c: {reason}")]
    Compile { compiler: String, reason: String },
    #[error("bindgen could not read mlx-c's headers: {reason}")]
    Bindings { reason: String },
    #[error("`{command}` fails")]
    AppleTool { command: String, next: &'static str },
    #[error("`{home}` was set up, but has no readable `state.json`")]
    NoState { home: PathBuf },
    #[error("the path `{path}` is not valid Unicode, so Cargo's configuration cannot contain it")]
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
}

impl CommandError for SetupError {
    fn next(&self) -> Option<String> {
        const AGAIN: &str = "then run `cargo xtask setup` again";
        Some(match self {
            Self::UnknownOs { .. } | Self::UnknownArch { .. } => {
                "use macOS on Apple silicon, or Linux on x86_64 or aarch64; `cargo test -p mlx-parity-core` needs no MLX"
                    .into()
            }
            Self::NoLock { .. } => format!(
                "run `cargo xtask init` if this project is not prepared yet; otherwise run `cargo generate-lockfile`, {AGAIN}"
            ),
            Self::NoMlxSys { .. } => {
                format!(
                    "run `cargo xtask init`, which adds mlx-rs (0.33, `default-features = false`) and the rest, {AGAIN}"
                )
            }
            Self::UnknownMlxSys { .. } | Self::MlxVersion { .. } => {
                "use mlx-rs 0.33, or an mlx-parity that supports the newer one".into()
            }
            Self::NotIncluded { path, include } => format!(
                "put `include = [{{ path = \"{include}\", optional = true }}]` at the top of `{}`, {AGAIN}",
                path.display()
            ),
            Self::Config { path, .. } => format!("fix `{}`, {AGAIN}", path.display()),
            Self::Metadata { .. } => {
                format!("make sure that `cargo metadata --locked` works (network, Cargo.lock up to date), {AGAIN}")
            }
            Self::NoCompiler { .. } | Self::OldCompiler { .. } => format!(
                "install g++ 12 or newer (Debian, Ubuntu: `sudo apt install g++`; Fedora: `sudo dnf install \
                 gcc-c++`) or name a compiler in CXX, {AGAIN}"
            ),
            Self::OldLibc { .. } => {
                "use a newer system (Ubuntu 22.04, Debian 12, Fedora 36 or later; not Alpine)".into()
            }
            Self::Python(error) => return error.next(),
            Self::NoWheel { .. } => format!("make sure that pip can fetch wheels for this Python, {AGAIN}"),
            Self::Checksum { .. } => format!(
                "do not use that file: check which index or mirror pip reads (`python3 -m pip config list`), {AGAIN}"
            ),
            Self::Unpack { .. } | Self::Read { .. } | Self::Write { .. } => {
                format!("make sure that the disk has space (350 MB) and the folder is writable, {AGAIN}")
            }
            Self::Compile { .. } | Self::Bindings { .. } => {
                format!("make sure that the compiler and its headers are complete (CXX selects another), {AGAIN}")
            }
            Self::AppleTool { next, .. } => format!("{next}, {AGAIN}"),
            Self::NoState { home } => format!("remove `{}`, {AGAIN}", home.display()),
            Self::Unicode { .. } => format!("move the checkout to a path that is valid Unicode, {AGAIN}"),
        })
    }
}
