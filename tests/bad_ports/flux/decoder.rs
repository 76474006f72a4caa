//! Faults in the decoder of Flux's VAE, and at the taps of the pipeline.

use mlx_parity::Suite;
use mlx_rs::{Axes, Dtype, nn, ops};

use super::right::{decode, generate};
use crate::at_tap::{TapFault, add_faults};
use crate::change::{backwards, memory_of, plus, through, times};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "flux::vae_decoder", |run| decode(run, |_, _| {}), DECODER);
    let suite = add_faults(suite, "flux::pipeline", |run| generate(run, |_, _| {}), PIPELINE);
    suite
        // The order of colours in OpenCV.
        .port("flux::vae_decoder/blue_first", |run| {
            decode(run, |decoder, _| {
                let conv = &mut decoder.conv_out;
                conv.weight.value = backwards(&conv.weight.value, 0).expect("a kernel has axes");
                conv.bias.value =
                    conv.bias.value.as_ref().map(|bias| backwards(bias, 0).expect("there is an axis"));
            })
        })
        .port("flux::vae_decoder/last_norm_without_bias", |run| {
            decode(run, |decoder, _| {
                let bias = &mut decoder.conv_norm_out.bias.value;
                *bias = bias.as_ref().map(|bias| ops::zeros_like(bias).expect("there is room"));
            })
        })
        // A convolution as mathematics defines it, with a mirrored kernel.
        .port("flux::vae_decoder/kernel_mirrored", |run| {
            decode(run, |decoder, _| {
                let weight = &mut decoder.conv_in.weight.value;
                *weight = weight.flip(Axes::Axes(vec![1, 2])).expect("a kernel has four axes");
            })
        })
        .port("flux::vae_decoder/kernel_in_half_precision", |run| {
            decode(run, |decoder, _| {
                let weight = &mut decoder.conv_in.weight.value;
                *weight = through(weight, Dtype::Float16).expect("numbers can be rounded");
            })
        })
        .port("flux::pipeline/latents_not_scaled", |run| {
            generate(run, |config, _| config.vae.scaling_factor = 1.0)
        })
}

const DECODER: &[TapFault] = &[
    // The layout of the reference.
    ("channels_first", "conv_in", &[], |x, _| x.transpose_axes(&[0, 3, 1, 2])),
    // The memory of `[channels, pixels]` in the shape `[pixels, channels]`.
    ("read_as_channels_last", "mid_block.attentions.0.group_norm", &[], |x, _| memory_of(x, &[0, 2, 1])),
    // At this level height and channels are equal, so the shape does not show it.
    (
        "bias_along_rows",
        "up_blocks.1.upsamplers.0.conv",
        &["weights/up_blocks.1.upsamplers.0.conv.bias"],
        |x, from| x.subtract(&from[0])?.add(from[0].reshape(&[-1, 1, 1])?),
    ),
    (
        "norm_weight_along_rows",
        "up_blocks.2.resnets.0.norm1",
        &["weights/up_blocks.2.resnets.0.norm1.weight", "weights/up_blocks.2.resnets.0.norm1.bias"],
        |x, from| {
            let normed = x.subtract(&from[1])?.divide(&from[0])?;
            normed.multiply(from[0].reshape(&[-1, 1, 1])?)?.add(&from[1])
        },
    ),
    ("residual_twice", "up_blocks.0.resnets.0.out", &["mid_block.resnets.1.out"], |x, from| x.add(&from[0])),
    ("no_activation", "mid_block.resnets.0.act1", &["mid_block.resnets.0.norm1"], |_, from| {
        Ok(from[0].clone())
    }),
    ("activated_twice", "mid_block.resnets.0.act2", &[], |x, _| nn::silu(x)),
    // `tile` in place of `repeat`: the image is repeated, not each pixel.
    ("tiled", "up_blocks.0.upsamplers.0.interpolate", &[], |x, _| {
        let shape = [1, x.dim(1) / 2, 2, x.dim(2) / 2, 2, x.dim(3)];
        x.reshape(&shape)?.transpose_axes(&[0, 2, 1, 4, 3, 5])?.reshape(x.shape())
    }),
];

const PIPELINE: &[TapFault] = &[
    // A reshape of the two-by-two patches to the shape of the latents, without the transpose.
    ("patches_not_turned", "unpacked", &[], |x, _| {
        let patches = x.reshape(&[1, 2, 2, 3, 2, 4])?.transpose_axes(&[0, 1, 3, 5, 2, 4])?;
        patches.reshape(x.shape())
    }),
    ("upside_down", "pixels", &[], |x, _| backwards(x, 1)),
    ("velocity_backwards", "step.0.velocity", &[], |x, _| x.negative()),
    // The range 0 to 1, where the next stage expects -1 to 1.
    ("image_from_zero", "image", &[], |x, _| plus(&times(x, 0.5)?, 0.5)),
    ("clamped_early", "image", &[], |x, _| ops::clip(x, (-1.0f32, 1.0f32))),
    // `(latents + shift) / scale`.
    ("shift_before_scale", "unpacked", &[], |x, _| plus(x, 0.1159 / 0.3611 - 0.1159)),
];
