//! Qwen2-MoE, the text decoder with routed and shared experts: RMSNorm, grouped-query attention with biases, and a KV cache.
//!
//! Ported from `transformers.models.qwen2_moe.modeling_qwen2_moe`; the experts are stacked as there.

mod experts;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

use crate::cache::{Cache, FullCache};
use crate::mistral::{Attention, Sizes};
use crate::qwen3::{Rope, choose};
pub use experts::{Experts, Moe, Router, Routes, SharedExpert};

/// The keys of a published `config.json` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token between layers.
    pub hidden_size: i32,
    /// Features inside a routed expert.
    pub moe_intermediate_size: i32,
    /// Features inside the shared expert.
    pub shared_expert_intermediate_size: i32,
    /// Number of routed experts.
    pub num_experts: i32,
    /// Number of routed experts per token.
    pub num_experts_per_tok: i32,
    /// Whether the weights of a token's experts add up to 1.
    pub norm_topk_prob: bool,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Number of query heads.
    pub num_attention_heads: i32,
    /// Number of key heads; several query heads share one.
    pub num_key_value_heads: i32,
    /// Epsilon of RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
}

/// The model with its head: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Qwen2Moe {
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

/// Attention and a mixture of experts, each with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct Layer {
    /// Norm before attention.
    #[param]
    pub input_layernorm: nn::RmsNorm,
    /// Attention.
    #[param]
    pub self_attn: Attention,
    /// Norm before the experts.
    #[param]
    pub post_attention_layernorm: nn::RmsNorm,
    /// The experts.
    #[param]
    pub mlp: Moe,
}

impl Qwen2Moe {
    /// Creates a model. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let dim = config.hidden_size;
        let norm = || nn::RmsNormBuilder::new(dim).eps(config.rms_norm_eps).build();
        let head_dim = dim / config.num_attention_heads;
        let sizes = Sizes {
            dim,
            heads: config.num_attention_heads,
            key_heads: config.num_key_value_heads,
            head_dim,
            window: None,
            bias: true,
        };
        let layer = |_| -> Result<Layer, Exception> {
            Ok(Layer {
                input_layernorm: norm()?,
                self_attn: Attention::new(sizes)?,
                post_attention_layernorm: norm()?,
                mlp: Moe::new(config)?,
            })
        };
        Ok(Self {
            model: Decoder {
                embed_tokens: nn::Embedding::new(config.vocab_size, dim)?,
                layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
                norm: norm()?,
                rope: Rope::new(head_dim, config.rope_theta),
            },
            lm_head: nn::LinearBuilder::new(dim, config.vocab_size).bias(false).build()?,
        })
    }

    /// An empty cache for one batch of sequences.
    pub fn new_cache(&self) -> Vec<FullCache> {
        vec![FullCache::default(); self.model.layers.len()]
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]` after those in the cache, and caches them.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, tokens: &Array, cache: &mut [FullCache]) -> Result<Array, Exception> {
        let model = &mut self.model;
        let start = cache.first().map_or(0, |cache| cache.seen());
        let mut x = tap("embed_tokens", model.embed_tokens.forward(tokens)?)?;
        let (cos, sin) = model.rope.tables(start..start + tokens.dim(1), x.dtype())?;
        let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
        for (i, (layer, cache)) in model.layers.iter_mut().zip(cache).enumerate() {
            let _scope = scope("layers", i);
            let normed = tap("input_layernorm", layer.input_layernorm.forward(&x)?)?;
            x = tap("attn_residual", x.add(layer.self_attn.forward(&normed, &tables, cache)?)?)?;
            let normed = tap("post_attention_layernorm", layer.post_attention_layernorm.forward(&x)?)?;
            x = tap("out", x.add(layer.mlp.forward(&normed)?)?)?;
        }
        let hidden = tap("norm", model.norm.forward(&x)?)?;
        tap("lm_head", self.lm_head.forward(&hidden)?)
    }

    /// Generates `count` tokens after a prompt `[batch, tokens]`, always the likeliest.
    ///
    /// The prompt takes one forward pass, and so does each further token.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn generate(&mut self, prompt: &Array, count: usize) -> Result<(), Exception> {
        let mut cache = self.new_cache();
        let mut tokens = prompt.clone();
        for step in 0..count {
            let _scope = scope("step", step);
            tokens = choose(&self.forward(&tokens, &mut cache)?)?.token.expand_dims(1)?;
            tap_caches(&mut cache)?;
        }
        Ok(())
    }
}

/// Taps what each layer has cached.
///
/// # Errors
/// When a tap fails.
pub fn tap_caches(cache: &mut [FullCache]) -> Result<(), Exception> {
    for (i, cache) in cache.iter_mut().enumerate() {
        let _scope = scope("layers", i);
        cache.tap_state()?;
    }
    Ok(())
}
