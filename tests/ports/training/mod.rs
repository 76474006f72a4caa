//! Training as torch does it: AdamW, the loss of a language model, and LoRA.

mod adamw;
mod lora;
mod loss;

pub use adamw::{AdamW, Moments};
pub use lora::{LoraConfig, LoraLinear, LoraModel};
pub use loss::next_token_loss;
