//! The parts of Flux.

pub mod t5;
