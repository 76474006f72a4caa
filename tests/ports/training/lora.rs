//! A small causal transformer with LoRA on queries and values. Everything else is frozen.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, ModuleParameters, Param, Parameter};
use mlx_rs::{Array, nn, ops};
use serde::Deserialize;

/// The sizes of a model.
#[derive(Debug, Clone, Deserialize)]
pub struct LoraConfig {
    /// Size of the vocabulary.
    pub vocab: i32,
    /// Features per token.
    pub dim: i32,
    /// Features inside the MLP.
    pub hidden: i32,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of heads.
    pub heads: i32,
    /// Rank of the adapters.
    pub rank: i32,
    /// The adapters are scaled by `alpha / rank`.
    pub alpha: f32,
}

/// A frozen linear layer with a trained product of two thin matrices beside it.
#[derive(Debug, ModuleParameters)]
pub struct LoraLinear {
    /// The frozen layer.
    #[param]
    pub base: nn::Linear,
    /// To the rank, `[rank, inputs]`.
    #[param]
    pub lora_a: Param<Array>,
    /// From the rank, `[outputs, rank]`.
    #[param]
    pub lora_b: Param<Array>,
    /// Factor of the product.
    pub scale: f32,
}

impl LoraLinear {
    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let low = x.matmul(self.lora_a.value.t())?.matmul(self.lora_b.value.t())?;
        self.base.forward(x)?.add(low.multiply(Array::from_f32(self.scale))?)
    }
}

/// Attention and MLP, each with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct LoraBlock {
    /// Norm before attention.
    #[param]
    pub norm1: nn::RmsNorm,
    /// Queries.
    #[param]
    pub q: LoraLinear,
    /// Keys.
    #[param]
    pub k: nn::Linear,
    /// Values.
    #[param]
    pub v: LoraLinear,
    /// Output projection.
    #[param]
    pub o: nn::Linear,
    /// Norm before the MLP.
    #[param]
    pub norm2: nn::RmsNorm,
    /// Into the MLP.
    #[param]
    pub up: nn::Linear,
    /// Out of the MLP.
    #[param]
    pub down: nn::Linear,
    heads: i32,
}

/// Token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct LoraModel {
    /// Token embedding.
    #[param]
    pub embed: nn::Embedding,
    /// Blocks in order.
    #[param]
    pub blocks: Vec<LoraBlock>,
    /// Norm after the last block.
    #[param]
    pub norm: nn::RmsNorm,
    /// Head.
    #[param]
    pub head: nn::Linear,
}

impl LoraModel {
    /// Creates a model whose adapters alone are trained. Its parameters still have to be loaded.
    pub fn new(config: &LoraConfig) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        let blocks = (0..config.blocks).map(|_| LoraBlock::new(config)).collect::<Result<_, _>>()?;
        let mut model = Self {
            embed: nn::Embedding::new(config.vocab, config.dim)?,
            blocks,
            norm: nn::RmsNormBuilder::new(config.dim).eps(1e-6).build()?,
            head: linear(config.dim, config.vocab)?,
        };
        model.freeze_parameters(true);
        for block in &mut model.blocks {
            for layer in [&mut block.q, &mut block.v] {
                layer.lora_a.unfreeze(true);
                layer.lora_b.unfreeze(true);
            }
        }
        Ok(model)
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]`.
    pub fn forward(&mut self, tokens: &Array) -> Result<Array, Exception> {
        let mut x = tap("embed", self.embed.forward(tokens)?)?;
        for (i, block) in self.blocks.iter_mut().enumerate() {
            let _scope = scope("blocks", i);
            x = tap("out", block.forward(&x)?)?;
        }
        tap("head", self.head.forward(&self.norm.forward(&x)?)?)
    }
}

impl LoraBlock {
    fn new(config: &LoraConfig) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        let norm = || nn::RmsNormBuilder::new(config.dim).eps(1e-6).build();
        let lora = || {
            Ok::<_, Exception>(LoraLinear {
                base: linear(config.dim, config.dim)?,
                lora_a: Param::new(ops::zeros::<f32>(&[config.rank, config.dim])?),
                lora_b: Param::new(ops::zeros::<f32>(&[config.dim, config.rank])?),
                scale: config.alpha / config.rank as f32,
            })
        };
        Ok(Self {
            norm1: norm()?,
            q: lora()?,
            k: linear(config.dim, config.dim)?,
            v: lora()?,
            o: linear(config.dim, config.dim)?,
            norm2: norm()?,
            up: linear(config.dim, config.hidden)?,
            down: linear(config.hidden, config.dim)?,
            heads: config.heads,
        })
    }

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let (batch, tokens) = (x.dim(0), x.dim(1));
        let normed = self.norm1.forward(x)?;
        let heads = |x: Array| x.reshape(&[batch, tokens, self.heads, -1])?.transpose_axes(&[0, 2, 1, 3]);
        let q = heads(tap("q", self.q.forward(&normed)?)?)?;
        let k = heads(self.k.forward(&normed)?)?;
        let v = heads(tap("v", self.v.forward(&normed)?)?)?;
        let scale = Array::from_f32(1.0 / (q.dim(-1) as f32).sqrt());
        let scores = q.matmul(k.transpose_axes(&[0, 1, 3, 2])?)?.multiply(scale)?;
        let visible = ops::tri::<bool>(tokens, Some(tokens), Some(0))?;
        let scores = ops::select(&visible, &scores, Array::from_f32(f32::NEG_INFINITY))?;
        let context = ops::softmax_axis(&scores, -1, true)?.matmul(&v)?;
        let context = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
        let x = x.add(self.o.forward(&context)?)?;
        let inner = nn::silu(self.up.forward(&self.norm2.forward(&x)?)?)?;
        x.add(self.down.forward(&inner)?)
    }
}
