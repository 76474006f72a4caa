//! Flux: text to image by a rectified flow.

mod load;
pub mod pipeline;
pub mod transformer;
pub mod vae;

pub use load::load;
//! The parts of Flux.

pub mod clip;
pub mod t5;
