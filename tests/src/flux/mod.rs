//! Flux: text to image by a rectified flow.

pub mod transformer;
pub mod vae;
