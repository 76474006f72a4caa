"""Makes answers.json, what real MLX must answer in `mlx_answers.rs`, with NumPy and ml_dtypes alone.

Run: python3 tests/e2e/mlx_answers/make_answers.py > tests/e2e/mlx_answers/answers.json
"""

import json

import ml_dtypes
import numpy as np

draw = np.random.default_rng(7)


def floats(array: np.ndarray) -> list[float]:
    return [float(value) for value in array.astype(np.float32).ravel()]


def bits(array: np.ndarray) -> list[int]:
    return [int(value) for value in array.view(np.uint16).ravel()]


a = draw.standard_normal((3, 4)).astype(np.float32)
b = draw.standard_normal((4, 2)).astype(np.float32)
bias = draw.standard_normal(2).astype(np.float32)
product = a.astype(np.float64) @ b.astype(np.float64)
shifted = np.exp(a.astype(np.float64) - a.max(axis=-1, keepdims=True))
# Halfway cases, the largest and the smallest normal half, and what overflows to infinity. No subnormals: a GPU may
# flush those to zero, and be right.
edges = np.array([1.0, -2.5, 1.0009765625, 1.00390625, 65504.0, 6.103515625e-05, 3.0e38, 1 / 3], dtype=np.float32)

print(
    json.dumps(
        {
            "a": floats(a),
            "b": floats(b),
            "bias": floats(bias),
            "matmul": floats(product),
            "linear": floats(product + bias),
            "softmax": floats(shifted / shifted.sum(axis=-1, keepdims=True)),
            "edges": floats(edges),
            "edges_float16": bits(edges.astype(np.float16)),
            "edges_bfloat16": bits(edges.astype(ml_dtypes.bfloat16)),
            "twice_float16": bits(edges.astype(np.float16) * np.float16(2)),
            "twice_bfloat16": bits(edges.astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(2)),
        },
        indent=1,
    )
)
