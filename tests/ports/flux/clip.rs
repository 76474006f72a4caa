//! The text encoder of CLIP, `CLIPTextModel` in transformers: learned positions, causal attention, LayerNorm
//! before each part, and an embedding of the whole prompt, pooled at its end mark.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis};
use mlx_rs::{Array, Dtype, nn, ops};
use serde::Deserialize;

/// The config, with the names of `config.json`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token.
    pub hidden_size: i32,
    /// Features inside the MLP.
    pub intermediate_size: i32,
    /// Number of layers.
    pub num_hidden_layers: i32,
    /// Number of heads.
    pub num_attention_heads: i32,
    /// Length of every prompt in tokens.
    pub max_position_embeddings: i32,
    /// Epsilon of LayerNorm.
    pub layer_norm_eps: f32,
    /// Activation of the MLP.
    pub hidden_act: Activation,
    /// First token of every prompt.
    pub bos_token_id: i32,
    /// Last token of every prompt. In configs from before 2023 it is 2, whatever the tokeniser uses: see [`Encoder::pool`].
    pub eos_token_id: i32,
    /// Padding after the end of a short prompt.
    pub pad_token_id: i32,
}

/// The activation of the MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x * sigmoid(1.702 * x)`. Not `gelu_fast_approximate` of mlx-rs, whose factor is 1.773.
    QuickGelu,
    /// Exact GELU.
    Gelu,
}

impl Activation {
    fn forward(self, x: &Array) -> Result<Array, Exception> {
        match self {
            Self::QuickGelu => {
                let slope = Array::from_f32(1.702).as_dtype(x.dtype())?;
                x.multiply(ops::sigmoid(x.multiply(slope)?)?)
            }
            Self::Gelu => nn::gelu(x),
        }
    }
}

/// Token ids, `[prompts, max_position_embeddings]`: each prompt between its marks, then padding.
///
/// A prompt that is too long is cut, so that its end mark fits.
///
/// # Errors
/// When there is no room for the marks.
pub fn batch(prompts: &[Vec<i32>], config: &Config) -> Result<Array, Exception> {
    let length = config.max_position_embeddings as usize;
    if length < 2 {
        return Err(Exception::custom("prompts need room for two marks"));
    }
    let mut ids = vec![config.pad_token_id; prompts.len() * length];
    for (prompt, ids) in prompts.iter().zip(ids.chunks_mut(length)) {
        let kept = prompt.len().min(length - 2);
        ids[0] = config.bos_token_id;
        ids[1..=kept].copy_from_slice(&prompt[..kept]);
        ids[kept + 1] = config.eos_token_id;
    }
    tap("ids", Array::from_slice(&ids, &[prompts.len() as i32, length as i32]))
}

/// The encoder.
#[derive(Debug, ModuleParameters)]
pub struct Encoder {
    /// Token embedding.
    #[param]
    pub tokens: nn::Embedding,
    /// Position embedding.
    #[param]
    pub positions: nn::Embedding,
    /// Layers in order.
    #[param]
    pub layers: Vec<Layer>,
    /// Norm after the last layer.
    #[param]
    pub final_norm: nn::LayerNorm,
    /// End mark, where the prompt is pooled.
    pub eos_token_id: i32,
}

impl Encoder {
    /// Creates an encoder. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: Config) -> Result<Self, Exception> {
        Ok(Self {
            tokens: nn::Embedding::new(config.vocab_size, config.hidden_size)?,
            positions: nn::Embedding::new(config.max_position_embeddings, config.hidden_size)?,
            layers: (0..config.num_hidden_layers).map(|_| Layer::new(config)).collect::<Result<_, _>>()?,
            final_norm: norm(config)?,
            eos_token_id: config.eos_token_id,
        })
    }

    /// Maps ids, `[prompts, tokens]`, to the features of each token, `[prompts, tokens, hidden_size]`, and of each prompt,
    /// `[prompts, hidden_size]`.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, ids: &Array) -> Result<(Array, Array), Exception> {
        let mut x = self.embed(ids)?;
        let mask = causal_mask(ids.dim(1), x.dtype())?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let _scope = scope("layers", index);
            x = layer.forward(&x, &mask)?;
        }
        let x = tap("out", self.final_norm.forward(&x)?)?;
        let pooled = self.pool(ids, &x)?;
        Ok((x, pooled))
    }

    /// The sum of token embedding and position embedding.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn embed(&mut self, ids: &Array) -> Result<Array, Exception> {
        let _scope = scope("embed", None);
        let tokens = tap("token", self.tokens.forward(ids)?)?;
        let positions = self.positions.weight.try_index(..ids.dim(1))?.expand_dims(0)?;
        tap("out", tokens.add(tap("position", positions)?)?)
    }

    /// The features of the end mark of each prompt, which has attended to all of it.
    ///
    /// If the end mark is 2, as in configs from before 2023 and in that of Flux, the largest token of the prompt is
    /// taken.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn pool(&self, ids: &Array, x: &Array) -> Result<Array, Exception> {
        let place = match self.eos_token_id {
            2 => argmax_axis(ids, -1, true)?,
            end => argmax_axis(ids.eq(Array::from_int(end))?.as_dtype(Dtype::Int32)?, -1, true)?,
        };
        tap("pooled", x.take_along_axis(place.expand_dims(-1)?, 1)?.squeeze_axes(&[1])?)
    }
}

