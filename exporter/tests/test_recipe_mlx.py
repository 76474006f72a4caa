"""Recipes of MLX references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs MLX")

from mlx import nn  # noqa: E402

from parity_export import numpy_replay  # noqa: E402


def recipes(made: Any) -> Any:
    return json.loads((made.folder / "recipes.json").read_text(encoding="utf-8"))


X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
HEADS = np.random.default_rng(1).standard_normal((1, 4, 6, 8)).astype(np.float32)


def _doubled(x: Any) -> Any:
    x += x
    return x


# The call, its operand, and the operations that it becomes.
CASES: dict[str, tuple[Any, Any, str]] = {
    "operators": (lambda x: (1 - x) * x / 2 + x**2, X, "sub mul div pow add"),
    "functions": (lambda x: mx.tanh(mx.exp(-mx.abs(x))), X, "abs neg exp tanh"),
    "comparison": (lambda x: mx.where(x > 0, x, 0.0), X, "gt where"),
    "mean": (lambda x: x.mean(axis=-1, keepdims=True) + mx.max(x), X, "mean max add"),
    "var": (lambda x: mx.var(x, axis=(0, 1)), X, "var"),
    "softmax": (lambda x: mx.softmax(x, axis=-1), X, "softmax"),
    "matmul": (lambda x: x @ x.swapaxes(1, 2), X, "permute matmul"),
    "linear": (lambda x: x @ x[0].T, X, "slice reshape permute linear"),
    "rms_norm": (lambda x: mx.fast.rms_norm(x, x[0, 0], 0.01), X, "slice slice reshape rms_norm"),
    "layer_norm": (lambda x: mx.fast.layer_norm(x, None, None, 0.01), X, "layer_norm"),
    "attention": (
        lambda x: mx.fast.scaled_dot_product_attention(x, x[:, :2], x[:, :2], scale=0.3, mask="causal"),
        HEADS,
        "slice slice attention",
    ),
    "forms": (lambda x: mx.expand_dims(x.transpose(2, 0, 1).reshape(4, 6), 0), X, "permute reshape reshape"),
    "joins": (lambda x: mx.stack([mx.concatenate([x, x * 2], axis=-1)] * 2), X, "mul cat stack"),
    "split": (lambda x: mx.split(x, 2, axis=-1)[1], X, "slice"),
    "casts": (lambda x: (x * 3).astype(mx.int32), X, "mul cast"),
    "in place": (_doubled, X, "add"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_becomes_its_operations(name: str, export: Any) -> None:
    call, x, ops = CASES[name]

    def reference(rec: Any) -> None:
        rec.save("y", call(rec.input("x", mx.array(x))))

    found = recipes(export(reference))
    assert found["missing"] == {}
    leaves = ("input", "constant")
    if name == "linear":
        assert [node[0] for node in found["nodes"]] == ["input", "slice", "reshape", "linear"]
        return
    assert [node[0] for node in found["nodes"] if node[0] not in leaves] == ops.split()


class Layers(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.embed = nn.Embedding(10, dim)
        self.norm = nn.RMSNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.QuantizedLinear.from_linear(nn.Linear(2 * dim, dim), group_size=64, bits=4)

    def __call__(self, ids: Any) -> Any:
        return self.down(self.up(self.norm(self.embed(ids))))


def test_layers_become_what_a_port_is_written_in(export: Any) -> None:
    def reference(rec: Any) -> None:
        model = rec.weights(Layers(64), vary=0.1)
        rec.hook(model, "**")
        model(rec.input("ids", mx.array([[1, 4, 9]])))

    found = recipes(export(reference))
    assert found["missing"] == {}
    kinds = [node[0] for node in found["nodes"] if node[0] not in ("weight", "input")]
    assert kinds == ["take", "rms_norm", "linear", "dequantize", "linear", "add"]
    up = found["nodes"][found["goldens"]["up"]]
    assert [found["nodes"][at][2]["name"] for at in up[1][1:]] == ["up.weight", "up.bias"]
    assert found["nodes"][found["goldens"]["embed"]][3:5] == [0, up[4]]


def test_a_compiled_function_ends_a_recipe(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = rec.input("x", mx.array(X))
        rec.save("y", mx.exp(mx.compile(lambda x: x * 1.7)(x)))

    assert [node[0] for node in recipes(export(reference))["nodes"]] == ["unknown", "exp"]


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_dequantizing_is_replayed_as_mlx_does_it(bits: int) -> None:
    weight = mx.random.normal((3, 128))
    packed, scales, biases = mx.quantize(weight, group_size=32, bits=bits)
    expected = mx.dequantize(packed, scales, biases, group_size=32, bits=bits)
    inputs = [np.array(part).astype(np.float64) for part in (packed, scales, biases)]
    found = numpy_replay.replay("dequantize", inputs, {"bits": bits, "group_size": 32})
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-5, atol=1e-6)


def test_recipes_change_no_other_byte(export: Any, tmp_path: Path) -> None:
    def reference(rec: Any) -> None:
        model = rec.weights(nn.Linear(4, 3))
        rec.save("y", nn.silu(model(rec.input("x", mx.array(X)))))

    with_them = export(reference, tmp_path / "with").bytes()
    without = export(reference, tmp_path / "without", recipes=False).bytes()
    assert set(with_them) - set(without) == {"recipes.json"}
    assert all(with_them[file] == data for file, data in without.items() if file != "manifest.json")
