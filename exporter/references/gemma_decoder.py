"""Goldens of Gemma 2: the prompt at once, then greedy steps with a KV cache.

Run with: cargo xtask regenerate-fixtures gemma/decoder gemma/decoder_bf16
"""

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from parity_export import main

OPS = ["add", "cat", "div", "matmul", "mul", "tanh"]


def reference(rec, dtype="float32", prompt=7, steps=3, batch=2, rope_theta=1e4, **config):
    """A small Gemma 2 that goes on with the likeliest token."""
    # Of many seeds, one whose tokens differ from step to step and stand out in bfloat16, too.
    torch.manual_seed(42)
    config = Gemma2Config(
        **config,
        num_hidden_layers=len(config["layer_types"]),
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        # Far more than in training, so that scores reach their cap and the likeliest token stands out.
        initializer_range=0.25,
    )
    model = Gemma2ForCausalLM(config).eval()
    # The head is tied: with larger embeddings, every token would predict itself.
    model.model.embed_tokens.weight.data *= 0.4
    model = rec.weights(model.to(getattr(torch, dtype)), vary=0.2)
    tokens = rec.input("input_ids", torch.randint(3, config.vocab_size, (batch, prompt)))

    rec.hook(
        model,
        {
            "root.mul": "logits",
            "root": None,
            "root.*": None,
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
            "model.layers.*.self_attn.mul.5": "layers.*.attn.capped",
            # The softmax itself is float32 with any dtype of the model. Without training, dropout passes on what it takes.
            "model.layers.*.self_attn.dropout": "layers.*.attn.probs",
            "model.layers.*.self_attn.matmul.1": "layers.*.attn.context",
            "model.layers.*.mlp.mul": "layers.*.mlp.gated",
            # All other operations are steps of the norms, the rotary embedding and the caps.
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=[*OPS, "dropout"],
        functions=["transformers.models.gemma2.modeling_gemma2:apply_rotary_pos_emb"],
        rename={"model": "", "self_attn": "attn", "cat.2": "keys", "cat.3": "values"},
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
