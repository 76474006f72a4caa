//! Proves, checkpoint by checkpoint, that an mlx-rs port computes what its reference computes.

mod class;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compare;
pub mod golden;
mod hash;
pub mod report;
pub mod spec;
pub mod tensor;

pub use class::Class;
