//! Tensors, gates, and the comparison of two tensors: every loop of mlx-parity that passes over the elements of a golden.
//!
//! A crate of its own, because only these loops need an optimised build, and optimising all of `mlx-parity-core` takes
//! minutes. `mlx-parity-core` re-exports every module; depend on `mlx-parity` or `mlx-parity-cli` instead.
//!
//! Later modules build on earlier ones:
//!
//! ```text
//! text, number, files -> tensor, gate -> compare
//! ```

// First, since its macros replace those of the standard library in all modules that follow.
#[macro_use]
pub mod text;

pub mod compare;
pub mod files;
pub mod gate;
pub mod number;
pub mod tensor;
