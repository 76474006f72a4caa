//! Faults in the text encoders of Flux.

#[path = "../parity/flux_text.rs"]
pub(crate) mod right;

mod at_taps;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, zeros_like};
use parity_tests::flux::{clip, t5};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = right::ports(suite);
    at_taps::ports(t5_ports(clip_ports(suite)))
}

fn clip_ports(suite: Suite) -> Suite {
    suite
        // open_clip pads so.
        .port("flux::clip/padded_with_zero", |run| {
            clip_with(run, |config| config.pad_token_id = 0, |_| Ok(()))
        })
        .port("flux::clip/eps", |run| clip_with(run, |config| config.layer_norm_eps = 1e-6, |_| Ok(())))
        // Newer CLIP models use it.
        .port("flux::clip/gelu", |run| {
            clip_with(run, |config| config.hidden_act = clip::Activation::Gelu, |_| Ok(()))
        })
        .port("flux::clip/no_causal_mask", |run| {
            right::clip(
                run,
                |_| {},
                |encoder, ids| {
                    let mut x = encoder.embed(ids)?;
                    let mask = zeros_like(clip::causal_mask(ids.dim(1), x.dtype())?)?;
                    for (index, layer) in encoder.layers.iter_mut().enumerate() {
                        let _scope = scope("layers", index);
                        x = layer.forward(&x, &mask)?;
                    }
                    let x = tap("out", encoder.final_norm.forward(&x)?)?;
                    encoder.pool(ids, &x)?;
                    Ok(x)
                },
            )
        })
        .port("flux::clip/heads", |run| {
            clip_with(
                run,
                |_| {},
                |encoder| {
                    encoder.layers.iter_mut().for_each(|layer| layer.attn.heads = 8);
                    Ok(())
                },
            )
        })
        // The keys of Whisper have no bias.
        .port("flux::clip/no_key_bias", |run| {
            clip_with(
                run,
                |_| {},
                |encoder| {
                    encoder.layers.iter_mut().for_each(|layer| layer.attn.k.bias.value = None);
                    Ok(())
                },
            )
        })
        .port("flux::clip/positions_from_one", |run| {
            clip_with(
                run,
                |_| {},
                |encoder| {
                    let positions = &mut encoder.positions.weight.value;
                    *positions = concatenate(&[positions.try_index(1..)?, positions.try_index(..1)?], 0)?;
                    Ok(())
                },
            )
        })
        .port("flux::clip/pooled_at_largest", |run| {
            clip_with(
                run,
                |_| {},
                |encoder| {
                    encoder.eos_token_id = 2;
                    Ok(())
                },
            )
        })
}

/// Runs CLIP with these changes to its config and to the loaded encoder.
fn clip_with(
    run: &Run,
    prepare: impl Fn(&mut clip::Config),
    fault: impl Fn(&mut clip::Encoder) -> Result<(), Exception>,
) -> PortResult {
    right::clip(run, prepare, |encoder, ids| {
        fault(encoder)?;
        Ok(encoder.forward(ids)?.0)
    })
}

fn t5_ports(suite: Suite) -> Suite {
    suite
        // The tokeniser has already added an end mark.
        .port("flux::t5/ended_twice", |run| {
            t5_with(run, |_, prompts| prompts.iter_mut().for_each(|prompt| prompt.push(1)), |_| {})
        })
        // The default of mlx-rs.
        .port("flux::t5/eps", |run| t5_with(run, |config, _| config.layer_norm_epsilon = 1e-5, |_| {}))
        .port("flux::t5/max_distance", |run| {
            t5_with(run, |config, _| config.relative_attention_max_distance = 64, |_| {})
        })
        // Other models scale their queries.
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
        // The same number of features in twice as many heads.
        .port("flux::t5/heads", |run| {
            t5_with(
                run,
                |_, _| {},
                |encoder| encoder.blocks.iter_mut().for_each(|block| block.attn.heads = 8),
            )
        })
        // Only the first block has a table, so only the first block gets its bias.
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

/// Runs T5 with these changes to its config, its prompts and the loaded encoder.
fn t5_with(
    run: &Run,
    prepare: impl Fn(&mut t5::Config, &mut Vec<Vec<i32>>),
    fault: impl Fn(&mut t5::Encoder),
) -> PortResult {
    right::t5(run, prepare, |encoder, ids, mask| {
        fault(encoder);
        encoder.forward(ids, Some(mask))
    })
}
