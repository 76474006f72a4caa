//! The commands of mlx-parity: the program `cargo parity`, and the same commands as `cargo xtask`. Needs no MLX to build.
//!
//! # `cargo parity`
//!
//! Once installed (the README has the command), the program works in every Cargo project. It finds the workspace around
//! the current folder. Without any setting, specs are in `parity-specs`, fixtures are in `fixtures`, and the suite is the
//! test target `parity`. To change these, set them in the workspace's `Cargo.toml`, relative to its root; a single package
//! uses `[package.metadata.parity]`:
//!
//! ```toml
//! [workspace.metadata.parity]
//! specs = "parity-specs"             # folder of the specs
//! fixtures = "fixtures"              # folder of the goldens, inputs and weights
//! suite = "parity"                   # test target that is the parity suite
//! exporter = "exporter"              # Python exporter of the project, with tests; default: the one in this program
//! references = "exporter/references" # locked environments of reference scripts; this is the default if it exists
//! fault_bench = { file = "tests/faults.yaml", package = "parity-tests", binary = "bad_ports" } # default: none
//! setup = true                       # whether commands set up MLX before they need it
//! ```
//!
//! # `cargo xtask`
//!
//! To pin the version of the commands in `Cargo.lock`, add an `xtask` crate instead. Its `main` names the roots, or reads
//! the same table with [`Project::from_manifest`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use mlx_parity_cli::Project;
//!
//! fn main() -> ExitCode {
//!     Project::new("..", "parity-specs", "fixtures").main()
//! }
//! ```

#[macro_use]
extern crate mlx_parity_core;

mod accept;
mod as_cargo_parity;
mod ask;
mod bisect;
mod bundled_exporter;
mod cargo;
mod check_macos;
mod clean;
mod commands;
pub mod debug;
mod diagnose;
mod diff;
mod doctor;
mod error;
mod fault_bench;
mod find_run;
mod find_spec;
mod fixtures;
#[cfg(test)]
mod git_revision;
mod github;
mod guard;
mod init;
pub mod inspect;
mod lint;
mod list;
mod live;
mod manifest;
mod merge;
mod mlx_rs_versions;
mod mutate;
mod new_spec;
mod output;
mod pack;
mod parity;
mod process_output;
mod progress_text;
mod project;
mod python;
mod references;
mod refused;
mod regenerate;
mod report;
mod rustc;
mod script;
pub mod serve;
mod setup;
mod shapes;
mod show;
mod skill;
mod status;
mod steps;
mod suite_target;
mod test;
mod tighten;
mod tutorial;
mod weights;
mod workspace;
mod zipped_run;

pub use commands::cargo_parity;
pub use error::CommandProblem;
pub use project::Project;

use error::CliError;
use output::say;
