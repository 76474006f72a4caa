"""Goldens of diffusers' FluxPipeline from embedded text and noise to pixels.

Run with: cargo xtask regenerate-fixtures flux/pipeline
"""

from contextlib import ExitStack
from functools import wraps

import numpy as np
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

from parity_export import main


def reference(rec, transformer, scheduler, vae, steps, guidance, text, height, width):
    """An image in `steps` steps, from latents of `height` by `width` and a prompt of `text` tokens."""
    levels = len(vae["block_out_channels"])
    transformer = FluxTransformer2DModel(**transformer).eval()
    vae = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=["UpDecoderBlock2D"] * levels,
        use_quant_conv=False,
        use_post_quant_conv=False,
        **vae,
    ).eval()
    rec.weights(transformer, prefix="transformer.", vary=0.2)
    rec.weights(vae.decoder, prefix="vae.", vary=0.2)
    pipe = FluxPipeline(
        FlowMatchEulerDiscreteScheduler(**scheduler), vae, None, None, None, None, transformer
    )
    pipe.set_progress_bar_config(disable=True)
    rec.watch(pipe, pipe.scheduler)

    rec.hook(
        transformer,
        {
            "root": "velocity",
            "time_text_embed": "time_text_embed.out",
            "transformer_blocks.*.0": "transformer_blocks.*.encoder_hidden_states",
            "transformer_blocks.*.1": "transformer_blocks.*.hidden_states",
            "norm_out": "norm_out.out",
        },
    )
    rec.hook(transformer, {"single_transformer_blocks.*.add": "single_transformer_blocks.*.out"}, ops=["add"])
    rec.hook(vae.decoder, {"conv_in": "unpacked"}, at="input")
    rec.hook(
        vae.decoder,
        {
            "conv_in": "vae.conv_in",
            "mid_block": "vae.mid_block.resnets.1.out",
            "up_blocks.*.resnets.*": "vae.up_blocks.*.resnets.*.out",
            "root": "image",
        },
    )

    latents = rec.input("latents", torch.randn(1, height * width // 4, transformer.config.in_channels))
    prompt_embeds = rec.input("prompt_embeds", torch.randn(1, text, transformer.config.joint_attention_dim))
    pooled = rec.input("pooled_prompt_embeds", torch.randn(1, transformer.config.pooled_projection_dim))
    with ExitStack() as scopes:
        set_timesteps = pipe.scheduler.set_timesteps

        @wraps(set_timesteps)
        def before_steps(*args, **kwargs):
            set_timesteps(*args, **kwargs)
            rec.save("sigmas", pipe.scheduler.sigmas)
            rec.save("timesteps", pipe.scheduler.timesteps)
            scopes.enter_context(rec.scope("step", 0))

        def after_step(pipe, index, timestep, given):
            rec.save("sample", given["latents"])
            scopes.close()
            if index + 1 < steps:
                scopes.enter_context(rec.scope("step", index + 1))
            return given

        pipe.scheduler.set_timesteps = before_steps
        images = pipe(
            prompt_embeds=prompt_embeds,
            pooled_prompt_embeds=pooled,
            latents=latents,
            height=height * pipe.vae_scale_factor,
            width=width * pipe.vae_scale_factor,
            num_inference_steps=steps,
            guidance_scale=guidance,
            callback_on_step_end=after_step,
        ).images
    rec.save("pixels", np.stack([np.asarray(image) for image in images]))


if __name__ == "__main__":
    main(reference)
