//! Flux: text to image by a rectified flow.

pub mod clip;
mod load;
pub mod pipeline;
pub mod t5;
pub mod transformer;
pub mod vae;

pub use load::load;
