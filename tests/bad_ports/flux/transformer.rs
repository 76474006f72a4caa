//! Faults at the taps of Flux's transformer. Those below [`IN_BFLOAT16`] are for the spec in that dtype.

use mlx_parity::Suite;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, tanh};
use mlx_rs::{Array, nn};

use super::right::predict;
use crate::at_tap::{TapFault, add_faults};
use crate::change::{
    Pairs, contiguous, drawn, layer_norm, mantissa, mean_kept, mean_taken, memory_of, modulated, once, parts,
    plus, rms_norm, taken, turned, wide,
};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "flux::transformer", |run| predict(run, |_, _| {}), IN_FLOAT32);
    let suite = add_faults(suite, "flux::transformer", |run| predict(run, |_, _| {}), IN_BFLOAT16);
    suite
        // Both factors of the product in TF32.
        .port("flux::transformer/tf32", |run| {
            predict(run, |model, inputs| {
                let weight = &mut model.x_embedder.weight.value;
                *weight = mantissa(weight, 10).expect("numbers can be rounded");
                inputs.hidden_states = mantissa(&inputs.hidden_states, 10).expect("numbers can be rounded");
            })
        })
        .port("flux::transformer/blocks_reversed", |run| {
            predict(run, |model, _| model.transformer_blocks.reverse())
        })
        // The order of models whose blocks take [scale, shift, gate].
        .port("flux::transformer/scale_before_shift", |run| {
            predict(run, |model, _| {
                for block in &mut model.transformer_blocks {
                    let linear = &mut block.norm1.linear;
                    linear.weight.value = scale_first(&linear.weight.value);
                    linear.bias.value = linear.bias.value.as_ref().map(scale_first);
                }
            })
        })
        .port("flux::transformer/text_one_late", |run| {
            predict(run, |_, inputs| {
                let text = &mut inputs.encoder_hidden_states;
                *text = crate::change::later(text, 1, 1).expect("there are tokens");
            })
        })
        .port("flux::transformer/bias_twice", |run| {
            predict(run, |model, _| {
                let bias = &mut model.x_embedder.bias.value;
                *bias = bias.as_ref().map(|bias| bias + bias);
            })
        })
}

/// The rows of a modulation with scale before shift.
fn scale_first(rows: &Array) -> Array {
    parts(rows, 0, &[1, 0, 2, 4, 3, 5]).expect("there are six parts")
}

const IN_FLOAT32: &[TapFault] = &[
    // The memory of the third chunk, though the chunks of one row are contiguous.
    (
        "gate_read_as_contiguous",
        "single_transformer_blocks.0.norm.gate",
        &["single_transformer_blocks.0.norm.linear"],
        |x, from| contiguous(&from[0], 64, x),
    ),
    // Without `flip_sin_to_cos` of diffusers.
    ("sines_first", "time_text_embed.time_proj", &[], |x, _| parts(x, -1, &[1, 0])),
    ("rope_backwards", "transformer_blocks.0.attn.q_rope", QUERIES, |_, from| {
        let q = concatenate(&[&from[0], &from[1]], 1)?;
        let (cos, sin) = (once(&from[2])?.expand_dims(1)?, once(&from[3])?.expand_dims(1)?);
        turned(&q, &cos, &sin.negative()?, Pairs::Neighbours)
    }),
    ("mean_kept", "transformer_blocks.0.norm1.norm", &["x_embedder"], |_, from| mean_kept(&from[0])),
    (
        "shift_for_scale",
        "transformer_blocks.0.norm1.out",
        &["transformer_blocks.0.norm1.linear", "transformer_blocks.0.norm1.norm"],
        |_, from| {
            let chunks = from[0].split_equal(6, -1)?;
            modulated(&from[1], &chunks[0], &chunks[1])
        },
    ),
    // `x · scale + shift`.
    ("scale_without_one", "norm_out.out", &["norm_out.norm"], |x, from| x.subtract(&from[0])),
    // Two chunks are exchanged in one place.
    (
        "mlp_shift_is_scale",
        "transformer_blocks.0.norm1.shift_mlp",
        &["transformer_blocks.0.norm1.linear"],
        |_, from| Ok(from[0].split_equal(6, -1)?[4].clone()),
    ),
    // The default of mlx-rs.
    ("last_eps", "norm_out.norm", &["single_transformer_blocks.1.out"], |_, from| {
        layer_norm(&from[0].try_index((.., 5.., ..))?, 1e-5)
    }),
    // Over all features of a token, not per head.
    (
        "norm_over_all_heads",
        "transformer_blocks.0.attn.norm_q",
        &["transformer_blocks.0.attn.to_q", "weights/transformer_blocks.0.attn.norm_q.weight"],
        |x, from| rms_norm(&from[0])?.reshape(x.shape())?.multiply(&from[1]),
    ),
    ("gelu_by_erf", "transformer_blocks.0.ff.act", &["transformer_blocks.0.ff.proj"], |_, from| {
        nn::gelu(&from[0])
    }),
];

