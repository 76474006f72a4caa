//! The parts of mlx-parity that need neither MLX nor child processes: specs, goldens, comparison, diagnosis, results
//! and reports.
//!
//! This crate serves `mlx-parity` and `mlx-parity-cli`, which re-export what a porter needs. Its API follows their
//! needs and makes no promise of its own; depend on those two instead.
//!
//! Later modules build on earlier ones:
//!
//! ```text
//! text, number, ci, files, root -> tensor, gate -> compare, details, external -> spec, recipe -> golden -> replay, diagnose, settings, weights, calculate
//!   -> renames, record -> approval, debug -> run_folder -> runs, preflight, mutation -> results -> report
//! ```

// Its macros replace those of the standard library.
#[macro_use]
extern crate mlx_parity_tensor;

pub use mlx_parity_tensor::{compare, eprint, eprintln, files, gate, number, print, println, tensor, text};

pub mod approval;
pub mod calculate;
pub mod ci;
pub mod debug;
pub mod details;
pub mod diagnose;
pub mod external;
pub mod golden;
pub mod mutation;
pub mod preflight;
pub mod recipe;
pub mod record;
pub mod renames;
pub mod replay;
pub mod report;
pub mod results;
pub mod root;
pub mod run_folder;
pub mod runs;
pub mod settings;
pub mod spec;
pub mod weights;
