//! One decoder layer.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};

use super::{Attention, Config, KvCache, norm};

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

impl Layer {
    pub(super) fn new(config: &Config) -> Result<Self, Exception> {
        Ok(Self {
            input_layernorm: norm(config.hidden_size, config.rms_norm_eps)?,
            self_attn: Attention::new(config)?,
            post_attention_layernorm: norm(config.hidden_size, config.rms_norm_eps)?,
            mlp: Mlp::new(config.hidden_size, config.intermediate_size, false)?,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape; the tables are the rotary cosines and sines of these tokens.
    pub fn forward(
        &mut self,
        x: &Array,
        tables: &(Array, Array),
        cache: &mut KvCache,
    ) -> Result<Array, Exception> {
        let normed = tap("input_layernorm", self.input_layernorm.forward(x)?)?;
        let x = tap("attn_residual", x.add(self.self_attn.forward(&normed, tables, cache)?)?)?;
        let normed = tap("post_attention_layernorm", self.post_attention_layernorm.forward(&x)?)?;
        tap("out", x.add(self.mlp.forward(&normed)?)?)
    }
}

/// `down(silu(gate(x)) * up(x))`.
#[derive(Debug, ModuleParameters)]
pub struct Mlp {
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

impl Mlp {
    /// Creates an MLP of these sizes, with or without biases. Its parameters still have to be loaded.
    pub fn new(dim: i32, inner: i32, bias: bool) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(bias).build();
        Ok(Self {
            gate_proj: linear(dim, inner)?,
            up_proj: linear(dim, inner)?,
            down_proj: linear(inner, dim)?,
        })
    }

    /// Maps `[…, hidden]` to the same shape.
    pub fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("mlp", None);
        let gate = tap("act_fn", nn::silu(tap("gate_proj", self.gate_proj.forward(x)?)?)?)?;
        let gated = tap("gated", gate.multiply(tap("up_proj", self.up_proj.forward(x)?)?)?)?;
        tap("down_proj", self.down_proj.forward(&gated)?)
    }
}
