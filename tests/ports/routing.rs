//! A mixture of experts as in Mixtral: softmax over all experts, the top k, weights that sum to one.

use mlx_parity_tap::tap;
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, Param};
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{argsort_axis, softmax_axis, zeros};
use mlx_rs::{Array, Dtype, nn};
use serde::Deserialize;

/// The sizes of a mixture.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Config {
    /// Features per token.
    pub dim: i32,
    /// Features inside an expert.
    pub hidden: i32,
    /// Number of experts.
    pub experts: i32,
    /// Experts per token.
    pub k: i32,
}

/// A router with its experts.
#[derive(Debug, ModuleParameters)]
pub struct Mixture {
    /// Scores of all experts.
    #[param]
    pub gate: nn::Linear,
    /// First projection of each expert: `[experts, hidden, dim]`.
    #[param]
    pub up: Param<Array>,
    /// Second projection of each expert: `[experts, dim, hidden]`.
    #[param]
    pub down: Param<Array>,
    /// Experts per token.
    pub k: i32,
}

impl Mixture {
    /// Creates a mixture. Its parameters still have to be loaded.
    pub fn new(config: Config) -> Result<Self, Exception> {
        let Config { dim, hidden, experts, k } = config;
        Ok(Self {
            gate: nn::LinearBuilder::new(dim, experts).bias(false).build()?,
            up: Param::new(zeros::<f32>(&[experts, hidden, dim])?),
            down: Param::new(zeros::<f32>(&[experts, dim, hidden])?),
            k,
        })
    }

    /// Maps `[tokens, dim]` to the same shape.
    pub fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let logits = tap("logits", self.gate.forward(x)?)?;
        let probs = tap("probs", softmax_axis(&logits, -1, true)?)?;
        let experts = tap("experts", most_probable(&probs, self.k)?)?;
        let chosen = probs.take_along_axis(&experts, -1)?;
        let weights = tap("expert_weights", chosen.divide(chosen.sum_axis(-1, true)?)?)?;
        tap("out", self.sum(x, &experts, &weights)?)
    }

    /// The weighted sum of the experts of each token.
    pub fn sum(&self, x: &Array, experts: &Array, weights: &Array) -> Result<Array, Exception> {
        let of_experts = |all: &Array| all.take_axis(experts, 0);
        let inner = of_experts(&self.up)?.matmul(x.expand_dims_axes(&[1, 3])?)?;
        let outer = of_experts(&self.down)?.matmul(nn::silu(inner)?)?.squeeze_axes(&[3])?;
        outer.multiply(weights.expand_dims(-1)?)?.sum_axis(1, false)
    }
}

/// The `k` most probable experts of each row, the most probable first.
pub fn most_probable(probs: &Array, k: i32) -> Result<Array, Exception> {
    argsort_axis(probs.negative()?, -1)?.try_index((.., ..k))?.as_dtype(Dtype::Int32)
}
