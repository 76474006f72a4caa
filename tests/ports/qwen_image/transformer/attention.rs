//! Joint attention of image and text tokens.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, fast, nn, ops};

use super::layers::rms_norm;
use super::rope::rotate;

/// Attention over both streams, with separate projections.
#[derive(Debug, ModuleParameters)]
pub struct JointAttention {
    /// Projections of the image.
    #[param]
    pub img: Projections,
    /// Projections of the text.
    #[param]
    pub txt: Projections,
}

/// The projections of one stream.
#[derive(Debug, ModuleParameters)]
pub struct Projections {
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
    /// Output projection.
    #[param]
    pub to_out: nn::Linear,
}

impl JointAttention {
    pub(super) fn new(dim: i32, head_dim: i32) -> Result<Self, Exception> {
        Ok(Self { img: Projections::new(dim, head_dim)?, txt: Projections::new(dim, head_dim)? })
    }

    /// Attention output for image and text tokens, `[batch, tokens, features]` each.
    pub fn forward(
        &mut self,
        img: &Array,
        txt: &Array,
        (of_img, of_txt): &(Array, Array),
        mask: &Array,
    ) -> Result<(Array, Array), Exception> {
        let _scope = scope("attn", None);
        let img = self.img.project("img", img)?;
        let txt = self.txt.project("txt", txt)?;
        let img = self.img.norm("img", img)?;
        let txt = self.txt.norm("txt", txt)?;
        let img = img.turned("img", of_img)?;
        let txt = txt.turned("txt", of_txt)?;

        // Text tokens come first.
        let join = |txt: &Array, img: &Array| ops::concatenate(&[txt, img], 1)?.transpose_axes(&[0, 2, 1, 3]);
        let (q, k, v) = (join(&txt.q, &img.q)?, join(&txt.k, &img.k)?, join(&txt.v, &img.v)?);
        let context = tap("context", attend(&q, &k, &v, mask)?)?;
        let context = context.transpose_axes(&[0, 2, 1, 3])?.flatten(2, 3)?;
        let words = txt.q.dim(1);
        let img = self.img.to_out.forward(&context.try_index((.., words.., ..))?)?;
        let img = tap("img.to_out", img)?;
        let txt = self.txt.to_out.forward(&context.try_index((.., ..words, ..))?)?;
        Ok((img, tap("txt.to_out", txt)?))
    }
}

/// Queries, keys and values of one stream, `[batch, tokens, heads, features]`.
struct Heads {
    q: Array,
    k: Array,
    v: Array,
}

impl Projections {
    fn new(dim: i32, head_dim: i32) -> Result<Self, Exception> {
        let linear = || nn::Linear::new(dim, dim);
        Ok(Self {
            to_q: linear()?,
            to_k: linear()?,
            to_v: linear()?,
            norm_q: rms_norm(head_dim)?,
            norm_k: rms_norm(head_dim)?,
            to_out: linear()?,
        })
    }

    fn project(&mut self, stream: &str, x: &Array) -> Result<Heads, Exception> {
        let _scope = scope(stream, None);
        let head_dim = self.norm_q.weight.dim(0);
        let heads = |x: Array| x.reshape(&[x.dim(0), x.dim(1), -1, head_dim]);
        Ok(Heads {
            q: heads(tap("to_q", self.to_q.forward(x)?)?)?,
            k: heads(tap("to_k", self.to_k.forward(x)?)?)?,
            v: heads(tap("to_v", self.to_v.forward(x)?)?)?,
        })
    }

    fn norm(&mut self, stream: &str, heads: Heads) -> Result<Heads, Exception> {
        let _scope = scope(stream, None);
        Ok(Heads {
            q: tap("norm_q", self.norm_q.forward(&heads.q)?)?,
            k: tap("norm_k", self.norm_k.forward(&heads.k)?)?,
            v: heads.v,
        })
    }
}

impl Heads {
    fn turned(self, stream: &str, table: &Array) -> Result<Self, Exception> {
        let _scope = scope(stream, None);
        Ok(Self {
            q: tap("q_rope", rotate(&self.q, table)?)?,
            k: tap("k_rope", rotate(&self.k, table)?)?,
            v: self.v,
        })
    }
}

/// Which keys are visible, `[batch, 1, 1, text + patches]`: every patch, and the text tokens of a `[batch, text]` mask.
pub(super) fn joint_mask(words: &Array, patches: i32) -> Result<Array, Exception> {
    let patches = ops::ones::<bool>(&[words.dim(0), patches])?;
    ops::concatenate(&[&words.as_dtype(Dtype::Bool)?, &patches], 1)?.expand_dims_axes(&[1, 2])
}

/// Attention of `[batch, heads, tokens, features]`.
fn attend(q: &Array, k: &Array, v: &Array, mask: &Array) -> Result<Array, Exception> {
    let scale = 1.0 / (q.dim(-1) as f32).sqrt();
    fast::scaled_dot_product_attention(q, k, v, scale, mask, None)
}
