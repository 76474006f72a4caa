//! Mistakes in the text encoders of Flux.

#[path = "../parity/flux_text.rs"]
mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::module::Module;
use parity_tests::flux::t5;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = right::ports(suite);
    t5_ports(suite)
}

fn t5_ports(suite: Suite) -> Suite {
    suite
        // The tokeniser had already put an end mark there.
        .port("flux::t5/ended_twice", |run| {
            t5_with(run, |_, prompts| prompts.iter_mut().for_each(|prompt| prompt.push(1)), |_| {})
        })
        // What mlx-rs takes by default.
        .port("flux::t5/eps", |run| t5_with(run, |config, _| config.layer_norm_epsilon = 1e-5, |_| {}))
        .port("flux::t5/max_distance", |run| {
            t5_with(run, |config, _| config.relative_attention_max_distance = 64, |_| {})
        })
        // Attention as it is elsewhere, where queries are scaled.
        .port("flux::t5/scaled", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| {
                    for block in &mut encoder.blocks {
                        block.attn.q.weight.value = &block.attn.q.weight.value * 8f32.sqrt().recip();
                    }
                },
            )
        })
        .port("flux::t5/no_mask", |run| {
            right::t5(run, |_, _| {}, |encoder, ids, _| encoder.forward(ids, None))
        })
        .port("flux::t5/silu", |run| {
            t5_with(run, |config, _| config.feed_forward_proj = t5::Activation::GatedSilu, |_| {})
        })
        .port("flux::t5/gate_and_up_swapped", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| {
                    for block in &mut encoder.blocks {
                        std::mem::swap(&mut block.mlp.wi_0, &mut block.mlp.wi_1);
                    }
                },
            )
        })
        // As many features, in twice as many heads.
        .port("flux::t5/heads", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| encoder.blocks.iter_mut().for_each(|block| block.attn.heads = 8),
            )
        })
        // Only the first block has a table, so only that one is given its bias.
        .port("flux::t5/bias_in_first_block_only", |run| {
            right::t5(
                run,
                |_, _| {},
                |encoder, ids, mask| {
                    let mask = t5::additive(mask)?;
                    let mut x = tap("embed", encoder.embed.forward(ids)?)?;
                    for (index, block) in encoder.blocks.iter_mut().enumerate() {
                        let _scope = scope("blocks", index);
                        x = block.forward(&x, Some(&mask), &mut None)?;
                    }
                    tap("out", encoder.final_norm.forward(&x)?)
                },
            )
        })
}

/// T5 as it is, but for what is done to its config and prompts, and to the loaded encoder.
fn t5_with(
    run: &Run,
    prepare: impl Fn(&mut t5::Config, &mut Vec<Vec<i32>>),
    mistake: impl Fn(&mut t5::Encoder),
) -> PortResult {
    right::t5(run, prepare, |encoder, ids, mask| {
        mistake(encoder);
        encoder.forward(ids, Some(mask))
    })
}