/// The mask that is added to scores so that no token sees a later one, `[tokens, tokens]`.
///
/// # Errors
/// When MLX cannot make it.
pub fn causal_mask(tokens: i32, dtype: Dtype) -> Result<Array, Exception> {
    let later = ops::triu(ops::ones::<f32>(&[tokens, tokens])?, 1)?;
    later.multiply(Array::from_f32(f32::MIN))?.as_dtype(dtype)
}

/// Attention and MLP, each with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct Layer {
    /// Norm before attention.
    #[param]
    pub norm1: nn::LayerNorm,
    /// Attention.
    #[param]
    pub attn: Attention,
    /// Norm before the MLP.
    #[param]
    pub norm2: nn::LayerNorm,
    /// MLP.
    #[param]
    pub mlp: Mlp,
}

impl Layer {
    fn new(config: Config) -> Result<Self, Exception> {
        let (norm1, norm2) = (norm(config)?, norm(config)?);
        Ok(Self { norm1, attn: Attention::new(config)?, norm2, mlp: Mlp::new(config)? })
    }

    /// Maps `[prompts, tokens, hidden_size]` to the same shape; `mask` is added to the scores.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, x: &Array, mask: &Array) -> Result<Array, Exception> {
        let normed = tap("norm1", self.norm1.forward(x)?)?;
        let x = tap("attended", x.add(self.attn.forward(&normed, mask)?)?)?;
        let normed = tap("norm2", self.norm2.forward(&x)?)?;
        tap("out", x.add(self.mlp.forward(&normed)?)?)
    }
}

/// Multi-head attention.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
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
    pub out: nn::Linear,
    /// Number of heads.
    pub heads: i32,
}

impl Attention {
    fn new(config: Config) -> Result<Self, Exception> {
        let linear = || nn::Linear::new(config.hidden_size, config.hidden_size);
        let heads = config.num_attention_heads;
        Ok(Self { q: linear()?, k: linear()?, v: linear()?, out: linear()?, heads })
    }

    fn forward(&mut self, x: &Array, mask: &Array) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let (batch, tokens, dim) = (x.dim(0), x.dim(1), x.dim(2));
        let size = dim / self.heads;
        let split = |x: Array| x.reshape(&[batch, tokens, -1, size])?.transpose_axes(&[0, 2, 1, 3]);
        let q = split(tap("q", self.q.forward(x)?)?)?;
        let k = split(tap("k", self.k.forward(x)?)?)?;
        let v = split(tap("v", self.v.forward(x)?)?)?;
        let scale = Array::from_f32((size as f32).sqrt().recip()).as_dtype(x.dtype())?;
        let scores = tap("scores", q.matmul(k.transpose_axes(&[0, 1, 3, 2])?)?.multiply(scale)?)?;
        let probs = tap("probs", ops::softmax_axis(scores.add(mask)?, -1, true)?)?;
        let context = tap("context", probs.matmul(v)?)?;
        let joined = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, dim])?;
        tap("out", self.out.forward(&joined)?)
    }
}

/// Two linear layers with an activation between them.
#[derive(Debug, ModuleParameters)]
pub struct Mlp {
    /// First projection.
    #[param]
    pub fc1: nn::Linear,
    /// Output projection.
    #[param]
    pub fc2: nn::Linear,
    /// Activation between the projections.
    pub activation: Activation,
}

impl Mlp {
    fn new(config: Config) -> Result<Self, Exception> {
        Ok(Self {
            fc1: nn::Linear::new(config.hidden_size, config.intermediate_size)?,
            fc2: nn::Linear::new(config.intermediate_size, config.hidden_size)?,
            activation: config.hidden_act,
        })
    }

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("mlp", None);
        let inside = tap("fc1", self.fc1.forward(x)?)?;
        let active = tap("act", self.activation.forward(&inside)?)?;
        tap("out", self.fc2.forward(&active)?)
    }
}

fn norm(config: Config) -> Result<nn::LayerNorm, Exception> {
    nn::LayerNormBuilder::new(config.hidden_size).eps(config.layer_norm_eps).build()
}
