//! Parts of Qwen-Image.

pub mod vision;
