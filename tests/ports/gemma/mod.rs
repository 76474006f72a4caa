//! Gemma 2, the dense text decoder: scaled embeddings, RMSNorm before and after each part, grouped-query attention with
//! capped scores, in a sliding window in every second layer, gated MLP with GELU, and a tied head with capped logits.
//!
//! Ported from `transformers.models.gemma2.modeling_gemma2`, for float32 and bfloat16; parameters have the names of
//! published checkpoints.

mod attention;
mod layer;
mod norm;
mod numeric;

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

use crate::qwen3::{Rope, choose};
pub use attention::{Attention, KvCache, visible};
pub use layer::{Layer, Mlp};
pub use norm::Norm;
pub use numeric::{capped, gelu, scaled};

/// The keys of a published `config.json` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token between layers.
    pub hidden_size: i32,
    /// Features inside the MLP.
    pub intermediate_size: i32,
    /// Number of query heads.
    pub num_attention_heads: i32,
    /// Number of key heads; several query heads share one.
    pub num_key_value_heads: i32,
    /// Features per head, which is not `hidden_size / num_attention_heads`.
    pub head_dim: i32,
    /// Scores are divided by the root of this, which is not always `head_dim`.
    pub query_pre_attn_scalar: f32,
    /// Bound of scores, which they approach as a hyperbolic tangent does.
    pub attn_logit_softcapping: f32,
    /// Bound of logits.
    pub final_logit_softcapping: f32,
    /// Kind of each layer's attention.
    pub layer_types: Vec<LayerType>,
    /// Number of tokens that a query sees in a layer with a sliding window, its own included.
    pub sliding_window: i32,
    /// Epsilon of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
}

/// The kind of a layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerType {
    /// A query sees the last tokens only.
    SlidingAttention,
    /// A query sees all earlier tokens.
    FullAttention,
}

impl Config {
    /// The window of layer `index`, if it has one.
    pub fn window(&self, index: usize) -> Option<i32> {
        match self.layer_types[index] {
            LayerType::SlidingAttention => Some(self.sliding_window),
            LayerType::FullAttention => None,
        }
    }
}

/// The model with its head, which shares the weight of the embedding: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Gemma {
    /// The model without its head.
    #[param]
    pub model: Decoder,
    /// Bound of logits.
    pub final_cap: f32,
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
    pub norm: Norm,
    /// Rotary positions.
    pub rope: Rope,
}

impl Gemma {
    /// Creates a model. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let layer = |index| Layer::new(config, config.window(index));
        Ok(Self {
            model: Decoder {
                embed_tokens: nn::Embedding::new(config.vocab_size, config.hidden_size)?,
                layers: (0..config.layer_types.len()).map(layer).collect::<Result<_, _>>()?,
                norm: Norm::new(config.hidden_size, config.rms_norm_eps)?,
                rope: Rope::new(config.head_dim, config.rope_theta),
            },
            final_cap: config.final_logit_softcapping,
        })
    }

    /// An empty cache for one batch of sequences.
    pub fn new_cache(&self) -> Vec<KvCache> {
        self.model.layers.iter().map(|layer| KvCache::new(layer.self_attn.window)).collect()
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]` after those in the cache, and caches them.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, tokens: &Array, cache: &mut [KvCache]) -> Result<Array, Exception> {
        let hidden = self.model.forward(tokens, cache)?;
        let logits = tap("lm_head", self.model.embed_tokens.as_linear(&hidden)?)?;
        tap("logits", capped(&logits, self.final_cap)?)
    }

    /// Generates `count` tokens after a prompt `[batch, tokens]`, always the likeliest: `[batch]` each.
    ///
    /// The prompt takes one forward pass, and so does each further token.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn generate(&mut self, prompt: &Array, count: usize) -> Result<Vec<Array>, Exception> {
        let mut cache = self.new_cache();
        let mut tokens = prompt.clone();
        let mut chosen = Vec::with_capacity(count);
        for step in 0..count {
            let _scope = scope("step", step);
            let choice = choose(&self.forward(&tokens, &mut cache)?)?;
            tokens = choice.token.expand_dims(1)?;
            chosen.push(choice.token);
        }
        Ok(chosen)
    }
}

impl Decoder {
    fn forward(&mut self, tokens: &Array, cache: &mut [KvCache]) -> Result<Array, Exception> {
        let start = cache.first().map_or(0, KvCache::seen);
        let mut x = tap("embed_tokens", self.embed(tokens)?)?;
        let (cos, sin) = self.rope.tables(start..start + tokens.dim(1), x.dtype())?;
        let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
        for (i, (layer, cache)) in self.layers.iter_mut().zip(cache).enumerate() {
            let _scope = scope("layers", i);
            x = layer.forward(&x, &tables, cache)?;
        }
        tap("norm", self.norm.forward(&x)?)
    }

    /// Embeddings times the root of their length, which is rounded to the dtype of the weights first.
    fn embed(&mut self, tokens: &Array) -> Result<Array, Exception> {
        let embedded = self.embed_tokens.forward(tokens)?;
        let scale = Array::from_f32((embedded.dim(-1) as f32).sqrt()).as_dtype(embedded.dtype())?;
        embedded.multiply(scale)
    }
}
