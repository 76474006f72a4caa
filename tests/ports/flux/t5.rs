//! The T5 encoder, `T5EncoderModel` in transformers: a bias for relative positions in place of position
//! embeddings, RMSNorm before each part, a gated MLP, and no bias in any linear layer.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn, ops};
use serde::Deserialize;

/// The config, with the names of `config.json`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token.
    pub d_model: i32,
    /// Features per head.
    pub d_kv: i32,
    /// Features inside the MLP.
    pub d_ff: i32,
    /// Number of blocks.
    pub num_layers: i32,
    /// Number of heads.
    pub num_heads: i32,
    /// Number of buckets for the offset between two tokens, half of them per direction.
    pub relative_attention_num_buckets: i32,
    /// Offset from which on all offsets share a bucket.
    pub relative_attention_max_distance: i32,
    /// Epsilon of RMSNorm.
    pub layer_norm_epsilon: f32,
    /// Activation of the MLP.
    pub feed_forward_proj: Activation,
}

/// The activation of a gated MLP. The MLP without a gate of the first T5 is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Tanh approximation of GELU, `gelu_new` in transformers.
    GatedGelu,
    /// SiLU.
    GatedSilu,
}

impl Config {
    /// The bucket of a key that is `offset` tokens after the query: one per small offset, then
    /// wider and wider ones up to the largest distance.
    pub fn bucket(&self, offset: i32) -> i32 {
        let count = self.relative_attention_num_buckets / 2;
        let later = if offset > 0 { count } else { 0 };
        let (distance, exact) = (offset.abs(), count / 2);
        if distance < exact {
            return later + distance;
        }
        // In float32 as in the reference, since some offsets lie exactly on the border between two buckets.
        let octaves = (f64::from(self.relative_attention_max_distance) / f64::from(exact)).ln() as f32;
        let along = (distance as f32 / exact as f32).ln() / octaves * (count - exact) as f32;
        later + (exact + along as i32).min(count - 1)
    }
}

/// Token ids, and a mask that is 1 for tokens and 0 for padding, both `[prompts, length]`.
///
/// Each prompt gets an end mark. A prompt that is too long is cut, so that the mark fits.
///
/// # Errors
/// When `length` is 0.
pub fn batch(prompts: &[Vec<i32>], length: usize) -> Result<(Array, Array), Exception> {
    const PADDING: i32 = 0;
    const END: i32 = 1;
    if length == 0 {
        return Err(Exception::custom("prompts need room for their end mark"));
    }
    let mut ids = vec![PADDING; prompts.len() * length];
    let mut mask = vec![0; ids.len()];
    for (prompt, (ids, mask)) in prompts.iter().zip(ids.chunks_mut(length).zip(mask.chunks_mut(length))) {
        let kept = prompt.len().min(length - 1);
        ids[..kept].copy_from_slice(&prompt[..kept]);
        ids[kept] = END;
        mask[..=kept].fill(1);
    }
    let shape = [prompts.len() as i32, length as i32];
    Ok((tap("ids", Array::from_slice(&ids, &shape))?, tap("mask", Array::from_slice(&mask, &shape))?))
}

/// The encoder.
#[derive(Debug, ModuleParameters)]
pub struct Encoder {
    /// Token embedding.
    #[param]
    pub embed: nn::Embedding,
    /// Blocks in order.
    #[param]
    pub blocks: Vec<Block>,
    /// Norm after the last block.
    #[param]
    pub final_norm: nn::RmsNorm,
}

impl Encoder {
    /// Creates an encoder. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: Config) -> Result<Self, Exception> {
        Ok(Self {
            embed: nn::Embedding::new(config.vocab_size, config.d_model)?,
            blocks: (0..config.num_layers)
                .map(|index| Block::new(config, index == 0))
                .collect::<Result<_, _>>()?,
            final_norm: norm(config)?,
        })
    }

    /// Maps ids, `[prompts, tokens]`, to `[prompts, tokens, d_model]`. Nothing attends to tokens whose mask is 0.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, ids: &Array, mask: Option<&Array>) -> Result<Array, Exception> {
        let mut x = tap("embed", self.embed.forward(ids)?)?;
        let mask = mask.map(additive).transpose()?;
        let mut bias = None;
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let _scope = scope("blocks", index);
            x = block.forward(&x, mask.as_ref(), &mut bias)?;
        }
        tap("out", self.final_norm.forward(&x)?)
    }
}

/// Attention and MLP, each with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct Block {
    /// Norm before attention.
    #[param]
    pub norm1: nn::RmsNorm,
    /// Attention.
    #[param]
    pub attn: Attention,
    /// Norm before the MLP.
    #[param]
    pub norm2: nn::RmsNorm,
    /// MLP.
    #[param]
    pub mlp: Mlp,
}

impl Block {
    fn new(config: Config, is_first: bool) -> Result<Self, Exception> {
        let (norm1, norm2) = (norm(config)?, norm(config)?);
        Ok(Self { norm1, attn: Attention::new(config, is_first)?, norm2, mlp: Mlp::new(config)? })
    }

    /// Maps `[prompts, tokens, d_model]` to the same shape. The first block fills `bias`, the others use it.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(
        &mut self,
        x: &Array,
        mask: Option<&Array>,
        bias: &mut Option<Array>,
    ) -> Result<Array, Exception> {
        let normed = tap("norm1", self.norm1.forward(x)?)?;
        let x = tap("attended", x.add(self.attn.forward(&normed, mask, bias)?)?)?;
        let normed = tap("norm2", self.norm2.forward(&x)?)?;
        tap("out", x.add(self.mlp.forward(&normed)?)?)
    }
}

