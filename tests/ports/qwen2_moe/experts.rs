//! A mixture of experts: a router that chooses some of them per token, and a shared one that every token passes.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, Param};
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, nn, ops};

use super::Config;

/// The MLP of a layer.
#[derive(Debug, ModuleParameters)]
pub struct Moe {
    /// Router.
    #[param]
    pub gate: Router,
    /// The experts that the router chooses from.
    #[param]
    pub experts: Experts,
    /// The expert that every token passes.
    #[param]
    pub shared_expert: SharedExpert,
    /// How much of the shared expert each token gets.
    #[param]
    pub shared_expert_gate: nn::Linear,
}

/// Chooses experts per token.
#[derive(Debug, ModuleParameters)]
pub struct Router {
    /// One row per expert.
    #[param]
    pub weight: Param<Array>,
    /// Number of experts per token.
    pub top_k: i32,
    /// Whether the weights of a token's experts add up to 1.
    pub norm_topk_prob: bool,
}

/// All experts, stacked.
#[derive(Debug, ModuleParameters)]
pub struct Experts {
    /// Gate and up projections, `[experts, 2 * inner, hidden]`.
    #[param]
    pub gate_up_proj: Param<Array>,
    /// Output projections, `[experts, hidden, inner]`.
    #[param]
    pub down_proj: Param<Array>,
}

/// `down(silu(gate(x)) * up(x))`.
#[derive(Debug, ModuleParameters)]
pub struct SharedExpert {
    /// Gate projection, which goes through SiLU.
    #[param]
    pub gate_proj: nn::Linear,
    /// Projection that is multiplied with the activated one.
    #[param]
    pub up_proj: nn::Linear,
    /// Output projection.
    #[param]
    pub down_proj: nn::Linear,
}

/// The experts of each token, the likeliest first, `[tokens, experts]`.
#[derive(Debug, Clone)]
pub struct Routes {
    /// Numbers of the experts, int32.
    pub ids: Array,
    /// Factors of their outputs.
    pub weights: Array,
}

impl Moe {
    pub(super) fn new(config: &Config) -> Result<Self, Exception> {
        let (dim, inner, experts) = (config.hidden_size, config.moe_intermediate_size, config.num_experts);
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        let empty = |shape: &[i32]| ops::zeros::<f32>(shape).map(Param::new);
        let shared = config.shared_expert_intermediate_size;
        Ok(Self {
            gate: Router {
                weight: empty(&[experts, dim])?,
                top_k: config.num_experts_per_tok,
                norm_topk_prob: config.norm_topk_prob,
            },
            experts: Experts {
                gate_up_proj: empty(&[experts, 2 * inner, dim])?,
                down_proj: empty(&[experts, dim, inner])?,
            },
            shared_expert: SharedExpert {
                gate_proj: linear(dim, shared)?,
                up_proj: linear(dim, shared)?,
                down_proj: linear(shared, dim)?,
            },
            shared_expert_gate: linear(dim, 1)?,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape.
    pub(super) fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("moe", None);
        let rows = x.reshape(&[-1, x.dim(-1)])?;
        let shared = self.shared_expert.forward(&rows)?;
        let routes = self.gate.forward(&rows)?;
        let routed = tap("experts", self.experts.forward(&rows, &routes)?)?;
        let gate = tap("shared.gate", self.shared_expert_gate.forward(&rows)?)?;
        let shared = tap("shared.gated", ops::sigmoid(gate)?.multiply(shared)?)?;
        tap("out", routed.add(shared)?.reshape(x.shape())?)
    }
}

impl Router {
    /// Chooses experts for `[tokens, hidden]`.
    pub(super) fn forward(&self, x: &Array) -> Result<Routes, Exception> {
        let _scope = scope("router", None);
        let logits = tap("logits", x.matmul(self.weight.t())?)?;
        let scores = tap("scores", ops::softmax_axis(&logits, -1, true)?)?;
        let order = ops::argsort_axis(scores.negative()?, -1)?;
        let ids = order.try_index((.., ..self.top_k))?.as_dtype(Dtype::Int32)?;
        let chosen = scores.take_along_axis(&ids, -1)?;
        let weights = match self.norm_topk_prob {
            true => chosen.divide(chosen.sum_axis(-1, true)?)?,
            false => chosen,
        };
        Ok(Routes { weights: tap("weights", weights)?, ids: tap("ids", ids)? })
    }
}

impl Experts {
    /// Sums the weighted outputs of each token's experts, `[tokens, hidden]`.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&self, x: &Array, routes: &Routes) -> Result<Array, Exception> {
        let x = x.expand_dims_axes(&[1, 3])?;
        let both = self.gate_up_proj.take_axis(&routes.ids, 0)?.matmul(x)?;
        let halves = both.split_equal(2, 2)?;
        let inner = nn::silu(&halves[0])?.multiply(&halves[1])?;
        let each = self.down_proj.take_axis(&routes.ids, 0)?.matmul(inner)?.squeeze_axes(&[3])?;
        each.multiply(routes.weights.expand_dims(-1)?)?.sum_axis(1, false)
    }
}

impl SharedExpert {
    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("shared", None);
        let gate = nn::silu(tap("gate_proj", self.gate_proj.forward(x)?)?)?;
        let up = tap("up_proj", self.up_proj.forward(x)?)?;
        tap("out", self.down_proj.forward(&gate.multiply(up)?)?)
    }
}
