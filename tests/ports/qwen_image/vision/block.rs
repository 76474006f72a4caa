//! One block of the tower.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn, ops};

use super::{Config, norm};
use crate::qwen3::{Mlp, rotate};

/// Attention and gated MLP, each with a norm before it and a residual around both.
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
    pub(super) fn new(config: &Config) -> Result<Self, Exception> {
        let dim = config.hidden_size;
        Ok(Self {
            norm1: norm(dim)?,
            attn: Attention {
                qkv: nn::Linear::new(dim, 3 * dim)?,
                proj: nn::Linear::new(dim, dim)?,
                heads: config.num_heads,
            },
            norm2: norm(dim)?,
            mlp: Mlp::new(dim, config.intermediate_size, true)?,
        })
    }

    /// Maps `[patches, hidden]` to the same shape. Patches attend to each other within runs of these lengths.
    pub fn forward(
        &mut self,
        x: &Array,
        tables: (&Array, &Array),
        lengths: &[i32],
    ) -> Result<Array, Exception> {
        let normed = tap("norm1", self.norm1.forward(x)?)?;
        let x = tap("attn_residual", x.add(self.attn.forward(&normed, tables, lengths)?)?)?;
        let normed = tap("norm2", self.norm2.forward(&x)?)?;
        tap("out", x.add(self.mlp.forward(&normed)?)?)
    }
}

/// Attention within windows or frames.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
    /// Projection to queries, keys and values of all heads.
    #[param]
    pub qkv: nn::Linear,
    /// Output projection.
    #[param]
    pub proj: nn::Linear,
    heads: i32,
}

impl Attention {
    fn forward(
        &mut self,
        x: &Array,
        (cos, sin): (&Array, &Array),
        lengths: &[i32],
    ) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let (patches, head_dim) = (x.dim(0), x.dim(1) / self.heads);
        let qkv = tap("qkv", self.qkv.forward(x)?)?.reshape(&[patches, 3, self.heads, head_dim])?;
        let [q, k, v] = qkv.unstack(1)?.try_into().map_err(|_| Exception::custom("expected three parts"))?;
        // In float32 like the tables, whatever the dtype of the weights.
        let tables = (&cos.expand_dims(1)?, &sin.expand_dims(1)?);
        let q = tap("q_rope", rotate(&q, tables)?.as_dtype(x.dtype())?)?;
        let k = tap("k_rope", rotate(&k, tables)?.as_dtype(x.dtype())?)?;

        let ends: Vec<i32> = lengths
            .iter()
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .take(lengths.len().saturating_sub(1))
            .collect();
        // `[1, heads, patches, features]` per window.
        let windows = |x: &Array| x.transpose_axes(&[1, 0, 2])?.expand_dims(0)?.split_at_indices(&ends, 2);
        let scale = Array::from_f32(1.0 / (head_dim as f32).sqrt()).as_dtype(x.dtype())?;
        let mut contexts = Vec::with_capacity(lengths.len());
        for (w, ((q, k), v)) in windows(&q)?.iter().zip(windows(&k)?).zip(windows(&v)?).enumerate() {
            let _scope = scope("windows", w);
            let scores = tap("scores", q.matmul(k.transpose_axes(&[0, 1, 3, 2])?)?.multiply(&scale)?)?;
            let probs = tap("probs", ops::softmax_axis(&scores, -1, true)?)?;
            contexts.push(probs.matmul(v)?.transpose_axes(&[0, 2, 1, 3])?);
        }
        let context = tap("context", ops::concatenate(&contexts, 1)?)?;
        tap("proj", self.proj.forward(&context.reshape(&[patches, -1])?)?)
    }
}
