//! One decoder layer.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};

use super::{Attention, Config, KvCache, Norm, gelu};

/// Attention and MLP, each with a norm before it, a norm after it, and a residual around all three.
#[derive(Debug, ModuleParameters)]
pub struct Layer {
    /// Norm before attention.
    #[param]
    pub input_layernorm: Norm,
    /// Attention.
    #[param]
    pub self_attn: Attention,
    /// Norm of what attention returns.
    #[param]
    pub post_attention_layernorm: Norm,
    /// Norm before the MLP.
    #[param]
    pub pre_feedforward_layernorm: Norm,
    /// MLP.
    #[param]
    pub mlp: Mlp,
    /// Norm of what the MLP returns.
    #[param]
    pub post_feedforward_layernorm: Norm,
}

impl Layer {
    pub(super) fn new(config: &Config, window: Option<i32>) -> Result<Self, Exception> {
        let norm = || Norm::new(config.hidden_size, config.rms_norm_eps);
        Ok(Self {
            input_layernorm: norm()?,
            self_attn: Attention::new(config, window)?,
            post_attention_layernorm: norm()?,
            pre_feedforward_layernorm: norm()?,
            mlp: Mlp::new(config.hidden_size, config.intermediate_size)?,
            post_feedforward_layernorm: norm()?,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape; the tables are the rotary cosines and sines of these tokens.
    pub(super) fn forward(
        &mut self,
        x: &Array,
        tables: &(Array, Array),
        cache: &mut KvCache,
    ) -> Result<Array, Exception> {
        let normed = tap("input_layernorm", self.input_layernorm.forward(x)?)?;
        let attended = self.self_attn.forward(&normed, tables, cache)?;
        let attended = tap("post_attention_layernorm", self.post_attention_layernorm.forward(&attended)?)?;
        let x = tap("attn_residual", x.add(attended)?)?;
        let normed = tap("pre_feedforward_layernorm", self.pre_feedforward_layernorm.forward(&x)?)?;
        let y = self.mlp.forward(&normed)?;
        let y = tap("post_feedforward_layernorm", self.post_feedforward_layernorm.forward(&y)?)?;
        tap("out", x.add(y)?)
    }
}

/// `down(gelu(gate(x)) * up(x))`.
#[derive(Debug, ModuleParameters)]
pub struct Mlp {
    /// Gate projection, which goes through GELU.
    #[param]
    pub gate_proj: nn::Linear,
    /// Projection that is multiplied with the activated one.
    #[param]
    pub up_proj: nn::Linear,
    /// Output projection.
    #[param]
    pub down_proj: nn::Linear,
}

impl Mlp {
    fn new(dim: i32, inner: i32) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        Ok(Self {
            gate_proj: linear(dim, inner)?,
            up_proj: linear(dim, inner)?,
            down_proj: linear(inner, dim)?,
        })
    }

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("mlp", None);
        let gate = tap("act_fn", gelu(&tap("gate_proj", self.gate_proj.forward(x)?)?)?)?;
        let gated = tap("gated", gate.multiply(tap("up_proj", self.up_proj.forward(x)?)?)?)?;
        tap("down_proj", self.down_proj.forward(&gated)?)
    }
}
