"""Goldens of Qwen3's choices: its probabilities, and the tokens of greedy decoding.

Run with: cargo xtask regenerate-fixtures qwen3/greedy
"""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from parity_export import main


def reference(rec, prompt=8, steps=6, batch=2, top=12, rope_theta=1e6, **config):
    """A small Qwen3 that goes on with the likeliest token. Two tokens of its vocabulary always have equal logits."""
    torch.manual_seed(5)
    config = Qwen3Config(
        **config,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        # Far more than in training, so that tokens differ and the likeliest stands out.
        initializer_range=0.15,
    )
    model = Qwen3ForCausalLM(config).eval()
    for parameter in model.parameters():
        # The weights of norms begin as ones, which would hide that a port leaves them out.
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    tokens = torch.randint(0, config.vocab_size, (batch, prompt))
    # The first chosen token and the next one of the vocabulary are tied: a port may choose either.
    chosen = model(input_ids=tokens[:1]).logits[0, -1].argmax()
    head = model.lm_head.weight.data
    head[(chosen + 1) % len(head)] = head[chosen]
    model = rec.weights(model)
    tokens = rec.input("input_ids", tokens)

    out = model(input_ids=tokens, use_cache=True)
    rec.distribution("prompt.logits", out.logits)
    for step in rec.axis("step", steps):
        last = rec.distribution("logits", out.logits[:, -1], top=top)
        tokens = rec.choice("token", last.argmax(dim=-1))
        if step + 1 < steps:
            out = model(input_ids=tokens[:, None], past_key_values=out.past_key_values, use_cache=True)


if __name__ == "__main__":
    main(reference)
