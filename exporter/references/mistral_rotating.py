"""Goldens of Mistral with a sliding window: the prompt at once, then greedy steps with the cache of the window.

Run with: cargo xtask regenerate-fixtures mistral/rotating
"""

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

from parity_export import main

OPS = ["add", "matmul", "mul"]


def reference(rec, prompt=9, steps=4, batch=2, rope_theta=1e4, **config):
    """A small Mistral that goes on with the likeliest token."""
    # Of many seeds, one whose tokens differ and stand out.
    torch.manual_seed(4)
    config = MistralConfig(
        **config,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        # Far more than in training, so that tokens differ and the likeliest stands out.
        initializer_range=0.15,
    )
    model = rec.weights(MistralForCausalLM(config).eval(), vary=0.1)
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
            "model.layers.*.self_attn.mul.4": "layers.*.attn.scores",
            "model.layers.*.self_attn.matmul.1": "layers.*.attn.context",
            "model.layers.*.mlp.mul": "layers.*.mlp.gated",
            # All other operations are steps of the norms and the rotary embedding.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=[*OPS, "softmax"],
        functions=["transformers.models.mistral.modeling_mistral:apply_rotary_pos_emb"],
        rename={"model": "", "self_attn": "attn", "softmax": "probs"},
    )

    class Recorded(DynamicCache):
        """The library's cache. It drops what no later token sees, so the window is taken from what it returns."""

        def update(self, keys, values, layer, *args, **kwargs):
            keys, values = super().update(keys, values, layer, *args, **kwargs)
            seen = self.get_seq_length(layer)
            held = min(seen, config.sliding_window)
            with rec.scope("layers", layer), rec.scope("cache"):
                rec.save("positions", torch.arange(seen - held, seen, dtype=torch.int32))
                rec.save("keys", keys[:, :, -held:])
                rec.save("values", values[:, :, -held:])
            return keys, values

    rec.accept("same-bytes", "**.cache.positions", why="all layers hold the same window")
    cache = Recorded(config=config)
    for _ in rec.axis("step", steps):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        last = out.logits[:, -1]
        best = last.topk(2, dim=-1).values
        rec.save("margin", best[:, 0] - best[:, 1])
        tokens = rec.save("token", last.argmax(dim=-1))[:, None]


if __name__ == "__main__":
    main(reference)
