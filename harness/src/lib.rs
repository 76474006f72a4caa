//! Proves, checkpoint by checkpoint, that an mlx-rs port computes what its reference computes.

mod class;
pub mod compare;
pub mod record;
pub mod tensor;

pub use class::Class;
