"""Goldens of Mamba: the prompt at once by a scan, then greedy steps from the states that the scan left.

Run with: cargo xtask regenerate-fixtures mamba/decoder
"""

import torch
from transformers import MambaConfig, MambaForCausalLM

from parity_export import main

OPS = ["add", "exp", "matmul", "mul", "silu", "softplus"]


def reference(rec, prompt=6, steps=3, batch=2, **config):
    """A small Mamba that goes on with the likeliest token."""
    # Of many seeds, one whose tokens differ and stand out.
    torch.manual_seed(137)
    # Far more than in training, so that tokens differ and the likeliest stands out.
    config = MambaConfig(**config, initializer_range=0.3)
    model = MambaForCausalLM(config).eval()
    # Every layer starts with the same A, which would hide that one takes that of another.
    for layer in model.backbone.layers:
        layer.mixer.A_log.data += 0.2 * torch.randn_like(layer.mixer.A_log)
    model = rec.weights(model, vary=0.2)
    tokens = rec.input("input_ids", torch.randint(0, config.vocab_size, (batch, prompt)))

    mixer, to = "backbone.layers.*.mixer", "layers.*.mixer"
    rec.hook(
        model,
        {
            "root": None,
            "backbone": None,
            "backbone.layers.*": "layers.*.out",
            # SiLU follows the convolution; the second one is the gate's.
            f"{mixer}.silu": f"{to}.conv",
            f"{mixer}.softplus": f"{to}.dt",
            # The first exponential is that of `A_log`.
            f"{mixer}.exp.1": f"{to}.decay",
            f"{mixer}.mul.2": f"{to}.input",
            # The first sum adds the bias of dt, the first product is its projection. Then each token has one of both. In a step
            # with one token, the second sum is that of `D`.
            **{f"{mixer}.add.{i + 1}": f"{to}.scan.{i}.state" for i in range(prompt)},
            **{f"{mixer}.matmul.{i + 1}": f"{to}.scan.{i}.out" for i in range(prompt)},
            f"{mixer}.add.{prompt + 1}": f"{to}.skipped",
            **{f"**.{op}{more}": None for op in OPS for more in ("", ".*")},
            "**": True,
        },
        ops=OPS,
        rename={"backbone": ""},
    )
    rec.hook(model, {f"{mixer}.out_proj": f"{to}.gated"}, at="input")
    cache = None
    for _ in rec.axis("step", steps):
        out = model(input_ids=tokens, cache_params=cache, use_cache=True)
        cache = out.cache_params
        last = out.logits[:, -1]
        best = last.topk(2, dim=-1).values
        rec.save("margin", best[:, 0] - best[:, 1])
        tokens = rec.save("token", last.argmax(dim=-1))[:, None]
        for i, layer in enumerate(cache.layers):
            with rec.scope("layers", i), rec.scope("cache"):
                rec.save("conv", layer.conv_states[0])
                rec.save("scan", layer.recurrent_states[0])


if __name__ == "__main__":
    main(reference)
