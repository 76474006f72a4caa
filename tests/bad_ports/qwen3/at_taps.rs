//! Faults at the taps of Qwen3, most of them in the forward pass of the prompt.

use mlx_parity::Suite;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{broadcast_to, concatenate};
use mlx_rs::{Array, Dtype, nn, ops};
use parity_tests::qwen3::{Qwen3, Rope, rotate};

use super::{STEPS, loaded, with};
use crate::at_tap::{TapFault, add_faults};
use crate::change::{Pairs, drawn, garbage, memory_of, plus, regrouped, softmax, times, turned, with_entry};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "qwen3::decoder", |run| with(run, |_| {}, |_| {}), AT_TAPS);
    suite
        // The order in a checkpoint that was converted to rotate neighbouring features.
        .port("qwen3::decoder/query_rows_interleaved", |run| {
            let fault = |model: &mut Qwen3| {
                for layer in &mut model.model.layers {
                    let weight = &mut layer.self_attn.q_proj.weight.value;
                    let rows = weight.transpose_axes(&[1, 0]).and_then(|rows| regrouped(&rows, &[4, 2, 8]));
                    *weight =
                        rows.and_then(|rows| rows.transpose_axes(&[1, 0])).expect("the rows are 4 x 2 x 8");
                }
            };
            with(run, |_| {}, fault)
        })
        // Cut to the same length, so that the last token is lost.
        .port("qwen3::decoder/mark_prepended", |run| {
            let mut model = loaded(run, |_| {})?;
            let tokens = run.input("input_ids")?;
            let mark = Array::from_slice(&[0, 0], &[2, 1]).as_dtype(tokens.dtype())?;
            model.generate(&concatenate(&[mark, tokens.try_index((.., ..-1))?], 1)?, STEPS)?;
            Ok(())
        })
        .port("qwen3::decoder/positions_from_one", |run| {
            run.plant_fault("step.0.rope.cos", |x| Ok(Rope::new(16, 1e6).tables(1..7, x.dtype())?.0));
            run.plant_fault("step.0.rope.sin", |x| Ok(Rope::new(16, 1e6).tables(1..7, x.dtype())?.1));
            with(run, |_| {}, |_| {})
        })
        // The scaling of a model with a longer context.
        .port("qwen3::decoder/positions_scaled", |run| {
            let angles = || -> Result<Array, mlx_rs::error::Exception> {
                let positions = Array::from_iter((0..6).map(|p| 1.1 * p as f32), &[1, 6, 1]);
                let angles = positions.multiply(Rope::new(16, 1e6).frequencies())?;
                concatenate(&[&angles, &angles], -1)
            };
            run.plant_fault("step.0.rope.cos", move |_| angles()?.cos());
            run.plant_fault("step.0.rope.sin", move |_| angles()?.sin());
            with(run, |_| {}, |_| {})
        })
        .port("qwen3::decoder/layers_reversed", |run| with(run, |_| {}, |model| model.model.layers.reverse()))
        .port("qwen3::decoder/head_not_loaded", |run| {
            let fault = |model: &mut Qwen3| {
                if let Some(head) = &mut model.lm_head {
                    head.weight.value = drawn(&head.weight.value).expect("there is a key");
                }
            };
            with(run, |_| {}, fault)
        })
}

