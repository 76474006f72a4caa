//! Ports of models to mlx-rs, as an application would have them, with taps where the parity suite looks.

pub mod flow_match;
pub mod flux;
pub mod gated_mlp;
pub mod qwen3;
pub mod qwen_image;
