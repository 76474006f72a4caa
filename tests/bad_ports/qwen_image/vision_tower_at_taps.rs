//! Faults at the taps of the vision tower.

use mlx_parity::Suite;
use mlx_rs::ops::broadcast_to;
use mlx_rs::{Array, nn};

use super::vision_tower::with;
use crate::at_tap::{TapFault, add_faults};
use crate::change::{parts, plus, softmax, times};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "qwen_image::vision_tower", |run| with(run, |_| {}, |_| Ok(())), AT_TAPS);
    suite
        .port("qwen_image::vision_tower/keys_first", |run| {
            with(
                run,
                |_| {},
                |tower| {
                    for block in &mut tower.blocks {
                        let qkv = &mut block.attn.qkv;
                        qkv.weight.value = parts(&qkv.weight.value, 0, &[1, 0, 2])?;
                        qkv.bias.value =
                            qkv.bias.value.as_ref().map(|bias| parts(bias, 0, &[1, 0, 2])).transpose()?;
                    }
                    Ok(())
                },
            )
        })
        // Once in the processor and once more here.
        .port("qwen_image::vision_tower/pixels_scaled_twice", |run| {
            let pixels = times(&run.input("pixel_values")?, 1.0 / 255.0)?;
            with(run, |call| call.pixels = Some(pixels), |_| Ok(()))
        })
        .port("qwen_image::vision_tower/last_norm_from_one", |run| {
            with(
                run,
                |_| {},
                |tower| {
                    let weight = &mut tower.merger.ln_q.weight.value;
                    *weight = plus(weight, 1.0)?;
                    Ok(())
                },
            )
        })
}

const AT_TAPS: &[TapFault] = &[
    // The layout that the reference's convolution returns.
    ("convolved_channels_first", "patch_embed.proj", &[], |x, _| x.transpose_axes(&[0, 4, 1, 2, 3])),
    // (heads, 3, features), as in some checkpoints, in place of (3, heads, features).
    ("qkv_by_head", "blocks.0.attn.qkv", &[], |x, _| {
        x.reshape(&[-1, 3, 2, 16])?.transpose_axes(&[0, 2, 1, 3])?.reshape(x.shape())
    }),
    ("gelu_by_tanh", "merger.act_fn", &["merger.up"], |_, from| nn::gelu_approximate(&from[0])),
    (
        "activation_on_up",
        "blocks.0.mlp.gated",
        &["blocks.0.mlp.gate_proj", "blocks.0.mlp.up_proj"],
        |_, from| from[0].multiply(nn::silu(&from[1])?),
    ),
    // The queries were scaled before.
    ("scaled_twice", "blocks.0.attn.windows.0.probs", &["blocks.0.attn.windows.0.scores"], |_, from| {
        softmax(&from[0], 0.25, None)
    }),
    // A causal mask, as in a text model.
    ("causal", "blocks.1.attn.windows.0.probs", &["blocks.1.attn.windows.0.scores"], |_, from| {
        softmax(&from[0], 1.0, Some(0))
    }),
    // The queries are zero.
    ("evenly_spread", "blocks.0.attn.windows.0.probs", &[], |x, _| {
        broadcast_to(Array::from_f32(1.0 / x.dim(-1) as f32), x.shape())
    }),
    ("not_in_windows", "windowed.patches", &["patch_embed.proj"], |x, from| from[0].reshape(x.shape())),
    ("left_in_windows", "merged", &["merger.down"], |_, from| Ok(from[0].clone())),
    // The permutation is applied again in place of its inverse.
    ("windowed_again", "merged", &["window_index", "merger.down"], |_, from| from[1].take_axis(&from[0], 0)),
    // The mean is subtracted by a norm that should only scale.
    (
        "layer_for_rms_norm",
        "blocks.0.norm2",
        &["blocks.0.attn_residual", "weights/blocks.0.norm2.weight"],
        |_, from| crate::change::layer_norm(&from[0], 1e-6)?.multiply(&from[1]),
    ),
];
