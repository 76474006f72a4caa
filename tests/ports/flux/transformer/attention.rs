//! Attention over text and image together.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, nn};

use super::rope::Tables;

/// Attention of a block with one stream. The block itself has the output projection.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
    /// Query projection for all heads.
    #[param]
    pub to_q: nn::Linear,
    /// Key projection for all heads.
    #[param]
    pub to_k: nn::Linear,
    /// Value projection for all heads.
    #[param]
    pub to_v: nn::Linear,
    /// Norm of each query head.
    #[param]
    pub norm_q: nn::RmsNorm,
    /// Norm of each key head.
    #[param]
    pub norm_k: nn::RmsNorm,
    heads: i32,
}

impl Attention {
    pub(super) fn new(dim: i32, heads: i32) -> Result<Self, Exception> {
        Ok(Self {
            to_q: nn::Linear::new(dim, dim)?,
            to_k: nn::Linear::new(dim, dim)?,
            to_v: nn::Linear::new(dim, dim)?,
            norm_q: head_norm(dim / heads)?,
            norm_k: head_norm(dim / heads)?,
            heads,
        })
    }

    /// Maps `[batch, tokens, dim]` to the same shape.
    pub(super) fn forward(&mut self, x: &Array, rope: &Tables) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let q = heads(&tap("to_q", self.to_q.forward(x)?)?, self.heads)?;
        let k = heads(&tap("to_k", self.to_k.forward(x)?)?, self.heads)?;
        let v = heads(&tap("to_v", self.to_v.forward(x)?)?, self.heads)?;
        let q = tap("norm_q", self.norm_q.forward(&q)?)?;
        let k = tap("norm_k", self.norm_k.forward(&k)?)?;
        attend(&q, &k, &v, rope)
    }
}

/// Attention of a block with two streams, which have separate projections.
#[derive(Debug, ModuleParameters)]
pub struct JointAttention {
    /// Query projection of the image.
    #[param]
    pub to_q: nn::Linear,
    /// Key projection of the image.
    #[param]
    pub to_k: nn::Linear,
    /// Value projection of the image.
    #[param]
    pub to_v: nn::Linear,
    /// Query projection of the text.
    #[param]
    pub add_q_proj: nn::Linear,
    /// Key projection of the text.
    #[param]
    pub add_k_proj: nn::Linear,
    /// Value projection of the text.
    #[param]
    pub add_v_proj: nn::Linear,
    /// Norm of each query head of the image.
    #[param]
    pub norm_q: nn::RmsNorm,
    /// Norm of each key head of the image.
    #[param]
    pub norm_k: nn::RmsNorm,
    /// Norm of each query head of the text.
    #[param]
    pub norm_added_q: nn::RmsNorm,
    /// Norm of each key head of the text.
    #[param]
    pub norm_added_k: nn::RmsNorm,
    /// Output projection of the image.
    #[param]
    pub to_out: nn::Linear,
    /// Output projection of the text.
    #[param]
    pub to_add_out: nn::Linear,
    heads: i32,
}

impl JointAttention {
    pub(super) fn new(dim: i32, heads: i32) -> Result<Self, Exception> {
        let linear = || nn::Linear::new(dim, dim);
        Ok(Self {
            to_q: linear()?,
            to_k: linear()?,
            to_v: linear()?,
            add_q_proj: linear()?,
            add_k_proj: linear()?,
            add_v_proj: linear()?,
            norm_q: head_norm(dim / heads)?,
            norm_k: head_norm(dim / heads)?,
            norm_added_q: head_norm(dim / heads)?,
            norm_added_k: head_norm(dim / heads)?,
            to_out: linear()?,
            to_add_out: linear()?,
            heads,
        })
    }

    /// Maps text and image, both `[batch, tokens, dim]`, to the same shapes. The text comes first in the sequence.
    pub(super) fn forward(
        &mut self,
        text: &Array,
        image: &Array,
        rope: &Tables,
    ) -> Result<(Array, Array), Exception> {
        let _scope = scope("attn", None);
        let image_q = heads(&tap("to_q", self.to_q.forward(image)?)?, self.heads)?;
        let image_k = heads(&tap("to_k", self.to_k.forward(image)?)?, self.heads)?;
        let image_v = heads(&tap("to_v", self.to_v.forward(image)?)?, self.heads)?;
        let text_q = heads(&tap("add_q_proj", self.add_q_proj.forward(text)?)?, self.heads)?;
        let text_k = heads(&tap("add_k_proj", self.add_k_proj.forward(text)?)?, self.heads)?;
        let text_v = heads(&tap("add_v_proj", self.add_v_proj.forward(text)?)?, self.heads)?;

        let image_q = tap("norm_q", self.norm_q.forward(&image_q)?)?;
        let image_k = tap("norm_k", self.norm_k.forward(&image_k)?)?;
        let text_q = tap("norm_added_q", self.norm_added_q.forward(&text_q)?)?;
        let text_k = tap("norm_added_k", self.norm_added_k.forward(&text_k)?)?;

        let q = concatenate(&[&text_q, &image_q], 1)?;
        let k = concatenate(&[&text_k, &image_k], 1)?;
        let v = concatenate(&[&text_v, &image_v], 1)?;
        let parts = attend(&q, &k, &v, rope)?.split_at_indices(&[text.dim(1)], 1)?;
        let image = tap("to_out", self.to_out.forward(&parts[1])?)?;
        let text = tap("to_add_out", self.to_add_out.forward(&parts[0])?)?;
        Ok((text, image))
    }
}

/// A norm over the features of a head.
fn head_norm(features: i32) -> Result<nn::RmsNorm, Exception> {
    // The default of mlx-rs is 1e-5.
    nn::RmsNormBuilder::new(features).eps(1e-6).build()
}

/// Splits `[batch, tokens, dim]` into `[batch, tokens, heads, features]`.
fn heads(x: &Array, heads: i32) -> Result<Array, Exception> {
    x.reshape(&[x.dim(0), x.dim(1), heads, -1])
}

/// Attention with rotated queries and keys, with the heads joined again.
fn attend(q: &Array, k: &Array, v: &Array, rope: &Tables) -> Result<Array, Exception> {
    let q = tap("q_rope", rope.turn(q)?)?;
    let k = tap("k_rope", rope.turn(k)?)?;
    let heads_first = |x: &Array| x.transpose_axes(&[0, 2, 1, 3]);
    let scale = (q.dim(-1) as f32).sqrt().recip();
    let mask = None::<ScaledDotProductAttentionMask>;
    let (q, k, v) = (heads_first(&q)?, heads_first(&k)?, heads_first(v)?);
    let mixed = tap("sdpa", scaled_dot_product_attention(&q, &k, &v, scale, mask, None)?)?;
    mixed.transpose_axes(&[0, 2, 1, 3])?.reshape(&[v.dim(0), v.dim(2), -1])
}
