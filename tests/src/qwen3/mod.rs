//! Qwen3, the dense text decoder: RMSNorm, grouped-query attention with normed queries and keys, gated MLP.
//!
//! Ported from `transformers.models.qwen3.modeling_qwen3`; parameters have the names of published checkpoints.

mod attention;
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

/// The keys of a published `config.json` that matter here.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Number of tokens that there are.
    pub vocab_size: i32,
    /// Features of a token between layers.
    pub hidden_size: i32,
    /// Features inside the MLP.
    pub intermediate_size: i32,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Heads of the queries.
    pub num_attention_heads: i32,
    /// Heads of keys and values, each shared by several heads of queries.
    pub num_key_value_heads: i32,
    /// Features of a head; not `hidden_size / num_attention_heads`.
    pub head_dim: i32,
    /// What RMSNorm adds to the mean square.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Whether logits are made with the embedding's own weight.
    pub tie_word_embeddings: bool,
}

/// The model with its head: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Qwen3 {
    /// All but the head.
    #[param]
    pub model: Decoder,
    /// The head; none where the embedding's weight stands in for it.
    #[param]
    pub lm_head: Option<nn::Linear>,
}

/// Token ids to features.
#[derive(Debug, ModuleParameters)]
pub struct Decoder {
    /// Features of each token.
    #[param]
    pub embed_tokens: nn::Embedding,
    /// The layers in order.
    #[param]
    pub layers: Vec<Layer>,
    /// After the last layer.
    #[param]
    pub norm: nn::RmsNorm,
    /// Where tokens stand.
    pub rope: Rope,
}

/// What greedy decoding decides for each sequence of a batch.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The likeliest token, `[batch]`.
    pub token: Array,
    /// By how much its logit exceeds the next one, `[batch]`: a choice by less than rounding is nobody's.
    pub margin: Array,
}

impl Qwen3 {
    /// A model whose parameters are still to be loaded.
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
        vec![KvCache::default(); self.model.layers.len()]
    }

    /// Logits `[batch, tokens, vocab]` of tokens `[batch, tokens]` that follow those in the cache, and join them.
    pub fn forward(&mut self, tokens: &Array, cache: &mut [KvCache]) -> Result<Array, Exception> {
        let hidden = self.model.forward(tokens, cache)?;
        let logits = match &mut self.lm_head {
            Some(head) => head.forward(&hidden)?,
            None => self.model.embed_tokens.as_linear(&hidden)?,
        };
        tap("lm_head", logits)
    }

    /// The `count` likeliest tokens after a prompt `[batch, tokens]`, one after the other: `[batch]` each.
    ///
    /// The prompt is one forward, and each token that is gone on with is another.
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
        let start = cache.first().map_or(0, KvCache::len);
        let mut x = tap("embed_tokens", self.embed_tokens.forward(tokens)?)?;
        let (cos, sin) = self.rope.tables(start..start + tokens.dim(1), x.dtype())?;
        let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
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
    // The two largest come in no certain order.
    let best = topk_axis(&last, 2, -1)?;
    let margin = tap("margin", best.max_axis(-1, false)?.subtract(best.min_axis(-1, false)?)?)?;
    let token = tap("token", argmax_axis(&last, -1, false)?.as_dtype(Dtype::Int32)?)?;
    Ok(Choice { token, margin })
}

/// RMSNorm with the eps of the config; mlx-rs's own default is 1e-5.
fn norm(dim: i32, eps: f32) -> Result<nn::RmsNorm, Exception> {
    nn::RmsNormBuilder::new(dim).eps(eps).build()
}
