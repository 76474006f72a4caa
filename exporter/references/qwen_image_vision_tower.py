"""Goldens of the vision tower of Qwen2.5-VL, which Qwen-Image conditions edits with.

Run with: cargo xtask regenerate-fixtures qwen_image/vision_tower
"""

import torch
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig

from parity_export import main

OPS = ["add", "cat", "matmul", "mul"]
WINDOWS = 6


def reference(rec, grid=((1, 8, 6), (2, 4, 4)), **config):
    """A small tower that sees an image, and a video of two frames, in one call."""
    torch.manual_seed(0)
    config = Qwen2_5_VLVisionConfig(**config, attn_implementation="eager", initializer_range=0.15)
    model = rec.weights(qwen.Qwen2_5_VisionTransformerPretrainedModel(config).eval(), vary=0.1)
    patches = sum(frames * height * width for frames, height, width in grid)
    features = config.in_channels * config.temporal_patch_size * config.patch_size**2
    pixels = rec.input("pixel_values", torch.randn(patches, features))

    windowed = {"hidden_states": "patches", "position_embeddings.0": "cos", "position_embeddings.1": "sin"}
    rec.hook(model, {f"blocks.0.input.{name}": f"windowed.{ours}" for name, ours in windowed.items()}, at="input")
    rec.hook(
        model,
        {
            "root.get_vision_position_ids": "position_ids",
            "root.get_vision_window_index.0": "window_index",
            "root.pooler_output": "merged",
            "root.**": None,
            # The same as its convolution, which has the kernel's axes still.
            "patch_embed": None,
            "rotary_pos_emb.0": "rope.cos",
            "rotary_pos_emb.1": "rope.sin",
            "blocks.*": "blocks.*.out",
            "blocks.*.add": "blocks.*.attn_residual",
            "blocks.*.attn.apply_rotary_pos_emb_vision.0": "blocks.*.attn.q_rope",
            "blocks.*.attn.apply_rotary_pos_emb_vision.1": "blocks.*.attn.k_rope",
            # After the rotary embedding's four products, one window after the other.
            **{f"blocks.*.attn.mul.{4 + w}": f"blocks.*.attn.windows.{w}.scores" for w in range(WINDOWS)},
            "blocks.*.attn.softmax": "blocks.*.attn.windows.0.probs",
            "blocks.*.attn.softmax.*": "blocks.*.attn.windows.*.probs",
            "blocks.*.attn.cat.2": "blocks.*.attn.context",
            "blocks.*.mlp.mul": "blocks.*.mlp.gated",
            # All other operations are steps of the norms and of what is above.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=[*OPS, "softmax"],
        functions=[qwen.apply_rotary_pos_emb_vision, qwen.get_vision_position_ids, qwen.get_vision_window_index],
        rename={"merger.mlp.0": "merger.up", "merger.mlp.1": "merger.act_fn", "merger.mlp.2": "merger.down"},
    )
    model(hidden_states=pixels, grid_thw=torch.tensor(grid))


if __name__ == "__main__":
    main(reference)
