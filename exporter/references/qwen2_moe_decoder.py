"""Goldens of Qwen2-MoE: routed experts and a shared one; the prompt at once, then greedy steps with a KV cache.

Run with: cargo xtask regenerate-fixtures qwen2_moe/decoder
"""

import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from parity_export import main

OPS = ["add", "linear", "matmul", "mul"]


def reference(rec, seed=36, prompt=6, steps=3, batch=2, rope_theta=1e6, **config):
    """A small Qwen2-MoE that goes on with the likeliest token."""
    # A seed whose tokens differ, and whose scores are well apart: no two experts are nearly equal.
    torch.manual_seed(seed)
    config = Qwen2MoeConfig(
        **config,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        # One expert after the other, as the library's own code has it, and not one product for all.
        experts_implementation="eager",
        # Far more than in training, so that tokens differ and the likeliest expert stands out.
        initializer_range=0.2,
    )
    model = rec.weights(Qwen2MoeForCausalLM(config).eval(), vary=0.1)
    tokens = rec.input("input_ids", torch.randint(0, config.vocab_size, (batch, prompt)))

    rec.hook(
        model,
        {
            "root": None,
            "model.rotary_emb.0": "rope.cos",
            "model.rotary_emb.1": "rope.sin",
            "model.layers.*": "layers.*.out",
            "model.layers.*.add": "layers.*.attn_residual",
            "model.layers.*.self_attn.softmax": "layers.*.attn.probs",
            "model.layers.*.self_attn.matmul.1": "layers.*.attn.context",
            "model.layers.*.mlp": "layers.*.moe.out",
            "model.layers.*.mlp.gate.linear": "layers.*.moe.router.logits",
            "model.layers.*.mlp.gate.0": None,
            "model.layers.*.mlp.gate.1": "layers.*.moe.router.weights",
            "model.layers.*.mlp.gate.2": "layers.*.moe.router.ids",
            "model.layers.*.mlp.gate.softmax": "layers.*.moe.router.scores",
            "model.layers.*.mlp.experts": "layers.*.moe.experts",
            "model.layers.*.mlp.shared_expert": "layers.*.moe.shared.out",
            "model.layers.*.mlp.shared_expert_gate": "layers.*.moe.shared.gate",
            "model.layers.*.mlp.mul": "layers.*.moe.shared.gated",
            "model.layers.*.mlp.shared_expert.mul": None,
            # All other operations are steps of the norms, the rotary embedding and the experts.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=[*OPS, "softmax"],
        rename={"model": "", "self_attn": "attn"},
    )
    if config.num_hidden_layers > 1:
        rec.accept("same-bytes", "**.cache.positions", why="all layers hold the same tokens")
    cache = None
    for _ in rec.axis("step", steps):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        last = out.logits[:, -1]
        best = last.topk(2, dim=-1).values
        rec.save("margin", best[:, 0] - best[:, 1])
        tokens = rec.save("token", last.argmax(dim=-1))[:, None]
        for i, layer in enumerate(cache.layers):
            with rec.scope("layers", i), rec.scope("cache"):
                rec.save("positions", torch.arange(layer.get_seq_length(), dtype=torch.int32))
                rec.save("keys", layer.keys)
                rec.save("values", layer.values)


if __name__ == "__main__":
    main(reference)
