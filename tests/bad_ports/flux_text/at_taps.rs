//! Faults at the taps of the text encoders.

use mlx_parity::Suite;
use mlx_rs::ops::{concatenate, ones_like, sigmoid, zeros_like};
use mlx_rs::{Array, Dtype, fast, nn};

use super::{clip_with, t5_with};
use crate::at_tap::{TapFault, add_faults};
use crate::change::{drawn, layer_norm, memory_of, rms_norm, softmax, taken, through, times};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "flux::clip", |run| clip_with(run, |_| {}, |_| Ok(())), CLIP);
    let suite = add_faults(suite, "flux::t5", |run| t5_with(run, |_, _| {}, |_| {}), T5);
    suite
        // The layer keeps its zeros, since its weights have another name.
        .port("flux::clip/second_layer_zero", |run| {
            clip_with(
                run,
                |_| {},
                |encoder| {
                    let fc2 = &mut encoder.layers[0].mlp.fc2;
                    fc2.weight.value = zeros_like(&fc2.weight.value)?;
                    fc2.bias.value = None;
                    Ok(())
                },
            )
        })
        // The first transformers scaled so.
        .port("flux::t5/embedding_scaled", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| {
                    let weight = &mut encoder.embed.weight.value;
                    *weight = times(weight, 48f32.sqrt()).expect("numbers can be multiplied");
                },
            )
        })
        .port("flux::t5/last_norm_without_weight", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| {
                    let weight = &mut encoder.final_norm.weight.value;
                    *weight = ones_like(&*weight).expect("there is room");
                },
            )
        })
        // The layer keeps its initial weights, of the right size but untrained.
        .port("flux::t5/embedding_not_loaded", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| {
                    let weight = &mut encoder.embed.weight.value;
                    *weight = drawn(weight).expect("there is a key");
                },
            )
        })
}

const CLIP: &[TapFault] = &[
    ("keys_by_queries", "layers.0.attn.scores", &[], |x, _| x.transpose_axes(&[0, 1, 3, 2])),
    ("position_without_batch", "embed.position", &[], |x, _| x.squeeze_axes(&[0])),
    ("heads_not_put_back", "layers.0.attn.context", &[], |x, _| memory_of(x, &[0, 2, 1, 3])),
    // Positions from a table with one place more, interpolated.
    ("positions_stretched", "embed.position", &[], |x, _| {
        let length = x.dim(1);
        let next = taken(x, 1, (0..length).map(|i| (i + 1).min(length - 1)))?;
        let share: Vec<f32> = (0..length).map(|i| i as f32 / (length + 1) as f32).collect();
        let share = Array::from_slice(&share, &[1, length, 1]);
        x.add(next.subtract(x)?.multiply(share)?)
    }),
    ("scores_not_scaled", "layers.0.attn.scores", &[], |x, _| times(x, 12f32.sqrt())),
    // The exponentials are not divided by their sum.
    ("probs_not_normalised", "layers.0.attn.probs", &[], |x, _| x.divide(x.max_axis(-1, true)?)),
    ("no_residual", "layers.0.attended", &["layers.0.attn.out"], |_, from| Ok(from[0].clone())),
    ("no_positions", "embed.out", &["embed.token"], |_, from| Ok(from[0].clone())),
    ("scores_in_half_precision", "layers.0.attn.scores", &[], |x, _| through(x, Dtype::Float16)),
    // `gelu_fast_approximate` of mlx-rs.
    ("gelu_fast", "layers.0.mlp.act", &["layers.0.mlp.fc1"], |_, from| {
        from[0].multiply(sigmoid(times(&from[0], 1.773)?)?)
    }),
    (
        "rms_for_layer_norm",
        "layers.0.norm1",
        &["embed.out", "weights/layers.0.norm1.weight", "weights/layers.0.norm1.bias"],
        |_, from| fast::rms_norm(&from[0], Some(&from[1]), 1e-5)?.add(&from[2]),
    ),
    // The scores are scaled, but attention uses the unscaled ones.
    ("softmax_of_unscaled", "layers.0.attn.probs", &["layers.0.attn.scores"], |_, from| {
        softmax(&from[0], 12f32.sqrt(), Some(0))
    }),
    // No token sees itself, and the first sees none.
    ("row_masked_whole", "layers.0.attn.probs", &["layers.0.attn.scores"], |_, from| {
        softmax(&from[0], 1.0, Some(-1))
    }),
    ("normed_twice", "out", &["weights/final_norm.weight", "weights/final_norm.bias"], |x, from| {
        fast::layer_norm(x, Some(&from[0]), Some(&from[1]), 1e-5)
    }),
    // The variable of the previous layer.
    ("context_of_last_layer", "layers.1.attn.context", &["layers.0.attn.context"], |_, from| {
        Ok(from[0].clone())
    }),
];

const T5: &[TapFault] = &[
    // The distance from key to query, with the opposite sign.
    ("offsets_backwards", "blocks.0.attn.buckets", &[], |x, _| x.transpose_axes(&[1, 0])),
    ("norm_in_bfloat16", "blocks.0.norm1", &[], |x, _| through(x, Dtype::Bfloat16)),
    ("layer_for_rms_norm", "blocks.0.norm1", &["embed", "weights/blocks.0.norm1.weight"], |_, from| {
        layer_norm(&from[0], 1e-6)?.multiply(&from[1])
    }),
    ("no_last_norm", "out", &["blocks.2.out"], |_, from| Ok(from[0].clone())),
    ("activation_on_up", "blocks.0.mlp.gated", &["blocks.0.mlp.wi_0", "blocks.0.mlp.wi_1"], |_, from| {
        from[0].multiply(nn::gelu_approximate(&from[1])?)
    }),
    ("no_relative_bias", "blocks.0.attn.biased", &["blocks.0.attn.scores"], |_, from| Ok(from[0].clone())),
    // The mean square over all tokens, not per token.
    ("normed_over_tokens", "blocks.0.norm1", &["embed", "weights/blocks.0.norm1.weight"], |x, from| {
        let tokens = from[0].reshape(&[x.dim(0), 1, -1])?;
        rms_norm(&tokens)?.reshape(x.shape())?.multiply(&from[1])
    }),
    // The order of heads in another checkpoint.
    ("heads_of_bias_swapped", "blocks.0.attn.bias", &[], |x, _| {
        let halves = x.split_equal(2, -1)?;
        concatenate(&[&halves[1], &halves[0]], -1)
    }),
];
