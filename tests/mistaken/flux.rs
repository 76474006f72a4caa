//! Mistakes in the parts of Flux.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::module::ModuleParameters as _;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, Dtype, array, nn};
use parity_tests::flux::transformer::{Inputs, Transformer};
use parity_tests::flux::vae;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = transformer(suite);
    suite
        // What mlx-rs takes by default, and PyTorch does not.
        .port("flux::vae_decoder/every_nth_channel_a_group", |run| {
            decode(run, |decoder| norms(decoder).for_each(|norm| norm.pytorch_compatible = false))
        })
        .port("flux::vae_decoder/eps", |run| {
            decode(run, |decoder| norms(decoder).for_each(|norm| norm.eps = array!(1e-5f32)))
        })
        .port("flux::vae_decoder/kernels_turned", |run| {
            decode(run, |decoder| {
                let weight = &mut decoder.conv_in.weight.value;
                *weight = weight.swap_axes(1, 2).expect("a kernel has four axes");
            })
        })
        .port("flux::vae_decoder/height_and_width_swapped", |run| {
            let mut decoder = decoder(run)?;
            decoder.forward(&run.input("latents")?.transpose_axes(&[0, 3, 2, 1])?)?;
            Ok(())
        })
        .port("flux::vae_decoder/queries_and_keys_swapped", |run| {
            decode(run, |decoder| {
                let attention = &mut decoder.mid_block.attentions[0];
                std::mem::swap(&mut attention.to_q, &mut attention.to_k);
            })
        })
        .port("flux::vae_decoder/no_bias_after_upsampling", |run| {
            decode(run, |decoder| {
                for block in &mut decoder.up_blocks {
                    block.upsamplers.iter_mut().for_each(|upsampler| upsampler.conv.bias.value = None);
                }
            })
        })
}

fn transformer(suite: Suite) -> Suite {
    suite
        // What mlx-rs takes by default.
        .port("flux::transformer/eps", |run| {
            predict(run, |model, _| {
                model.transformer_blocks.iter_mut().for_each(|b| b.attn.norm_q.eps = 1e-5)
            })
        })
        .port("flux::transformer/theta", |run| predict(run, |model, _| model.rope.theta = 1000.0))
        // As the scheduler has it.
        .port("flux::transformer/timestep_in_thousandths", |run| {
            predict(run, |_, inputs| inputs.timestep = &inputs.timestep * array!(1000f32))
        })
        // As for a model that was not distilled.
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
        // As the weights are that Flux was published with.
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

/// The transformer as it is, but for what `mistake` does to it once it is loaded, or to what it is given.
fn predict(run: &Run, mistake: impl FnOnce(&mut Transformer, &mut Inputs)) -> PortResult {
    let mut model = Transformer::new(&run.params()?)?;
    run.weights()?.load_into(&mut model)?;
    let mut inputs = Inputs {
        hidden_states: run.input("hidden_states")?,
        encoder_hidden_states: run.input("encoder_hidden_states")?,
        pooled_projections: run.input("pooled_projections")?,
        timestep: run.input("timestep")?,
        guidance: Some(run.input("guidance")?),
        img_ids: run.input("img_ids")?,
        txt_ids: run.input("txt_ids")?,
    };
    mistake(&mut model, &mut inputs);
    model.forward(&inputs)?;
    Ok(())
}

/// The second half of the first axis before the first.
fn halves_swapped(x: &Array) -> Array {
    let halves = x.split_equal(2, 0).expect("the axis is even");
    concatenate(&[&halves[1], &halves[0]], 0).expect("halves of one array fit")
}

/// The decoder as it is, but for what `mistake` does to it once it is loaded.
fn decode(run: &Run, mistake: impl FnOnce(&mut vae::Decoder)) -> PortResult {
    let mut decoder = decoder(run)?;
    mistake(&mut decoder);
    decoder.forward(&run.input("latents")?.transpose_axes(&[0, 2, 3, 1])?)?;
    Ok(())
}

fn decoder(run: &Run) -> Result<vae::Decoder, Box<dyn std::error::Error + Send + Sync>> {
    let weights = run.weights()?;
    let mut decoder = vae::Decoder::new(&run.params()?)?;
    decoder.load(|name| weights.get(name))?;
    Ok(decoder)
}

/// Every group norm of a decoder.
fn norms(decoder: &mut vae::Decoder) -> impl Iterator<Item = &mut nn::GroupNorm> {
    let mid = &mut decoder.mid_block;
    let up = decoder.up_blocks.iter_mut().flat_map(|block| &mut block.resnets);
    let resnets = mid.resnets.iter_mut().chain(up).flat_map(|resnet| [&mut resnet.norm1, &mut resnet.norm2]);
    let attentions = mid.attentions.iter_mut().map(|attention| &mut attention.group_norm);
    resnets.chain(attentions).chain([&mut decoder.conv_norm_out])
}
