# parity: environment = "numpy"
"""Goldens of a gated MLP after RMSNorm, in NumPy.

Run with: cargo xtask regenerate-fixtures gated_mlp/block
"""

import numpy as np

from parity_export import main


def reference(rec, dim=32, hidden=48, tokens=6):
    """A gated MLP after RMSNorm, with a residual around both."""
    draw = np.random.default_rng(0)
    weights = {
        "norm.weight": 1 + 0.2 * draw.standard_normal(dim),
        "gate.weight": draw.standard_normal((hidden, dim)) / np.sqrt(dim),
        "up.weight": draw.standard_normal((hidden, dim)) / np.sqrt(dim),
        "down.weight": draw.standard_normal((dim, hidden)) / np.sqrt(hidden),
        "down.bias": 0.1 * draw.standard_normal(dim),
    }
    w = rec.weights({name: array.astype(np.float32) for name, array in weights.items()})
    x = rec.input("x", draw.standard_normal((1, tokens, dim)).astype(np.float32))

    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    norm = rec.save("norm", x / np.sqrt(mean_square + np.float32(1e-6)) * w["norm.weight"])
    gate, up = norm @ w["gate.weight"].T, norm @ w["up.weight"].T
    gated = rec.save("gated", gate / (1 + np.exp(-gate)) * up)
    rec.save("out", x + gated @ w["down.weight"].T + w["down.bias"])


if __name__ == "__main__":
    main(reference, source="numpy")