const AT_TAPS: &[TapFault] = &[
    // With an axis for heads, where the array has none yet.
    ("tables_with_heads", "step.0.rope.cos", &[], |x, _| x.expand_dims(1)),
    // `reshape(batch, heads, tokens, features)` without the transpose.
    ("values_not_transposed", "step.0.layers.0.attn.values", &[], |x, _| memory_of(x, &[0, 2, 1, 3])),
    (
        "rope_of_neighbours",
        "step.0.layers.0.attn.q_rope",
        &["step.0.layers.0.attn.q_norm", "step.0.rope.cos", "step.0.rope.sin"],
        |_, from| {
            let q = from[0].transpose_axes(&[0, 2, 1, 3])?;
            let half = |table: &Array| table.try_index((.., .., ..8));
            turned(&q, &half(&from[1])?, &half(&from[2])?, Pairs::Neighbours)
        },
    ),
    ("sines_negated", "step.0.rope.sin", &[], |x, _| x.negative()),
    // The cache had counted the token already.
    ("one_position_further", "step.1.layers.0.attn.q_rope", &[], |x, _| {
        let (cos, sin) = Rope::new(16, 1e6).tables(1..2, x.dtype())?;
        rotate(x, (&cos, &sin))
    }),
    // The residual around the MLP starts before attention.
    ("residual_before_attention", "step.0.layers.0.out", &["step.0.layers.0.attn.o_proj"], |x, from| {
        x.subtract(&from[0])
    }),
    (
        "activation_on_up",
        "step.0.layers.0.mlp.gated",
        &["step.0.layers.0.mlp.gate_proj", "step.0.layers.0.mlp.up_proj"],
        |_, from| from[0].multiply(nn::silu(&from[1])?),
    ),
    ("no_causal_mask", "step.0.layers.0.attn.probs", &["step.0.layers.0.attn.scores"], |_, from| {
        softmax(&from[0], 1.0, None)
    }),
    ("scores_far_too_small", "step.0.layers.0.attn.probs", &["step.0.layers.0.attn.scores"], |_, from| {
        softmax(&from[0], 1e-4, Some(0))
    }),
    // The tap comes after the activation.
    ("tap_too_late", "step.0.layers.0.mlp.gate_proj", &[], |x, _| nn::silu(x)),
    // Scaled by the features of a token, not of a head.
    ("scaled_by_hidden_size", "step.0.layers.0.attn.scores", &[], |x, _| times(x, 0.5f32.sqrt())),
    // Keys of the heads 0, 1, 0, 1 where queries share 0, 0, 1, 1.
    (
        "heads_tiled",
        "step.0.layers.0.attn.scores",
        &["step.0.layers.0.attn.q_rope", "step.0.layers.0.attn.k_rope"],
        |_, from| {
            let tiled = broadcast_to(from[1].expand_dims(1)?, &[2, 2, 2, 6, 16])?.reshape(&[2, 4, 6, 16])?;
            times(&from[0].matmul(tiled.transpose_axes(&[0, 1, 3, 2])?)?, 0.25)
        },
    ),
    // The same fault, seen after the softmax.
    (
        "probs_of_tiled_heads",
        "step.0.layers.0.attn.probs",
        &["step.0.layers.0.attn.q_rope", "step.0.layers.0.attn.k_rope"],
        |_, from| {
            let tiled = broadcast_to(from[1].expand_dims(1)?, &[2, 2, 2, 6, 16])?.reshape(&[2, 4, 6, 16])?;
            let scores = from[0].matmul(tiled.transpose_axes(&[0, 1, 3, 2])?)?;
            softmax(&scores, 0.25, Some(0))
        },
    ),
    // Only later keys are seen. The last token sees none, so its weights are all equal.
    ("mask_inverted", "step.0.layers.0.attn.probs", &["step.0.layers.0.attn.scores"], |_, from| {
        let visible = ops::tri::<bool>(6, Some(6), Some(0))?;
        let scores = ops::select(&visible, Array::from_f32(-1e9), &from[0])?;
        softmax(&scores, 1.0, None)
    }),
    // A tokeniser whose ids are one higher: rows of the same table, but of other tokens.
    (
        "rows_of_other_tokens",
        "step.0.embed_tokens",
        &["weights/model.embed_tokens.weight", "inputs/input_ids"],
        |_, from| from[0].take_axis(from[1].add(Array::from_int(1))?, 0),
    ),
    // Computed in bfloat16, not only rounded to it at the end.
    (
        "gated_in_bfloat16",
        "step.0.layers.0.mlp.gated",
        &["step.0.layers.0.mlp.gate_proj", "step.0.layers.0.mlp.up_proj"],
        |_, from| {
            let narrow = |x: &Array| x.as_dtype(Dtype::Bfloat16);
            nn::silu(narrow(&from[0])?)?.multiply(narrow(&from[1])?)?.as_dtype(Dtype::Float32)
        },
    ),
    // Forbidden tokens are masked in the tapped logits themselves.
    ("tokens_suppressed", "step.0.lm_head", &[], |x, _| {
        let allowed = x.try_index((.., .., 2..))?;
        let hidden = broadcast_to(Array::from_f32(f32::NEG_INFINITY), &[x.dim(0), x.dim(1), 2])?;
        concatenate(&[&hidden, &allowed], -1)
    }),
    // An index past the end, which MLX does not check.
    ("token_out_of_vocabulary", "step.0.embed_tokens", &[], |x, _| {
        with_entry(x, 3, &garbage(&[x.dim(0), 1, x.dim(2)], x.dtype())?)
    }),
    ("norm_weight_from_one", "step.0.norm", &["weights/model.norm.weight"], |x, from| {
        x.divide(&from[0])?.multiply(plus(&from[0], 1.0)?)
    }),
    // The array that is added to the residual was rounded to half precision.
    ("attention_in_half_precision", "step.0.layers.0.attn.o_proj", &[], |x, _| {
        crate::change::through(x, Dtype::Float16)
    }),
];
