"""Goldens of Flux's transformer, diffusers' FluxTransformer2DModel, in float32 or bfloat16.

Run with: cargo xtask regenerate-fixtures flux/transformer flux/transformer_bf16
"""

import torch
from diffusers import FluxTransformer2DModel

from parity_export import main


def reference(rec, dtype, batch, text, height, width, timesteps, guidance, **config):
    """One prediction for `text` tokens and an image of `height` by `width` patches, with all that is on the way."""
    dtype = getattr(torch, dtype)
    model = FluxTransformer2DModel(**config).to(dtype).eval()
    model = rec.weights(model, vary=0.2)

    modules = {
        # Every block takes the SiLU of the same condition.
        "transformer_blocks.0.norm1.silu": True,
        "**.silu": None,
        "time_text_embed": "time_text_embed.out",
        "pos_embed.0": "pos_embed.cos",
        "pos_embed.1": "pos_embed.sin",
        "norm_out": "norm_out.out",
        "transformer_blocks.*.0": "transformer_blocks.*.encoder_hidden_states",
        "transformer_blocks.*.1": "transformer_blocks.*.hidden_states",
        "single_transformer_blocks.*.norm.0": "single_transformer_blocks.*.norm.out",
        "single_transformer_blocks.*.norm.1": "single_transformer_blocks.*.norm.gate",
        # The same as `sdpa` and `out`, only cut and put together in another way.
        "single_transformer_blocks.*.attn": None,
        "single_transformer_blocks.*": None,
    }
    for norm in ("norm1", "norm1_context"):
        for index, part in enumerate(("out", "gate_msa", "shift_mlp", "scale_mlp", "gate_mlp")):
            modules[f"**.{norm}.{index}"] = f"**.{norm}.{part}"
    rename = {"net.0.proj": "proj", "net.0": "act", "net.2": "out", "to_out.0": "to_out", "act_1": "act"}
    rec.hook(model, {**modules, "**": True}, rename=rename)
    rec.hits("time_text_embed.time_proj", 2)

    operations = {
        "root.mul": "timestep",
        "root.mul.1": "guidance",
        "time_text_embed.add": "time_text_embed.time_guidance",
        "**.attn.apply_rotary_emb": "**.attn.q_rope",
        "**.attn.apply_rotary_emb.1": "**.attn.k_rope",
        "**.attn.scaled_dot_product_attention": "**.attn.sdpa",
        "transformer_blocks.*.mul": "transformer_blocks.*.gated_attn",
        "transformer_blocks.*.add": "transformer_blocks.*.residual",
        "transformer_blocks.*.add.2": "transformer_blocks.*.modulated",
        "transformer_blocks.*.mul.2": "transformer_blocks.*.gated_ff",
        "transformer_blocks.*.mul.3": "transformer_blocks.*.gated_attn_context",
        "transformer_blocks.*.add.4": "transformer_blocks.*.residual_context",
        "transformer_blocks.*.add.6": "transformer_blocks.*.modulated_context",
        "transformer_blocks.*.mul.5": "transformer_blocks.*.gated_ff_context",
        "single_transformer_blocks.*.mul": "single_transformer_blocks.*.gated",
        "single_transformer_blocks.*.add": "single_transformer_blocks.*.out",
    }
    ops = ["mul", "add", "scaled_dot_product_attention"]
    rec.hook(model, operations, ops=ops, functions=["diffusers.models.transformers.transformer_flux:apply_rotary_emb"])
    rec.accept("zero", "txt_ids", why="Flux gives all tokens of text the same place")

    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    img_ids = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).reshape(-1, 3)
    model(
        hidden_states=rec.input("hidden_states", torch.randn(batch, height * width, config["in_channels"]).to(dtype)),
        encoder_hidden_states=rec.input(
            "encoder_hidden_states", torch.randn(batch, text, config["joint_attention_dim"]).to(dtype)
        ),
        pooled_projections=rec.input(
            "pooled_projections", torch.randn(batch, config["pooled_projection_dim"]).to(dtype)
        ),
        timestep=rec.input("timestep", torch.tensor(timesteps).to(dtype)),
        guidance=rec.input("guidance", torch.tensor(guidance)),
        img_ids=rec.input("img_ids", img_ids.to(dtype)),
        txt_ids=rec.input("txt_ids", torch.zeros(text, 3).to(dtype)),
    )


if __name__ == "__main__":
    main(reference)
