//! Mistral, the dense text decoder with a sliding window: RMSNorm, grouped-query attention, gated MLP, and a cache that rotates.
//!
//! Ported from `transformers.models.mistral.modeling_mistral`; parameters have the names of published checkpoints.

mod attention;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

use crate::cache::{Cache, RotatingCache};
use crate::qwen3::{Mlp, Rope, choose};
pub use attention::{Attention, Sizes, for_each_query_head, visible};

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
    /// Features per head.
    pub head_dim: i32,
    /// Number of tokens that a query sees, its own included.
    pub sliding_window: i32,
    /// Epsilon of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
}

/// The model with its head: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Mistral {
    /// The model without its head.
    #[param]
    pub model: Decoder,
    /// The head.
    #[param]
    pub lm_head: nn::Linear,
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

/// Attention and MLP, each with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct Layer {
    /// Norm before attention.
    #[param]
    pub input_layernorm: nn::RmsNorm,
    /// Attention.
    #[param]
    pub self_attn: Attention,
    /// Norm before the MLP.
    #[param]
    pub post_attention_layernorm: nn::RmsNorm,
    /// MLP.
    #[param]
    pub mlp: Mlp,
}

impl Mistral {
    /// Creates a model. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let dim = config.hidden_size;
        let norm = || nn::RmsNormBuilder::new(dim).eps(config.rms_norm_eps).build();
        let sizes = Sizes {
            dim,
            heads: config.num_attention_heads,
            key_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            window: Some(config.sliding_window),
            bias: false,
        };
        let layer = |_| -> Result<Layer, Exception> {
            Ok(Layer {
                input_layernorm: norm()?,
                self_attn: Attention::new(sizes)?,
                post_attention_layernorm: norm()?,
                mlp: Mlp::new(dim, config.intermediate_size, false)?,
            })
        };
        Ok(Self {
            model: Decoder {
                embed_tokens: nn::Embedding::new(config.vocab_size, dim)?,
                layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
                norm: norm()?,
                rope: Rope::new(config.head_dim, config.rope_theta),
            },
            lm_head: nn::LinearBuilder::new(dim, config.vocab_size).bias(false).build()?,
        })
    }

    /// A rotating cache per layer, for one batch of sequences.
    pub fn new_cache(&self) -> Vec<Box<dyn Cache>> {
        let window = |layer: &Layer| layer.self_attn.sizes.window.unwrap_or(i32::MAX);
        let cache = |layer| Box::new(RotatingCache::new(window(layer))) as Box<dyn Cache>;
        self.model.layers.iter().map(cache).collect()
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]` after those in the cache, and caches them.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, tokens: &Array, cache: &mut [Box<dyn Cache>]) -> Result<Array, Exception> {
        let model = &mut self.model;
        let start = cache.first().map_or(0, |cache| cache.seen());
        let mut x = tap("embed_tokens", model.embed_tokens.forward(tokens)?)?;
        let (cos, sin) = model.rope.tables(start..start + tokens.dim(1), x.dtype())?;
        let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
        for (i, (layer, cache)) in model.layers.iter_mut().zip(cache).enumerate() {
            let _scope = scope("layers", i);
            let normed = tap("input_layernorm", layer.input_layernorm.forward(&x)?)?;
            let attended = layer.self_attn.forward(&normed, &tables, cache.as_mut())?;
            x = tap("attn_residual", x.add(attended)?)?;
            let normed = tap("post_attention_layernorm", layer.post_attention_layernorm.forward(&x)?)?;
            x = tap("out", x.add(layer.mlp.forward(&normed)?)?)?;
        }
        let hidden = tap("norm", model.norm.forward(&x)?)?;
        tap("lm_head", self.lm_head.forward(&hidden)?)
    }

    /// Generates `count` tokens after a prompt `[batch, tokens]`, always the likeliest, with this cache.
    ///
    /// The prompt takes one forward pass, and so does each further token.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn generate(
        &mut self,
        prompt: &Array,
        count: usize,
        cache: &mut [Box<dyn Cache>],
    ) -> Result<(), Exception> {
        let mut tokens = prompt.clone();
        for step in 0..count {
            let _scope = scope("step", step);
            tokens = choose(&self.forward(&tokens, cache)?)?.token.expand_dims(1)?;
        }
        Ok(())
    }
}
