//! Parts of Qwen-Image.

pub mod transformer;
pub mod vision;
