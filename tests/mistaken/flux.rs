//! Mistakes in the parts of Flux.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::{array, nn};
use parity_tests::flux::vae;

pub(crate) fn ports(suite: Suite) -> Suite {
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
