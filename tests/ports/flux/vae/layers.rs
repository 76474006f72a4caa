//! Layers that the VAE uses in many places.

use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::nn;

/// A convolution with an odd kernel that keeps height and width.
pub(super) fn conv(from: i32, to: i32, kernel: i32) -> Result<nn::Conv2d, Exception> {
    nn::Conv2dBuilder::new(from, to, kernel)
        .padding(kernel / 2)
        .build()
        .map_err(|error| Exception::custom(error.to_string()))
}

/// A group norm over neighbouring channels, with the epsilon of diffusers.
pub(super) fn group_norm(groups: i32, channels: i32) -> Result<nn::GroupNorm, Exception> {
    // By default, mlx-rs groups every n-th channel, with an epsilon of 1e-5.
    nn::GroupNormBuilder::new(groups, channels).pytorch_compatible(true).eps(1e-6).build()
}
