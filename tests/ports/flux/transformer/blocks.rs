//! The two kinds of block.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, nn};

use super::attention::{Attention, JointAttention};
use super::norm::{AdaLayerNorm, layer_norm, modulate};
use super::numeric::gelu;
use super::rope::Tables;

/// The modulations that a stream of a two-stream block uses after its first norm.
const LATER: [&str; 4] = ["gate_msa", "shift_mlp", "scale_mlp", "gate_mlp"];

/// A block with a text stream and an image stream, which share their attention.
#[derive(Debug, ModuleParameters)]
pub struct DoubleBlock {
    /// Norm of the image before attention.
    #[param]
    pub norm1: AdaLayerNorm,
    /// Norm of the text before attention.
    #[param]
    pub norm1_context: AdaLayerNorm,
    /// Attention over both streams.
    #[param]
    pub attn: JointAttention,
    /// Feed-forward part of the image.
    #[param]
    pub ff: FeedForward,
    /// Feed-forward part of the text.
    #[param]
    pub ff_context: FeedForward,
}

impl DoubleBlock {
    pub(super) fn new(dim: i32, heads: i32) -> Result<Self, Exception> {
        Ok(Self {
            norm1: AdaLayerNorm::new(dim, 6)?,
            norm1_context: AdaLayerNorm::new(dim, 6)?,
            attn: JointAttention::new(dim, heads)?,
            ff: FeedForward::new(dim)?,
            ff_context: FeedForward::new(dim)?,
        })
    }

    /// Maps text and image, both `[batch, tokens, dim]`, to the same shapes.
    pub(super) fn forward(
        &mut self,
        text: &Array,
        image: &Array,
        condition: &Array,
        rope: &Tables,
    ) -> Result<(Array, Array), Exception> {
        let (image_in, image_later) = {
            let _scope = scope("norm1", None);
            self.norm1.forward(image, condition, LATER)?
        };
        let (text_in, text_later) = {
            let _scope = scope("norm1_context", None);
            self.norm1_context.forward(text, condition, LATER)?
        };
        let (text_mixed, image_mixed) = self.attn.forward(&text_in, &image_in, rope)?;
        let image = finish(&mut self.ff, image, &image_mixed, &image_later, "")?;
        let text = finish(&mut self.ff_context, text, &text_mixed, &text_later, "_context")?;
        Ok((tap("encoder_hidden_states", text)?, tap("hidden_states", image)?))
    }
}

/// A stream after attention: the first residual, the feed-forward part and the second residual.
fn finish(
    ff: &mut FeedForward,
    x: &Array,
    mixed: &Array,
    [gate_msa, shift_mlp, scale_mlp, gate_mlp]: &[Array; 4],
    suffix: &str,
) -> Result<Array, Exception> {
    let named = |name: &str, array| tap(&format!("{name}{suffix}"), array);
    let gated = named("gated_attn", gate_msa.expand_dims(1)?.multiply(mixed)?)?;
    let x = named("residual", x.add(gated)?)?;
    let normed = named("norm2", layer_norm(&x)?)?;
    let modulated = named("modulated", modulate(&normed, scale_mlp, shift_mlp)?)?;
    let y = {
        let _scope = scope(&format!("ff{suffix}"), None);
        ff.forward(&modulated)?
    };
    x.add(named("gated_ff", gate_mlp.expand_dims(1)?.multiply(y)?)?)
}

/// Feed-forward part, with four times the features inside.
#[derive(Debug, ModuleParameters)]
pub struct FeedForward {
    /// Projection that goes through GELU.
    #[param]
    pub proj: nn::Linear,
    /// Output projection.
    #[param]
    pub out: nn::Linear,
}

impl FeedForward {
    fn new(dim: i32) -> Result<Self, Exception> {
        Ok(Self { proj: nn::Linear::new(dim, 4 * dim)?, out: nn::Linear::new(4 * dim, dim)? })
    }

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let x = tap("proj", self.proj.forward(x)?)?;
        let x = tap("act", gelu(&x)?)?;
        tap("out", self.out.forward(&x)?)
    }
}

/// A block with one stream, whose attention and feed-forward part run in parallel.
#[derive(Debug, ModuleParameters)]
pub struct SingleBlock {
    /// Norm before attention and feed-forward part.
    #[param]
    pub norm: AdaLayerNorm,
    /// Projection that goes through GELU.
    #[param]
    pub proj_mlp: nn::Linear,
    /// Attention, in parallel.
    #[param]
    pub attn: Attention,
    /// Output projection of both.
    #[param]
    pub proj_out: nn::Linear,
}

impl SingleBlock {
    pub(super) fn new(dim: i32, heads: i32) -> Result<Self, Exception> {
        Ok(Self {
            norm: AdaLayerNorm::new(dim, 3)?,
            proj_mlp: nn::Linear::new(dim, 4 * dim)?,
            attn: Attention::new(dim, heads)?,
            proj_out: nn::Linear::new(5 * dim, dim)?,
        })
    }

    /// Maps text followed by image, `[batch, tokens, dim]`, to the same shape.
    pub(super) fn forward(
        &mut self,
        x: &Array,
        condition: &Array,
        rope: &Tables,
    ) -> Result<Array, Exception> {
        let (normed, [gate]) = {
            let _scope = scope("norm", None);
            self.norm.forward(x, condition, ["gate"])?
        };
        let mlp = tap("proj_mlp", self.proj_mlp.forward(&normed)?)?;
        let mlp = tap("act_mlp", gelu(&mlp)?)?;
        let mixed = self.attn.forward(&normed, rope)?;
        let y = tap("proj_out", self.proj_out.forward(&concatenate(&[&mixed, &mlp], -1)?)?)?;
        let gated = tap("gated", gate.expand_dims(1)?.multiply(y)?)?;
        tap("out", x.add(gated)?)
    }
}
