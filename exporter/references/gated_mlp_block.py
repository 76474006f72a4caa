"""Goldens of a gated MLP after RMSNorm, computed by NumPy in float64 and stored as float32.

Run with: cargo xtask regenerate-fixtures gated_mlp/block
"""

import sys

import numpy as np

from parity_export import Floor, Recorder

REFERENCE = {
    "script": "exporter/references/gated_mlp_block.py",
    "source": "numpy",
    "params": {"dim": 32, "hidden": 48, "tokens": 6},
}


def main(out_dir: str) -> None:
    with Recorder(out_dir, script=__file__, reference=REFERENCE) as recorder:
        params = recorder.params
        dim, hidden, tokens = params["dim"], params["hidden"], params["tokens"]
        draw = np.random.default_rng(0)
        weights = {
            "norm.weight": 1 + 0.2 * draw.standard_normal(dim),
            "gate.weight": draw.standard_normal((hidden, dim)) / np.sqrt(dim),
            "up.weight": draw.standard_normal((hidden, dim)) / np.sqrt(dim),
            "down.weight": draw.standard_normal((dim, hidden)) / np.sqrt(hidden),
            "down.bias": 0.1 * draw.standard_normal(dim),
        }
        weights = {name: array.astype(np.float32) for name, array in weights.items()}
        recorder.weights(weights)
        x = recorder.input("x", draw.standard_normal((1, tokens, dim)).astype(np.float32))

        def save(name: str, truth: np.ndarray) -> None:
            golden = truth.astype(np.float32)
            recorder.save(name, golden, floor=Floor.between(golden, truth))

        # From here on everything is float64, on the float32 weights and inputs that the port gets.
        w = {name: array.astype(np.float64) for name, array in weights.items()}
        x = x.astype(np.float64)
        normed = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * w["norm.weight"]
        save("norm", normed)
        gate, up = normed @ w["gate.weight"].T, normed @ w["up.weight"].T
        gated = gate / (1 + np.exp(-gate)) * up
        save("gated", gated)
        save("out", x + gated @ w["down.weight"].T + w["down.bias"])


if __name__ == "__main__":
    main(*sys.argv[1:])
