//! Faults at the taps of the transformer. Those in [`IN_BFLOAT16`] are for the spec in that dtype.

use mlx_parity::Suite;
use mlx_rs::ops::{concatenate, ones_like, zeros_like};
use mlx_rs::{Array, nn, ops};
use parity_tests::qwen_image::transformer::{Rope, rotate};

use super::transformer::with;
use crate::at_tap::{TapFault, add_faults};
use crate::change::{
    Pairs, blurred, conjugated, contiguous, each, garbage, mean_kept, modulated, parts, plus,
    real_and_imaginary, regrouped, sample_layer_norm, times, turned, with_entry,
};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "qwen_image::transformer", |run| with(run, |_, _| Ok(())), IN_FLOAT32);
    let suite = add_faults(suite, "qwen_image::transformer", |run| with(run, |_, _| Ok(())), IN_BFLOAT16);
    suite
        .port("qwen_image::transformer/theta", |run| {
            with(run, |_, model| {
                model.rope.theta = 1000.0;
                Ok(())
            })
        })
        // The order of other models, in the weight and in the bias.
        .port("qwen_image::transformer/scale_first", |run| {
            with(run, |_, model| {
                for block in &mut model.blocks {
                    let linear = &mut block.img.modulation;
                    let order = [1, 0, 2, 4, 3, 5];
                    linear.weight.value = parts(&linear.weight.value, 0, &order)?;
                    linear.bias.value =
                        linear.bias.value.as_ref().map(|bias| parts(bias, 0, &order)).transpose()?;
                }
                Ok(())
            })
        })
        .port("qwen_image::transformer/text_norm_without_weight", |run| {
            with(run, |_, model| {
                let weight = &mut model.txt_norm.weight.value;
                *weight = ones_like(&*weight)?;
                Ok(())
            })
        })
        .port("qwen_image::transformer/no_bias_in_mlp", |run| {
            with(run, |_, model| {
                model.blocks.iter_mut().for_each(|block| block.img.mlp.up.bias.value = None);
                Ok(())
            })
        })
        .port("qwen_image::transformer/queries_and_keys_swapped", |run| {
            with(run, |_, model| {
                for block in &mut model.blocks {
                    let attention = &mut block.attn.img;
                    std::mem::swap(&mut attention.to_q, &mut attention.to_k);
                }
                Ok(())
            })
        })
        // The initial values of such a layer.
        .port("qwen_image::transformer/modulation_zero", |run| {
            with(run, |_, model| {
                let linear = &mut model.blocks[0].img.modulation;
                linear.weight.value = zeros_like(&linear.weight.value)?;
                linear.bias.value = None;
                Ok(())
            })
        })
}

const IN_FLOAT32: &[TapFault] = &[
    ("rope_in_halves", "blocks.0.attn.img.q_rope", &["blocks.0.attn.img.norm_q", "rope.img"], |_, from| {
        let (cos, sin) = real_and_imaginary(&from[1])?;
        turned(&from[0], &cos.expand_dims(1)?, &sin.expand_dims(1)?, Pairs::Halves)
    }),
    ("angles_negated", "rope.img", &[], |x, _| conjugated(x)),
    // Positions that start after an image with one more column.
    ("words_one_late", "rope.txt", &[], |_, _| {
        Ok(Rope { axes: [4, 6, 6], theta: 10_000.0 }.tables(&[[1, 1, 6]], 5)?.1)
    }),
    // `1 + scale` in place of `scale`.
    ("one_in_scale_already", "blocks.0.img.mod1.scale", &[], |x, _| plus(x, 1.0)),
    ("shift_read_as_contiguous", "blocks.0.img.mod1.shift", &["blocks.0.img.mod"], |x, from| {
        contiguous(&from[0], 0, x)
    }),
    ("gelu_by_erf", "blocks.0.img.mlp.act", &["blocks.0.img.mlp.up"], |_, from| nn::gelu(&from[0])),
    // `x · scale + shift`.
    ("scale_without_one", "norm_out.out", &["norm_out.norm"], |x, from| x.subtract(&from[0])),
    ("no_rope", "blocks.0.attn.img.q_rope", &["blocks.0.attn.img.norm_q"], |_, from| Ok(from[0].clone())),
    // Without the gate on the output of attention.
    ("no_gate", "blocks.0.img.attn_residual", &["img_in", "blocks.0.attn.img.to_out"], |_, from| {
        from[0].add(&from[1])
    }),
    // The image stream before the text stream.
    ("streams_joined_otherwise", "blocks.0.attn.context", &[], |x, _| {
        let streams = x.split_at_indices(&[5], 2)?;
        concatenate(&[&streams[1], &streams[0]], 2)
    }),
    // Rounded to 255 steps, as 8-bit activations are.
    ("activations_in_int8", "img_in", &[], |x, _| {
        let largest = x.abs()?.max(None)?.as_dtype(mlx_rs::Dtype::Float32)?.item_exact::<f32>();
        each(x, |number| (number / largest * 127.0).round() * largest / 127.0)
    }),
];

