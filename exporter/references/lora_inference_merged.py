# parity: environment = "numpy"
"""A second reference of `lora/inference`, in NumPy: the adapters are merged into the weights.

It takes inputs and weights from the set that the first reference makes, and shares no code with it.
"""

import numpy as np

from parity_export import main


def rms_norm(x, weight):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-6)) * weight


def reference(rec, vocab, dim, hidden, blocks, heads, rank, alpha, batch, tokens):
    """Token ids to logits, with the adapters merged into their layers."""

    def merged(name):
        adapter = f"base_model.model.{name}"
        product = rec.load(f"{adapter}.lora_B.weight") @ rec.load(f"{adapter}.lora_A.weight")
        return rec.load(f"{name}.base.weight") + product * np.float32(alpha / rank)

    def split(x):
        return x.reshape(batch, tokens, heads, dim // heads).transpose(0, 2, 1, 3)

    x = rec.save("embed", rec.load("embed.weight")[rec.load("input_ids")])
    future = np.triu(np.ones((tokens, tokens), dtype=bool), 1)
    for i in range(blocks):
        block = f"blocks.{i}"
        normed = rms_norm(x, rec.load(f"{block}.norm1.weight"))
        q = rec.save(f"{block}.q", normed @ merged(f"{block}.q").T)
        v = rec.save(f"{block}.v", normed @ merged(f"{block}.v").T)
        k = normed @ rec.load(f"{block}.k.weight").T
        scores = split(q) @ split(k).transpose(0, 1, 3, 2) / np.float32(np.sqrt(dim // heads))
        scores = np.where(future, np.float32(-np.inf), scores)
        probs = np.exp(scores - scores.max(axis=-1, keepdims=True))
        probs = probs / probs.sum(axis=-1, keepdims=True)
        context = (probs @ split(v)).transpose(0, 2, 1, 3).reshape(batch, tokens, dim)
        x = x + context @ rec.load(f"{block}.o.weight").T
        up = rms_norm(x, rec.load(f"{block}.norm2.weight")) @ rec.load(f"{block}.up.weight").T
        x = rec.save(f"{block}.out", x + up / (1 + np.exp(-up)) @ rec.load(f"{block}.down.weight").T)
    rec.save("head", rms_norm(x, rec.load("norm.weight")) @ rec.load("head.weight").T)


if __name__ == "__main__":
    main(reference)
