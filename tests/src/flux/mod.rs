//! Flux: text to image by a rectified flow.

pub mod vae;
