//! Ports of models to mlx-rs, as an application would have them, with taps for the parity suite.

pub mod audio;
pub mod cache;
pub mod flow_match;
pub mod flux;
pub mod gated_mlp;
pub mod gemma;
pub mod image;
pub mod mamba;
pub mod mistral;
pub mod quantized;
pub mod qwen2_moe;
pub mod qwen3;
pub mod qwen_image;
pub mod routing;
pub mod text;
pub mod training;
