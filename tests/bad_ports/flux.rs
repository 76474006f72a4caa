//! Faults in the parts of Flux, and in how they are put together.

#[path = "../parity/flux.rs"]
mod right;

mod decoder;
mod transformer;

use mlx_parity::Suite;
use mlx_rs::module::ModuleParameters as _;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, Dtype, array, nn};
use parity_tests::flux::vae;
use right::{decode, generate, predict};

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = pipeline(decoder(transformer(right::ports(suite))));
    decoder::ports(transformer::ports(suite))
}

fn transformer(suite: Suite) -> Suite {
    suite
        // The default of mlx-rs.
        .port("flux::transformer/eps", |run| {
            predict(run, |model, _| {
                model.transformer_blocks.iter_mut().for_each(|block| block.attn.norm_q.eps = 1e-5);
            })
        })
        .port("flux::transformer/theta", |run| predict(run, |model, _| model.rope.theta = 1000.0))
        // The unit of the scheduler.
        .port("flux::transformer/timestep_in_thousandths", |run| {
            predict(run, |_, inputs| inputs.timestep = &inputs.timestep * array!(1000f32))
        })
        // A model that was not distilled takes none.
        .port("flux::transformer/guidance_left_out", |run| predict(run, |_, inputs| inputs.guidance = None))
        .port("flux::transformer/text_after_image", |run| {
            predict(run, |_, inputs| std::mem::swap(&mut inputs.txt_ids, &mut inputs.img_ids))
        })
        .port("flux::transformer/streams_swapped", |run| {
            predict(run, |model, _| {
                let attention = &mut model.transformer_blocks[0].attn;
                std::mem::swap(&mut attention.to_q, &mut attention.add_q_proj);
            })
        })
        // The order in the weights that Flux was published with.
        .port("flux::transformer/last_norm_shift_first", |run| {
            predict(run, |model, _| {
                let linear = &mut model.norm_out.linear;
                linear.weight.value = halves_swapped(&linear.weight.value);
                linear.bias.value = linear.bias.value.as_ref().map(halves_swapped);
            })
        })
        .port("flux::transformer/weights_in_float32", |run| {
            predict(run, |model, _| {
                for parameter in model.parameters_mut().flatten().into_values() {
                    *parameter = parameter.as_dtype(Dtype::Float32).expect("a float has a wider one");
                }
            })
        })
        .port("flux::transformer/head_norms_swapped", |run| {
            predict(run, |model, _| {
                for block in &mut model.transformer_blocks {
                    std::mem::swap(&mut block.attn.norm_q, &mut block.attn.norm_k);
                }
            })
        })
}

/// Exchanges the halves of the first axis.
fn halves_swapped(x: &Array) -> Array {
    let halves = x.split_equal(2, 0).expect("the axis is even");
    concatenate(&[&halves[1], &halves[0]], 0).expect("halves of one array fit")
}

fn decoder(suite: Suite) -> Suite {
    suite
        // The default of mlx-rs, which PyTorch does not share.
        .port("flux::vae_decoder/every_nth_channel_a_group", |run| {
            decode(run, |decoder, _| norms(decoder).for_each(|norm| norm.pytorch_compatible = false))
        })
        .port("flux::vae_decoder/eps", |run| {
            decode(run, |decoder, _| norms(decoder).for_each(|norm| norm.eps = array!(1e-5f32)))
        })
        .port("flux::vae_decoder/kernels_turned", |run| {
            decode(run, |decoder, _| {
                let weight = &mut decoder.conv_in.weight.value;
                *weight = weight.swap_axes(1, 2).expect("a kernel has four axes");
            })
        })
        .port("flux::vae_decoder/height_and_width_swapped", |run| {
            decode(run, |_, latents| *latents = latents.swap_axes(1, 2).expect("latents have four axes"))
        })
        .port("flux::vae_decoder/queries_and_keys_swapped", |run| {
            decode(run, |decoder, _| {
                let attention = &mut decoder.mid_block.attentions[0];
                std::mem::swap(&mut attention.to_q, &mut attention.to_k);
            })
        })
        .port("flux::vae_decoder/no_bias_after_upsampling", |run| {
            decode(run, |decoder, _| {
                for block in &mut decoder.up_blocks {
                    block.upsamplers.iter_mut().for_each(|upsampler| upsampler.conv.bias.value = None);
                }
            })
        })
}

/// Every group norm of a decoder.
fn norms(decoder: &mut vae::Decoder) -> impl Iterator<Item = &mut nn::GroupNorm> {
    let mid = &mut decoder.mid_block;
    let up = decoder.up_blocks.iter_mut().flat_map(|block| &mut block.resnets);
    let resnets = mid.resnets.iter_mut().chain(up).flat_map(|resnet| [&mut resnet.norm1, &mut resnet.norm2]);
    let attentions = mid.attentions.iter_mut().map(|attention| &mut attention.group_norm);
    resnets.chain(attentions).chain([&mut decoder.conv_norm_out])
}

fn pipeline(suite: Suite) -> Suite {
    suite
        // The model that was distilled to a few steps shifts so.
        .port("flux::pipeline/static_shift", |run| {
            generate(run, |config, _| config.scheduler.use_dynamic_shifting = false)
        })
        .port("flux::pipeline/guidance_of_one", |run| generate(run, |_, request| request.guidance = 1.0))
        // Port and reference draw different noise.
        .port("flux::pipeline/other_noise", |run| {
            generate(run, |_, request| request.latents = -&request.latents)
        })
        .port("flux::pipeline/rows_are_columns", |run| generate(run, |_, request| request.rows = 3))
        .port("flux::pipeline/latents_scaled_up", |run| {
            generate(run, |config, _| config.vae.scaling_factor = config.vae.scaling_factor.recip())
        })
        .port("flux::pipeline/no_shift_factor", |run| {
            generate(run, |config, _| config.vae.shift_factor = 0.0)
        })
}