const IN_BFLOAT16: &[TapFault] = &[
    // There are as many heads as batch entries, so the shape does not show it.
    ("heads_before_batch", "transformer_blocks.0.attn.sdpa", &[], |x, _| x.transpose_axes(&[1, 0, 2, 3])),
    ("heads_not_put_back", "transformer_blocks.0.attn.sdpa", &[], |x, _| memory_of(x, &[0, 2, 1, 3])),
    ("rope_in_halves", "transformer_blocks.0.attn.q_rope", QUERIES, |_, from| {
        let q = concatenate(&[&from[0], &from[1]], 1)?;
        let (cos, sin) = (once(&from[2])?.expand_dims(1)?, once(&from[3])?.expand_dims(1)?);
        turned(&q, &cos, &sin, Pairs::Halves)
    }),
    // The velocity from image to noise; the scheduler expects noise to image.
    ("velocity_sign", "proj_out", &[], |x, _| x.negative()),
    // As other models of this kind do.
    ("tanh_on_gate", "transformer_blocks.0.norm1.gate_msa", &[], |x, _| tanh(x)),
    // Some models add one to their gates.
    ("gate_from_one", "single_transformer_blocks.0.norm.gate", &[], |x, _| plus(x, 1.0)),
    ("not_divided", "transformer_blocks.0.norm2", &["transformer_blocks.0.residual"], |_, from| {
        mean_taken(&from[0])
    }),
    ("text_left_out", "time_text_embed.out", &["time_text_embed.time_guidance"], |_, from| {
        Ok(from[0].clone())
    }),
    // Attention in an 8-bit format.
    ("attention_in_8_bits", "single_transformer_blocks.0.attn.sdpa", &[], |x, _| mantissa(x, 3)),
    ("relu", "transformer_blocks.0.ff.act", &["transformer_blocks.0.ff.proj"], |_, from| nn::relu(&from[0])),
    ("rms_for_layer_norm", "transformer_blocks.0.norm1.norm", &["x_embedder"], |_, from| rms_norm(&from[0])),
    (
        "attention_not_scaled",
        "transformer_blocks.0.attn.sdpa",
        &[
            "transformer_blocks.0.attn.q_rope",
            "transformer_blocks.0.attn.k_rope",
            "transformer_blocks.0.attn.add_v_proj",
            "transformer_blocks.0.attn.to_v",
        ],
        |x, from| {
            let v = concatenate(&[&from[2], &from[3]], 1)?.reshape(from[0].shape())?;
            let heads_first = |x| wide(x)?.transpose_axes(&[0, 2, 1, 3]);
            let (q, k, v) = (heads_first(&from[0])?, heads_first(&from[1])?, heads_first(&v)?);
            let mask = None::<ScaledDotProductAttentionMask>;
            scaled_dot_product_attention(&q, &k, &v, 1.0, mask, None)?.as_dtype(x.dtype())
        },
    ),
    (
        "keys_not_normed",
        "transformer_blocks.0.attn.norm_k",
        &["transformer_blocks.0.attn.to_k"],
        |x, from| from[0].reshape(x.shape()),
    ),
    // Applied once where they are made and once in attention.
    ("turned_twice", "transformer_blocks.0.attn.k_rope", &["pos_embed.cos", "pos_embed.sin"], |x, from| {
        let (cos, sin) = (once(&from[0])?.expand_dims(1)?, once(&from[1])?.expand_dims(1)?);
        turned(x, &cos, &sin, Pairs::Neighbours)
    }),
    // The first layer as it is with latents that the port drew itself.
    ("drawn_anew", "x_embedder", &[], |x, _| drawn(x)),
    // The first patch is read from the place of the last text token.
    ("one_patch_early", "norm_out.norm", &["single_transformer_blocks.1.out"], |_, from| {
        layer_norm(&taken(&from[0], 1, 4..16)?, 1e-6)
    }),
];

/// Queries of text and image before the rotation, and its tables.
const QUERIES: &[&str] = &[
    "transformer_blocks.0.attn.norm_added_q",
    "transformer_blocks.0.attn.norm_q",
    "pos_embed.cos",
    "pos_embed.sin",
];
