//! Tests that an mlx-rs port computes the same tensors as its reference, checkpoint by checkpoint.
//!
//! A test binary with `harness = false` registers its ports in a [`Suite`]. A spec in YAML names a port and the
//! checkpoints to compare. A fixture set holds the goldens, which the reference made. The suite has one test per
//! checkpoint:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use mlx_parity::Suite;
//! use mlx_parity_tap::tap;
//!
//! fn main() -> ExitCode {
//!     // The project's root, relative to this package; then its folders of specs and fixtures.
//!     Suite::new("..", "parity-specs", "fixtures")
//!         .port("my_model::block", |run| {
//!             let x = run.input("x")?;
//!             let weight = run.weights()?.get("linear.weight")?;
//!             tap("out", x.matmul(weight.t())?)?;
//!             Ok(())
//!         })
//!         .main()
//! }
//! ```
//!
//! - [`Suite`] lists and runs the tests for `cargo test` and `cargo nextest`.
//! - [`Run`] gives a port its inputs, weights and parameters. It records which inputs the port used.
//! - [`WeightSet`] loads weights strictly and records which weights the port used.
//! - Model code calls `tap` and `scope` from the crate `mlx-parity-tap`.
//!
//! [`assert_close`] compares a single array with a file, in any Rust test.
//!
//! The commands (`cargo parity`, `cargo xtask`) are in the crate `mlx-parity-cli`.

#[macro_use]
extern crate mlx_parity_core;

mod close;
mod suite;
mod worker;

pub use close::{CloseError, assert_close};
pub use mlx_parity_core::weights::WeightIndexError;
pub use suite::Suite;
pub use worker::{ArrayError, PortResult, Run, RunError, WeightSet};
