//! Greedy decoding: the most probable token of each step, with a KV cache.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis};
use mlx_rs::{Array, Dtype};

use super::Qwen3;

impl Qwen3 {
    /// Generates `count` tokens after a prompt `[batch, tokens]`, and taps the logits and the token of each step.
    pub fn greedy(&mut self, prompt: &Array, count: usize) -> Result<Vec<Array>, Exception> {
        let mut cache = self.new_cache();
        let mut logits = tap("prompt.logits", self.forward(prompt, &mut cache)?)?;
        let mut chosen = Vec::with_capacity(count);
        for step in 0..count {
            let _scope = scope("step", step);
            let last = tap("logits", logits.try_index((.., -1, ..))?)?;
            // `tap` may return the reference's token, which the next step must continue with.
            let token = tap("token", argmax_axis(&last, -1, false)?.as_dtype(Dtype::Int32)?)?;
            if step + 1 < count {
                logits = self.forward(&token.expand_dims(1)?, &mut cache)?;
            }
            chosen.push(token);
        }
        Ok(chosen)
    }
}
