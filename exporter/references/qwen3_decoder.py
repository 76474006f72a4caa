"""Goldens of Qwen3: the prompt at once, then greedy steps with a KV cache.

Run with: cargo xtask regenerate-fixtures qwen3/decoder
"""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from parity_export import main

OPS = ["add", "cat", "matmul", "mul"]


def reference(rec, prompt=6, steps=4, batch=2, rope_theta=1e6, **config):
    """A small Qwen3 that goes on with the likeliest token."""
    torch.manual_seed(0)
    config = Qwen3Config(
        **config,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        # Far more than in training, so that tokens differ and the likeliest stands out.
        initializer_range=0.15,
    )
    model = rec.weights(Qwen3ForCausalLM(config).eval(), vary=0.1)
    tokens = rec.input("input_ids", torch.randint(0, config.vocab_size, (batch, prompt)))

    rec.hook(
        model,
        {
            "root": None,
            "model.rotary_emb.0": "rope.cos",
            "model.rotary_emb.1": "rope.sin",
            "model.layers.*": "layers.*.out",
            "model.layers.*.add": "layers.*.attn_residual",
            "model.layers.*.self_attn.apply_rotary_pos_emb.0": "layers.*.attn.q_rope",
            "model.layers.*.self_attn.apply_rotary_pos_emb.1": "layers.*.attn.k_rope",
            # What is concatenated before is the rotary embedding's halves; the prompt's keys are those above.
            "model.layers.*.self_attn.cat.2": True,
            "model.layers.*.self_attn.cat.3": True,
            "model.layers.*.self_attn.mul.4": "layers.*.attn.scores",
            "model.layers.*.self_attn.matmul.1": "layers.*.attn.context",
            "model.layers.*.mlp.mul": "layers.*.mlp.gated",
            # All other operations are steps of the norms and the rotary embedding.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=[*OPS, "softmax"],
        functions=["transformers.models.qwen3.modeling_qwen3:apply_rotary_pos_emb"],
        rename={"model": "", "self_attn": "attn", "softmax": "probs", "cat.2": "keys", "cat.3": "values"},
    )
    cache = None
    for _ in rec.axis("step", steps):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        last = out.logits[:, -1]
        best = last.topk(2, dim=-1).values
        rec.save("margin", best[:, 0] - best[:, 1])
        tokens = rec.save("token", last.argmax(dim=-1))[:, None]


if __name__ == "__main__":
    main(reference)
