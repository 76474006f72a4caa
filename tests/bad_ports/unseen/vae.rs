//! Variants of the decoder of Flux's VAE.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::ops::{PadMode, broadcast_to, concatenate, conv2d, pad, tile};
use mlx_rs::{Array, nn};
use parity_tests::flux::load;
use parity_tests::flux::vae::{Attention, Decoder, ResnetBlock};

use super::ops::{Computed, attention, layer_norm_over, linear};
use super::{Variant, add};
use crate::change::{taken, times};

const NAMES: &[&str] = &[
    "padded_after_only",
    "padded_with_edge",
    "dilated",
    "eight_groups",
    "relu_for_silu",
    "normed_per_pixel",
    "scaled_by_pixels",
    "residual_of_normed",
    "shortcut_of_normed",
    "bilinear",
    "convolved_before_upsampling",
    "kernel_transposed",
    "activated_before_normed",
    "residual_over_root_two",
    // Rewrites.
    "padded_by_hand",
    "tiled_along_new_axes",
    "attention_by_formula",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flux::vae_decoder", NAMES, decode)
}

fn decode(run: &Run, v: &Variant) -> PortResult {
    let weights = run.weights()?;
    let mut decoder = Decoder::new(&run.params()?)?;
    load(&mut decoder, |name| weights.get(name))?;
    let latents = run.input("latents")?.transpose_axes(&[0, 2, 3, 1])?;
    forward(&decoder, &latents, v)?;
    Ok(())
}

fn forward(decoder: &Decoder, latents: &Array, v: &Variant) -> Computed {
    let mut x = tap("conv_in", conv(&decoder.conv_in, latents, v)?)?;
    {
        let _scope = scope("mid_block", None);
        let mid = &decoder.mid_block;
        x = resnet(&mid.resnets[0], 0, &x, v)?;
        x = attend(&mid.attentions[0], &x, v)?;
        x = resnet(&mid.resnets[1], 1, &x, v)?;
    }
    for (i, block) in decoder.up_blocks.iter().enumerate() {
        let _scope = scope("up_blocks", i);
        for (i, each) in block.resnets.iter().enumerate() {
            x = resnet(each, i, &x, v)?;
        }
        for (i, upsampler) in block.upsamplers.iter().enumerate() {
            let _scope = scope("upsamplers", i);
            let large = tap("interpolate", upsampled(&x, v)?)?;
            x = if v.is("convolved_before_upsampling") {
                upsampled(&conv(&upsampler.conv, &x, v)?, v)?
            } else {
                conv(&upsampler.conv, &large, v)?
            };
            x = tap("conv", x)?;
        }
    }
    let x = tap("conv_norm_out", group_norm(&decoder.conv_norm_out, &x, v)?)?;
    let x = tap("conv_act", activated(&x, v)?)?;
    tap("conv_out", conv(&decoder.conv_out, &x, v)?)
}

fn resnet(block: &ResnetBlock, index: usize, x: &Array, v: &Variant) -> Computed {
    let _scope = scope("resnets", index);
    let normed = tap("norm1", group_norm(&block.norm1, x, v)?)?;
    let active = |norm: &nn::GroupNorm, x: &Array, normed: &Array| {
        if v.is("activated_before_normed") {
            return group_norm(norm, &activated(x, v)?, v);
        }
        activated(normed, v)
    };
    let y = tap("act1", active(&block.norm1, x, &normed)?)?;
    let first = tap("conv1", conv(&block.conv1, &y, v)?)?;
    let y = tap("norm2", group_norm(&block.norm2, &first, v)?)?;
    let y = tap("act2", active(&block.norm2, &first, &y)?)?;
    let y = tap("conv2", conv(&block.conv2, &y, v)?)?;
    let shortcut = match &block.conv_shortcut {
        Some(layer) => {
            let from = if v.is("shortcut_of_normed") { &normed } else { x };
            tap("conv_shortcut", conv(layer, from, v)?)?
        }
        None => x.clone(),
    };
    let mut sum = shortcut.add(y)?;
    if v.is("residual_over_root_two") {
        sum = times(&sum, 0.5f32.sqrt())?;
    }
    tap("out", sum)
}

