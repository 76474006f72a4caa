//! Proves, checkpoint by checkpoint, that an mlx-rs port computes what its reference computes.

// Each feature uses a part of what they share; the build with both tells what nobody uses.
#![cfg_attr(not(all(feature = "cli", feature = "mlx")), allow(dead_code, unused_imports))]

// First, since its macros take the place of the standard library's in all that follows.
#[macro_use]
mod printable;

mod atomic;
mod ci;
mod class;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compare;
pub mod diagnose;
pub mod golden;
mod hash;
mod identity;
mod near;
pub mod record;
mod regular;
pub mod report;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod root;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod run;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod settings;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod size;
pub mod spec;
#[cfg(feature = "mlx")]
mod suite;
pub mod tensor;

pub use class::Class;
#[cfg(any(feature = "cli", feature = "mlx"))]
pub use run::CatalogueError;
#[cfg(feature = "mlx")]
pub use run::{ArrayError, PortResult, Run, RunError, WeightSet};
#[cfg(feature = "mlx")]
pub use suite::Suite;
