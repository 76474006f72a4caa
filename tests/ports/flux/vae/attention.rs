//! Attention between the pixels of the latents.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};

use super::layers::group_norm;

/// Attention with one head over all channels, and a residual.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
    /// First norm.
    #[param]
    pub group_norm: nn::GroupNorm,
    /// Query projection for all heads.
    #[param]
    pub to_q: nn::Linear,
    /// Key projection for all heads.
    #[param]
    pub to_k: nn::Linear,
    /// Value projection for all heads.
    #[param]
    pub to_v: nn::Linear,
    /// Output projection, in a list of one as in diffusers.
    #[param]
    pub to_out: Vec<nn::Linear>,
}

impl Attention {
    pub(super) fn new(channels: i32, groups: i32) -> Result<Self, Exception> {
        let linear = || nn::Linear::new(channels, channels);
        Ok(Self {
            group_norm: group_norm(groups, channels)?,
            to_q: linear()?,
            to_k: linear()?,
            to_v: linear()?,
            to_out: vec![linear()?],
        })
    }

    pub(super) fn forward(&mut self, x: &Array, index: usize) -> Result<Array, Exception> {
        let _scope = scope("attentions", index);
        let &[batch, height, width, channels] = x.shape() else {
            return Err(Exception::custom(format!("expected four axes, found {:?}", x.shape())));
        };
        let pixels = x.reshape(&[batch, height * width, channels])?;
        let normed = tap("group_norm", self.group_norm.forward(&pixels)?)?;
        let q = tap("to_q", self.to_q.forward(&normed)?)?.expand_dims(1)?;
        let k = tap("to_k", self.to_k.forward(&normed)?)?.expand_dims(1)?;
        let v = tap("to_v", self.to_v.forward(&normed)?)?.expand_dims(1)?;
        let scale = (channels as f32).sqrt().recip();
        let mask = None::<ScaledDotProductAttentionMask>;
        let mixed = tap("sdpa", scaled_dot_product_attention(&q, &k, &v, scale, mask, None)?)?;
        let mut y = mixed.squeeze_axes(&[1])?;
        for (i, linear) in self.to_out.iter_mut().enumerate() {
            let _scope = scope("to_out", None);
            y = tap(&i.to_string(), linear.forward(&y)?)?;
        }
        tap("out", y.reshape(x.shape())?.add(x)?)
    }
}
