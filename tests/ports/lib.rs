//! Ports of models to mlx-rs, as an application would have them, with taps for the parity suite.

pub mod flow_match;
pub mod flux;
pub mod gated_mlp;
pub mod gemma;
pub mod quantized;
pub mod qwen3;
pub mod qwen_image;
pub mod routing;
pub mod training;