const IN_BFLOAT16: &[TapFault] = &[
    // Without the norm. Its input differs from the golden by the norm's weight and by the size of each token.
    ("head_norm_left_out", "blocks.0.attn.img.norm_k", &[], |x, _| times(&blurred(x, 0.154)?, 0.0323736)),
    // Patches in the order (row, column, channel), but latents in the order (channel, row, column).
    ("patch_regrouped", "proj_out", &[], |x, _| regrouped(x, &[1, 4, 4])),
    ("scale_read_as_contiguous", "norm_out.scale", &["norm_out.linear"], |x, from| {
        contiguous(&from[0], 0, x)
    }),
    ("keys_turned_back", "blocks.0.attn.txt.k_rope", &["blocks.0.attn.txt.norm_k", "rope.txt"], |_, from| {
        rotate(&from[0], &conjugated(&from[1])?)
    }),
    ("attention_doubled", "blocks.0.attn.img.to_out", &[], |x, _| times(x, 2.0)),
    ("mean_kept", "blocks.0.img.norm1", &["img_in"], |_, from| mean_kept(&from[0])),
    // The default of PyTorch's `std`.
    ("ddof_1", "blocks.0.img.norm1", &["img_in"], |_, from| sample_layer_norm(&from[0], 1e-6)),
    // As other models of this kind do.
    ("tanh_on_gate", "blocks.0.img.mod1.gate", &[], |x, _| ops::tanh(x)),
    // Some samplers clamp predictions.
    ("clamped", "proj_out", &[], |x, _| ops::clip(x, (-0.5f32, 0.5f32))?.as_dtype(x.dtype())),
    (
        "shift_for_scale",
        "blocks.0.img.modulated1",
        &["blocks.0.img.norm1", "blocks.0.img.mod1.shift", "blocks.0.img.mod1.scale"],
        |_, from| modulated(&from[0], &from[1], &from[2]),
    ),
    // A token of zeros, divided by its own norm.
    ("zero_by_zero", "txt_norm", &[], |x, _| {
        let nothing = ops::full::<f32>(&[x.dim(0), 1, x.dim(2)], Array::from_f32(f32::NAN))?;
        with_entry(x, 4, &nothing.as_dtype(x.dtype())?)
    }),
    // Tokens past the end of the prompt.
    ("read_past_the_end", "txt_in", &[], |x, _| {
        with_entry(x, 4, &garbage(&[x.dim(0), 1, x.dim(2)], x.dtype())?)
    }),
    // The variable of the previous line.
    ("keys_are_queries", "blocks.0.attn.txt.norm_k", &["blocks.0.attn.txt.norm_q"], |_, from| {
        Ok(from[0].clone())
    }),
];