/// Attention with unscaled scores and a bias for the offset between tokens.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
    config: Config,
    /// Query projection for all heads.
    #[param]
    pub q: nn::Linear,
    /// Key projection for all heads.
    #[param]
    pub k: nn::Linear,
    /// Value projection for all heads.
    #[param]
    pub v: nn::Linear,
    /// Output projection.
    #[param]
    pub o: nn::Linear,
    /// Bias per bucket and head, in the first block only.
    #[param]
    pub relative_attention_bias: Option<nn::Embedding>,
    /// Number of heads.
    pub heads: i32,
}

impl Attention {
    fn new(config: Config, is_first: bool) -> Result<Self, Exception> {
        let (dim, inner) = (config.d_model, config.num_heads * config.d_kv);
        let table = || nn::Embedding::new(config.relative_attention_num_buckets, config.num_heads);
        Ok(Self {
            config,
            q: linear(dim, inner)?,
            k: linear(dim, inner)?,
            v: linear(dim, inner)?,
            o: linear(inner, dim)?,
            relative_attention_bias: is_first.then(table).transpose()?,
            heads: config.num_heads,
        })
    }

    fn forward(
        &mut self,
        x: &Array,
        mask: Option<&Array>,
        bias: &mut Option<Array>,
    ) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let (batch, tokens) = (x.dim(0), x.dim(1));
        let heads = self.heads;
        let split = |x: Array| x.reshape(&[batch, tokens, heads, -1])?.transpose_axes(&[0, 2, 1, 3]);
        let q = split(tap("q", self.q.forward(x)?)?)?;
        let k = split(tap("k", self.k.forward(x)?)?)?;
        let v = split(tap("v", self.v.forward(x)?)?)?;
        if bias.is_none() {
            *bias = self.bias(tokens)?;
        }
        let mut scores = tap("scores", q.matmul(k.transpose_axes(&[0, 1, 3, 2])?)?)?;
        if let Some(bias) = bias {
            scores = tap("biased", scores.add(bias)?)?;
        }
        if let Some(mask) = mask {
            scores = scores.add(mask)?;
        }
        let probs = tap("probs", ops::softmax_axis(&scores, -1, true)?)?;
        let context = tap("context", probs.matmul(v)?)?;
        let joined = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
        tap("out", self.o.forward(&joined)?)
    }

    /// The bias that is added to the scores, `[1, heads, tokens, tokens]`, if this block has the table.
    fn bias(&mut self, tokens: i32) -> Result<Option<Array>, Exception> {
        let Some(table) = &mut self.relative_attention_bias else { return Ok(None) };
        let offsets = (0..tokens).flat_map(|from| (0..tokens).map(move |to| to - from));
        let buckets: Vec<i32> = offsets.map(|offset| self.config.bucket(offset)).collect();
        let buckets = tap("buckets", Array::from_slice(&buckets, &[tokens, tokens]))?;
        let bias = tap("bias", table.forward(&buckets)?)?;
        Ok(Some(bias.transpose_axes(&[2, 0, 1])?.expand_dims(0)?))
    }
}

/// `wo(act(wi_0(x)) * wi_1(x))`.
#[derive(Debug, ModuleParameters)]
pub struct Mlp {
    /// Projection that goes through the activation.
    #[param]
    pub wi_0: nn::Linear,
    /// Projection that is multiplied with the activated one.
    #[param]
    pub wi_1: nn::Linear,
    /// Output projection.
    #[param]
    pub wo: nn::Linear,
    activation: Activation,
}

impl Mlp {
    fn new(config: Config) -> Result<Self, Exception> {
        Ok(Self {
            wi_0: linear(config.d_model, config.d_ff)?,
            wi_1: linear(config.d_model, config.d_ff)?,
            wo: linear(config.d_ff, config.d_model)?,
            activation: config.feed_forward_proj,
        })
    }

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("mlp", None);
        let gate = tap("wi_0", self.wi_0.forward(x)?)?;
        let gate = tap(
            "act",
            match self.activation {
                Activation::GatedGelu => nn::gelu_approximate(gate)?,
                Activation::GatedSilu => nn::silu(gate)?,
            },
        )?;
        let gated = tap("gated", gate.multiply(tap("wi_1", self.wi_1.forward(x)?)?)?)?;
        tap("out", self.wo.forward(&gated)?)
    }
}

/// Converts a mask of 1 and 0 to one that is added to scores, `[prompts, 1, 1, tokens]`.
///
/// # Errors
/// When the mask is not `[prompts, tokens]`.
pub fn additive(mask: &Array) -> Result<Array, Exception> {
    let hidden = Array::from_f32(f32::MIN);
    let added = ops::select(mask.eq(Array::from_int(0))?, hidden, Array::from_f32(0.0))?;
    added.expand_dims_axes(&[1, 2])
}

fn norm(config: Config) -> Result<nn::RmsNorm, Exception> {
    nn::RmsNormBuilder::new(config.d_model).eps(config.layer_norm_epsilon).build()
}

fn linear(from: i32, to: i32) -> Result<nn::Linear, Exception> {
    nn::LinearBuilder::new(from, to).bias(false).build()
}
