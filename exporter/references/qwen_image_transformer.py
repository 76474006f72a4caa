"""Goldens of Qwen-Image's transformer.

Run with: cargo xtask regenerate-fixtures qwen_image/transformer qwen_image/transformer_bf16
"""

import torch
from diffusers.models.transformers import transformer_qwenimage as qwen

from parity_export import main

OPS = ["add", "chunk", "mul"]
PARTS = ["shift", "scale", "gate"]
# Which of a block's operations is what: parts of the modulations, and sums.
MODULATIONS = {2: "img.mod1", 3: "txt.mod1", 4: "img.mod2", 5: "txt.mod2"}
SUMS = {
    1: "img.modulated1",
    3: "txt.modulated1",
    4: "img.attn_residual",
    5: "txt.attn_residual",
    7: "img.modulated2",
    10: "txt.modulated2",
}
RENAMED = {
    "time_text_embed.time_proj": "time.proj",
    "time_text_embed.timestep_embedder": "time",
    "transformer_blocks": "blocks",
    "img_mod.1": "img.mod",
    "txt_mod.1": "txt.mod",
    "img_norm1": "img.norm1",
    "txt_norm1": "txt.norm1",
    "img_norm2": "img.norm2",
    "txt_norm2": "txt.norm2",
    "to_q": "img.to_q",
    "to_k": "img.to_k",
    "to_v": "img.to_v",
    "add_q_proj": "txt.to_q",
    "add_k_proj": "txt.to_k",
    "add_v_proj": "txt.to_v",
    "norm_q": "img.norm_q",
    "norm_k": "img.norm_k",
    "norm_added_q": "txt.norm_q",
    "norm_added_k": "txt.norm_k",
    "apply_rotary_emb_qwen": "img.q_rope",
    "apply_rotary_emb_qwen.1": "img.k_rope",
    "apply_rotary_emb_qwen.2": "txt.q_rope",
    "apply_rotary_emb_qwen.3": "txt.k_rope",
    "scaled_dot_product_attention": "context",
    "to_out.0": "img.to_out",
    "to_add_out": "txt.to_out",
    "img_mlp.net.0.proj": "img.mlp.up",
    "img_mlp.net.0": "img.mlp.act",
    "img_mlp.net.2": "img.mlp.down",
    "txt_mlp.net.0.proj": "txt.mlp.up",
    "txt_mlp.net.0": "txt.mlp.act",
    "txt_mlp.net.2": "txt.mlp.down",
}


def reference(rec, dtype="float32", shapes=((1, 3, 4), (1, 2, 5)), words=5, timesteps=(0.25, 0.875), **config):
    """A small transformer that edits: latents of an image to be, then those of an image to go by."""
    torch.manual_seed(0)
    dtype = getattr(torch, dtype)
    model = qwen.QwenImageTransformer2DModel(**config).to(dtype).eval()
    rec.weights(model, vary=0.1)
    batch, patches = len(timesteps), sum(frames * height * width for frames, height, width in shapes)
    latents = rec.input("hidden_states", torch.randn(batch, patches, config["in_channels"]).to(dtype))
    text = rec.input("encoder_hidden_states", torch.randn(batch, words, config["joint_attention_dim"]).to(dtype))
    # The last prompt is shorter than the others.
    lengths = torch.tensor([words] * (batch - 1) + [words - 2])
    mask = rec.input("encoder_hidden_states_mask", torch.arange(words) < lengths[:, None])
    timestep = rec.input("timestep", torch.tensor(timesteps).to(dtype))

    rec.hook(
        model,
        {
            "root": None,
            "pos_embed.0": "rope.img",
            "pos_embed.1": "rope.txt",
            # The same in every block, and at the end.
            "transformer_blocks.0.img_mod.0": "time.silu",
            "transformer_blocks.*.0": "blocks.*.txt.out",
            "transformer_blocks.*.1": "blocks.*.img.out",
            **{
                f"transformer_blocks.*.chunk.{at}.{index}": f"blocks.*.{name}.{part}"
                for at, name in MODULATIONS.items()
                for index, part in enumerate(PARTS)
            },
            **{f"transformer_blocks.*.add.{at}": f"blocks.*.{name}" for at, name in SUMS.items()},
            "norm_out": "norm_out.out",
            "norm_out.chunk.0": "norm_out.scale",
            "norm_out.chunk.1": "norm_out.shift",
            # All other operations are steps of the norms and of what is above.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*", ".*.*")},
            "**": True,
        },
        ops=[*OPS, "scaled_dot_product_attention"],
        functions=[qwen.apply_rotary_emb_qwen],
        rename=RENAMED,
    )
    model(
        hidden_states=latents,
        encoder_hidden_states=text,
        encoder_hidden_states_mask=mask,
        timestep=timestep,
        img_shapes=[[tuple(shape) for shape in shapes]] * batch,
    )


if __name__ == "__main__":
    main(reference)
