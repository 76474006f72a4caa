"""Goldens of one training step of Qwen3: the loss, every gradient, and a step of AdamW.

Run with: cargo xtask regenerate-fixtures qwen3/training
"""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from parity_export import main


def reference(rec, batch=2, tokens=6, lr=1e-3, weight_decay=0.1, rope_theta=1e6, **config):
    """A small Qwen3. The loss counts only the tokens after a prompt, and norms do not decay."""
    torch.manual_seed(0)
    config = Qwen3Config(
        **config,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        attn_implementation="eager",
        initializer_range=0.15,
    )
    model = rec.weights(Qwen3ForCausalLM(config), vary=0.1)
    ids = rec.input("input_ids", torch.randint(0, config.vocab_size, (batch, tokens)))
    labels = ids.clone()
    labels[0, :3] = -100
    labels = rec.input("labels", labels)

    rec.hook(
        model,
        {
            "model.embed_tokens": "embed_tokens",
            "model.layers.*": "layers.*.out",
            "model.norm": "norm",
            "lm_head": "lm_head",
        },
    )
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr)

    with torch.enable_grad():
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
    rec.gradients(loss, model)
    rec.step(optimizer)


if __name__ == "__main__":
    main(reference)
