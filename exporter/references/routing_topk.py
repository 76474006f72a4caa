"""Goldens of a router that sends each token to its most probable experts, and of the experts' weighted sum.

Run with: cargo xtask regenerate-fixtures routing/topk
"""

import torch
import torch.nn.functional as F

from parity_export import main


def reference(rec, dim=24, hidden=16, experts=8, k=2, tokens=12):
    """A mixture of experts as in Mixtral: softmax, the top k, weights that sum to one."""
    torch.manual_seed(0)
    weights = {
        "gate.weight": torch.randn(experts, dim) / dim**0.5,
        "up": torch.randn(experts, hidden, dim) / dim**0.5,
        "down": torch.randn(experts, dim, hidden) / hidden**0.5,
    }
    x = torch.randn(tokens, dim)
    # The second and the third expert of token 0 are tied: a port may choose either.
    second, third = (x[0] @ weights["gate.weight"].T).argsort(descending=True)[1:3]
    between = weights["gate.weight"][second] - weights["gate.weight"][third]
    x[0] -= (between @ x[0]) / (between @ between) * between
    w = rec.weights(weights)
    x = rec.input("x", x)

    logits = rec.save("logits", x @ w["gate.weight"].T)
    probs = rec.save("probs", F.softmax(logits, dim=-1))
    ids = rec.choice("experts", probs.topk(k, dim=-1).indices)
    chosen = probs.gather(-1, ids)
    scale = rec.save("expert_weights", chosen / chosen.sum(dim=-1, keepdim=True))
    inner = F.silu(torch.einsum("tkhd,td->tkh", w["up"][ids], x))
    out = torch.einsum("tkdh,tkh->tkd", w["down"][ids], inner)
    rec.save("out", (out * scale[..., None]).sum(dim=1))


if __name__ == "__main__":
    main(reference, source="torch")
