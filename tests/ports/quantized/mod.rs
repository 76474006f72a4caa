//! Quantised layers.

pub mod linear;