fn attend(layer: &Attention, x: &Array, v: &Variant) -> Computed {
    let _scope = scope("attentions", 0);
    let channels = x.dim(3);
    let pixels = x.reshape(&[x.dim(0), -1, channels])?;
    let normed = if v.is("normed_per_pixel") {
        // The groups of each pixel on their own, not of the whole image.
        let norm = &layer.group_norm;
        let groups = pixels.reshape(&[x.dim(0), -1, norm.group_count, channels / norm.group_count])?;
        let normed = layer_norm_over(&groups, -1, 0, 1e-6)?.reshape(pixels.shape())?;
        affine(norm, &normed)?
    } else {
        group_norm(&layer.group_norm, &pixels, v)?
    };
    let normed = tap("group_norm", normed)?;
    let q = tap("to_q", linear(&layer.to_q, &normed)?)?.expand_dims(1)?;
    let k = tap("to_k", linear(&layer.to_k, &normed)?)?.expand_dims(1)?;
    let values = tap("to_v", linear(&layer.to_v, &normed)?)?.expand_dims(1)?;
    let size = if v.is("scaled_by_pixels") { pixels.dim(1) } else { channels };
    let scale = (size as f32).sqrt().recip();
    let mixed = if v.is("attention_by_formula") {
        attention(&q, &k, &values, scale, -1)?
    } else {
        scaled_dot_product_attention(&q, &k, &values, scale, None::<ScaledDotProductAttentionMask>, None)?
    };
    let mixed = tap("sdpa", mixed)?.squeeze_axes(&[1])?;
    let y = {
        let _scope = scope("to_out", None);
        tap("0", linear(&layer.to_out[0], &mixed)?)?
    };
    let residual = if v.is("residual_of_normed") { normed.reshape(x.shape())? } else { x.clone() };
    tap("out", y.reshape(x.shape())?.add(residual)?)
}

fn conv(layer: &nn::Conv2d, x: &Array, v: &Variant) -> Computed {
    let (side, _) = layer.padding;
    let around = |x: &Array, before: i32, after: i32, mode| {
        let width = [(0, 0), (before, after), (before, after), (0, 0)];
        pad(x, &width, None, mode)
    };
    let without = |x: Array| conv2d(x, &*layer.weight, layer.stride, (0, 0), layer.dilation, layer.groups);
    let y = if v.is("padded_after_only") {
        without(around(x, 0, 2 * side, PadMode::Constant)?)?
    } else if v.is("padded_with_edge") {
        without(around(x, side, side, PadMode::Edge)?)?
    } else if v.is("padded_by_hand") {
        without(around(x, side, side, PadMode::Constant)?)?
    } else if v.is("kernel_transposed") {
        // `[out, in, height, width]` turned to `[out, width, height, in]`.
        let weight = layer.weight.transpose_axes(&[0, 2, 1, 3])?;
        conv2d(x, weight, layer.stride, layer.padding, layer.dilation, layer.groups)?
    } else if v.is("dilated") {
        conv2d(x, &*layer.weight, layer.stride, (2 * side, 2 * side), (2, 2), layer.groups)?
    } else {
        conv2d(x, &*layer.weight, layer.stride, layer.padding, layer.dilation, layer.groups)?
    };
    match &layer.bias.value {
        Some(bias) => y.add(bias),
        None => Ok(y),
    }
}

fn group_norm(norm: &nn::GroupNorm, x: &Array, v: &Variant) -> Computed {
    let (batch, channels) = (x.dim(0), x.dim(-1));
    let groups = if v.is("eight_groups") { 8 } else { norm.group_count };
    let apart = x.reshape(&[batch, -1, groups, channels / groups])?.transpose_axes(&[0, 2, 1, 3])?;
    let normed = mlx_rs::fast::layer_norm(apart.reshape(&[batch, groups, -1])?, None, None, 1e-6)?;
    let normed = normed.reshape(apart.shape())?.transpose_axes(&[0, 2, 1, 3])?.reshape(x.shape())?;
    affine(norm, &normed)
}

fn affine(norm: &nn::GroupNorm, normed: &Array) -> Computed {
    match (&norm.weight.value, &norm.bias.value) {
        (Some(weight), Some(bias)) => normed.multiply(weight)?.add(bias),
        _ => Ok(normed.clone()),
    }
}

fn activated(x: &Array, v: &Variant) -> Computed {
    if v.is("relu_for_silu") { nn::relu(x) } else { nn::silu(x) }
}

/// Doubles height and width.
fn upsampled(x: &Array, v: &Variant) -> Computed {
    let (batch, height, width, channels) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    if v.is("bilinear") {
        return doubled(&doubled(x, 1)?, 2);
    }
    let apart = x.reshape(&[batch, height, 1, width, 1, channels])?;
    let repeated = if v.is("tiled_along_new_axes") {
        tile(&apart, &[1, 1, 2, 1, 2, 1])?
    } else {
        broadcast_to(&apart, &[batch, height, 2, width, 2, channels])?
    };
    repeated.reshape(&[batch, 2 * height, 2 * width, channels])
}

/// Doubles the length of an axis by linear interpolation between the middles of pixels.
fn doubled(x: &Array, axis: i32) -> Computed {
    let length = x.dim(axis);
    let before = taken(x, axis, (0..length).map(|i| (i - 1).max(0)))?;
    let after = taken(x, axis, (0..length).map(|i| (i + 1).min(length - 1)))?;
    let near = times(x, 0.75)?;
    let (first, second) = (near.add(times(&before, 0.25)?)?, near.add(times(&after, 0.25)?)?);
    let both = concatenate(&[first.expand_dims(axis + 1)?, second.expand_dims(axis + 1)?], axis + 1)?;
    let mut shape = x.shape().to_vec();
    shape[axis as usize] *= 2;
    both.reshape(&shape)
}
