//! The parts of Flux.

pub mod clip;
pub mod t5;
