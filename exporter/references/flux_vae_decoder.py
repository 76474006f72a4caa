"""Goldens of Flux's VAE decoder: diffusers' AutoencoderKL, without the convolution after quantisation, as Flux has it.

Run with: cargo xtask regenerate-fixtures flux/vae_decoder
"""

import torch
from diffusers import AutoencoderKL

from parity_export import main


def reference(rec, latent_channels, block_out_channels, layers_per_block, norm_num_groups, height, width):
    """Decodes latents of `height` by `width`, which are not the same, so that swapped axes show."""
    levels = len(block_out_channels)
    vae = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=["UpDecoderBlock2D"] * levels,
        latent_channels=latent_channels,
        block_out_channels=block_out_channels,
        layers_per_block=layers_per_block,
        norm_num_groups=norm_num_groups,
        use_quant_conv=False,
        use_post_quant_conv=False,
    ).eval()
    decoder = rec.weights(vae.decoder, vary=0.2)
    latents = rec.input("latents", torch.randn(1, latent_channels, height, width))

    names = {
        "**.nonlinearity": None,
        "**.dropout": None,
        "**.resnets.*": "**.resnets.*.out",
        "**.attentions.*": "**.attentions.*.out",
        "**": True,
    }
    ops = ["interpolate", "scaled_dot_product_attention"]
    rec.hook(decoder, names, ops=ops, rename={"scaled_dot_product_attention": "sdpa"})
    # A resnet calls one activation twice: what the convolutions are given tells its results apart.
    rec.hook(decoder, {"**.conv1": "**.act1", "**.conv2": "**.act2"}, at="input")
    vae.decode(latents)


if __name__ == "__main__":
    main(reference)
