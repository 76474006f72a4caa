//! Qwen3, the dense text decoder: RMSNorm, grouped-query attention with normed queries and keys, gated MLP.
//!
//! Ported from `transformers.models.qwen3.modeling_qwen3`; parameters have the names of published checkpoints.

mod attention;
mod greedy;
mod layer;
mod rope;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis, topk_axis};
use mlx_rs::{Array, Dtype, nn};
use serde::Deserialize;

pub use attention::{Attention, KvCache};
pub use layer::{Layer, Mlp};
pub use rope::{Rope, rotate};

/// The keys of a published `config.json` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token between layers.
    pub hidden_size: i32,
    /// Features inside the MLP.
    pub intermediate_size: i32,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Number of query heads.
    pub num_attention_heads: i32,
    /// Number of key heads; several query heads share one.
    pub num_key_value_heads: i32,
    /// Features per head, which is not `hidden_size / num_attention_heads`.
    pub head_dim: i32,
    /// Epsilon of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Whether the head shares the weight of the token embedding.
    pub tie_word_embeddings: bool,
}

/// The model with its head: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Qwen3 {
    /// The model without its head.
    #[param]
    pub model: Decoder,
    /// The head; none if it shares the weight of the embedding.
    #[param]
    pub lm_head: Option<nn::Linear>,
}

/// The model without its head: token ids to features.
#[derive(Debug, ModuleParameters)]
pub struct Decoder {
    /// Token embedding.
    #[param]
    pub embed_tokens: nn::Embedding,
    /// Layers in order.
    #[param]
    pub layers: Vec<Layer>,
    /// Norm after the last layer.
    #[param]
    pub norm: nn::RmsNorm,
    /// Rotary positions.
    pub rope: Rope,
}

/// The choice of greedy decoding, per sequence of a batch.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The likeliest token, `[batch]`.
    pub token: Array,
    /// How much its logit exceeds the next one, `[batch]`. A margin below rounding decides nothing.
    pub margin: Array,
}

impl Qwen3 {
    /// Creates a model. Its parameters still have to be loaded.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let (vocab, dim) = (config.vocab_size, config.hidden_size);
        let head = || nn::LinearBuilder::new(dim, vocab).bias(false).build();
        Ok(Self {
            model: Decoder {
                embed_tokens: nn::Embedding::new(vocab, dim)?,
                layers: (0..config.num_hidden_layers)
                    .map(|_| Layer::new(config))
                    .collect::<Result<_, _>>()?,
                norm: norm(dim, config.rms_norm_eps)?,
                rope: Rope::new(config.head_dim, config.rope_theta),
            },
            lm_head: if config.tie_word_embeddings { None } else { Some(head()?) },
        })
    }

    /// An empty cache for one batch of sequences.
    pub fn new_cache(&self) -> Vec<KvCache> {
        self.new_padded_cache(&[])
    }

    /// An empty cache for a batch whose sequences are filled up on the left, each by so many tokens.
    pub fn new_padded_cache(&self, padding: &[i32]) -> Vec<KvCache> {
        vec![KvCache::padded(padding); self.model.layers.len()]
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]` after those in the cache, and caches them.
    pub fn forward(&mut self, tokens: &Array, cache: &mut [KvCache]) -> Result<Array, Exception> {
        let hidden = self.model.forward(tokens, cache)?;
        let logits = match &mut self.lm_head {
            Some(head) => head.forward(&hidden)?,
            None => self.model.embed_tokens.as_linear(&hidden)?,
        };
        tap("lm_head", logits)
    }

    /// Generates `count` tokens after a prompt `[batch, tokens]`, always the likeliest: `[batch]` each.
    ///
    /// The prompt takes one forward pass, and so does each further token.
    pub fn generate(&mut self, prompt: &Array, count: usize) -> Result<Vec<Array>, Exception> {
        let mut cache = self.new_cache();
        self.generate_with(prompt, &mut cache, count)
    }

    /// Generates as [`Qwen3::generate`] does, with this cache.
    pub fn generate_with(
        &mut self,
        prompt: &Array,
        cache: &mut [KvCache],
        count: usize,
    ) -> Result<Vec<Array>, Exception> {
        let mut tokens = prompt.clone();
        let mut chosen = Vec::with_capacity(count);
        for step in 0..count {
            let _scope = scope("step", step);
            let choice = choose(&self.forward(&tokens, cache)?)?;
            tokens = choice.token.expand_dims(1)?;
            chosen.push(choice.token);
        }
        Ok(chosen)
    }
}

impl Decoder {
    fn forward(&mut self, tokens: &Array, cache: &mut [KvCache]) -> Result<Array, Exception> {
        let start = cache.first().map_or(0, KvCache::len);
        let padding =
            cache.first().map(KvCache::padding).filter(|padding| !padding.is_empty()).unwrap_or(&[0]);
        let mut x = tap("embed_tokens", self.embed_tokens.forward(tokens)?)?;
        let (cos, sin) = self.rope.padded_tables(start..start + tokens.dim(1), padding, x.dtype())?;
        // One table for all heads of a sequence.
        let tables = (tap("rope.cos", cos)?.expand_dims(1)?, tap("rope.sin", sin)?.expand_dims(1)?);
        for (i, (layer, cache)) in self.layers.iter_mut().zip(cache).enumerate() {
            let _scope = scope("layers", i);
            x = layer.forward(&x, &tables, cache)?;
        }
        tap("norm", self.norm.forward(&x)?)
    }
}

/// The likeliest token after the last of `[batch, tokens, vocab]` logits.
pub fn choose(logits: &Array) -> Result<Choice, Exception> {
    let last = logits.try_index((.., -1, ..))?;
    // The two largest come in any order.
    let best = topk_axis(&last, 2, -1)?;
    let margin = tap("margin", best.max_axis(-1, false)?.subtract(best.min_axis(-1, false)?)?)?;
    let token = tap("token", argmax_axis(&last, -1, false)?.as_dtype(Dtype::Int32)?)?;
    Ok(Choice { token, margin })
}

/// RMSNorm with the eps of the config; the default of mlx-rs is 1e-5.
fn norm(dim: i32, eps: f32) -> Result<nn::RmsNorm, Exception> {
    nn::RmsNormBuilder::new(dim).eps(eps).build()
}
