//! Faults in Qwen2-MoE.

#[path = "../parity/qwen2_moe.rs"]
mod right;

use mlx_parity::Suite;
use mlx_rs::{Array, ops};
use parity_tests::cache::FullCache;
use parity_tests::qwen2_moe::{Moe, Qwen2Moe};

use crate::at_tap::{TapFault, add_faults};
use crate::change::later;
use right::{with, with_trim};

const PORT: &str = "qwen2_moe::decoder";

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = right::ports(suite)
        .port("qwen2_moe::decoder/normalised_before_top_k", |run| {
            with(run, |model| experts(model).for_each(|moe| moe.gate.norm_topk_prob = false))
        })
        .port("qwen2_moe::decoder/normalised_too", |run| {
            with(run, |model| experts(model).for_each(|moe| moe.gate.norm_topk_prob = true))
        })
        .port("qwen2_moe::decoder/one_expert", |run| {
            with(run, |model| experts(model).for_each(|moe| moe.gate.top_k = 1))
        })
        // The weights of expert 1 in the place of expert 0, and so on.
        .port("qwen2_moe::decoder/experts_shifted", |run| {
            with(run, |model| {
                for moe in experts(model) {
                    let weight = &mut moe.experts.gate_up_proj.value;
                    *weight = later(weight, 0, 1).expect("the experts are on axis 0");
                }
            })
        });
    let suite = add_faults(suite, PORT, |run| with(run, |_| {}), AT_TAPS);
    let suite = with_trim(suite, "qwen2_moe::decoder/rejected_guess_stays", |_, _| Ok(()));
    with_trim(suite, "qwen2_moe::decoder/trimmed_too_far", |cache, length| {
        FullCache::truncate(cache, length - 1)
    })
}

fn experts(model: &mut Qwen2Moe) -> impl Iterator<Item = &mut Moe> {
    model.model.layers.iter_mut().map(|layer| &mut layer.mlp)
}

const AT_TAPS: &[TapFault] = &[
    // The softmax of the chosen logits only.
    (
        "softmax_after_top_k",
        "step.0.layers.0.moe.router.weights",
        &["step.0.layers.0.moe.router.logits"],
        |weights, from| {
            let order = ops::argsort_axis(from[0].negative()?, -1)?;
            let chosen = from[0].take_along_axis(order, -1)?;
            let parts = chosen.split_at_indices(&[weights.dim(1)], -1)?;
            ops::softmax_axis(&parts[0], -1, true)
        },
    ),
    ("shared_expert_forgotten", "step.0.layers.0.moe.out", &["step.0.layers.0.moe.experts"], |x, from| {
        from[0].reshape(x.shape())
    }),
    (
        "shared_gate_without_sigmoid",
        "step.0.layers.0.moe.shared.gated",
        &["step.0.layers.0.moe.shared.out", "step.0.layers.0.moe.shared.gate"],
        |_, from| from[0].multiply(&from[1]),
    ),
    (
        "least_likely_experts",
        "step.0.layers.0.moe.router.ids",
        &["step.0.layers.0.moe.router.scores"],
        |x, from| {
            let order: Array = ops::argsort_axis(&from[0], -1)?;
            order.split_at_indices(&[x.dim(1)], -1)?[0].as_dtype(x.dtype())
        },
    ),
];
