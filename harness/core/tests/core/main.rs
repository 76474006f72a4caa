//! Tests that need neither MLX nor a child process: comparing, specs, tensor files, diagnosis and fixture sets. One folder per module
//! of the library.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod compare;
mod diagnose;
mod golden;
mod module_graph;
mod public_names;
mod replay;
mod report;
mod spec;
mod tensor;

use std::path::{Path, PathBuf};

/// This repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A file below `data/`, which lies beside this folder.
fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}
