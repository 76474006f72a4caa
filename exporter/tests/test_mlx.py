"""References in Python MLX: hooks, operations and true float64."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs mlx")
nn = pytest.importorskip("mlx.nn", reason="needs mlx")

from parity_export import mlx_exact, mlx_side  # noqa: E402
from parity_export.values import hand_back, host  # noqa: E402

Module: Any = nn.Module


class Attention(Module):
    def __init__(self, dim: int):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def __call__(self, x: Any) -> Any:
        scores = self.q(x) @ self.k(x).swapaxes(-1, -2) * x.shape[-1] ** -0.5
        return mx.softmax(scores, axis=-1) @ self.v(x)


class Block(Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.attn = Attention(dim)
        self.up = nn.Linear(dim, dim)

    def __call__(self, x: Any) -> Any:
        x = x + self.attn(self.norm(x))
        return x + nn.silu(self.up(x))


class Model(Module):
    def __init__(self, dim: int, layers: int):
        super().__init__()
        self.blocks = [Block(dim) for _ in range(layers)]

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def reference(rec: Any, dim: int = 16, layers: int = 2, dtype: str = "float32", **hook: Any) -> None:
    model = Model(dim, layers)
    model.set_dtype(getattr(mx, dtype))
    rec.weights(model, vary=0.1)
    x = rec.input("x", mx.random.normal((1, 5, dim)).astype(getattr(mx, dtype)))
    rec.hook(model, hook.pop("names", {"root": None, "**": True}), **hook)
    model(x)


def by_hand(made: Any, layers: int = 2) -> Any:
    """Returns the model's output in float64, computed by NumPy."""
    w = {name: made.tensor("weight", name).wide() for role, name in made.entries if role == "weight"}
    x = made.tensor("input", "x").wide()
    for i in range(layers):

        def linear(x: Any, name: str, block: str = f"blocks.{i}") -> Any:
            return x @ w[f"{block}.{name}.weight"].T + w[f"{block}.{name}.bias"]

        h = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * w[f"blocks.{i}.norm.weight"]
        scores = linear(h, "attn.q") @ np.swapaxes(linear(h, "attn.k"), -1, -2) / np.sqrt(x.shape[-1])
        probs = np.exp(scores - scores.max(-1, keepdims=True))
        x = x + probs / probs.sum(-1, keepdims=True) @ linear(h, "attn.v")
        up = linear(x, "up")
        x = x + up / (1 + np.exp(-up))
    return x


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_floors_are_distances_from_true_float64(export: Any, dtype: str) -> None:
    made = export(lambda rec: reference(rec, dtype=dtype), lint="refuse", script=__file__)
    golden = made.goldens["blocks.1"]
    assert golden["dtype"] == dtype
    error = np.abs(made.tensor("golden", "blocks.1").wide() - by_hand(made))
    assert golden["floor"]["max"] == pytest.approx(error.max(), rel=1e-3 if dtype == "float32" else 1e-9)
    assert golden["floor"]["rms"] > 0
    # The patches are removed.
    assert mx.float32 != mx.float64
    assert isinstance(mx.zeros(2), mx.array)
    assert mx.zeros(2).dtype == mx.float32


def test_modules_and_operations_are_seen_under_stable_names(export: Any) -> None:
    made = export(
        lambda rec: reference(
            rec,
            names={"**.attn": "{1}.attn.out", "**": True},
            ops=["softmax", "add"],
            rename={"attn.softmax": "attn.probs", "add": "mid", "add.1": "out"},
        ),
        script=__file__,
    )
    block = ["norm", "attn.q", "attn.k", "attn.probs", "attn.v", "attn.out", "mid", "up", "out"]
    assert list(made.goldens) == [f"blocks.{i}.{name}" for i in range(2) for name in block]
    assert ":Attention.__call__:" in made.goldens["blocks.1.attn.probs"]["place"] or sys.version_info < (3, 11)
    assert all("floor" in entry for entry in made.goldens.values())


def test_inputs_of_modules_can_be_recorded(export: Any) -> None:
    made = export(lambda rec: reference(rec, names=["blocks.*.attn"], at="input"), script=__file__)
    assert list(made.goldens) == ["blocks.0.attn.input", "blocks.1.attn.input"]


def test_functions_are_seen_inside_their_module(export: Any) -> None:
    made = export(lambda rec: reference(rec, names=["**.silu"], functions=["mlx.nn:silu"]), script=__file__)
    assert list(made.goldens) == ["blocks.0.silu", "blocks.1.silu"]


def test_near_names_are_offered_for_a_name_that_matches_nothing(export: Any) -> None:
    with pytest.raises(
        LookupError, match=r"no module matches `blocks\.\*\.atn\.q`; similar names: `blocks\.\d\.attn\.q`"
    ):
        export(lambda rec: reference(rec, names=["blocks.*.atn.q"]), script=__file__)
    made = export(lambda rec: reference(rec, names=["**.softmx", "**.q"], ops=True), script=__file__)
    (finding,) = [finding for finding in made.report["findings"] if finding["kind"] == "never-called"]
    assert "no point matches `**.softmx`; similar names: `blocks.0.attn.softmax`" in finding["message"]


def test_operations_that_mlx_cannot_do_in_float64_take_the_floor_away(export: Any) -> None:
    def lossy(rec: Any) -> None:
        x = rec.input("x", mx.random.normal((4, 4)))
        y = rec.save("before", mx.exp(x) @ x)
        rec.save("after", mx.erfinv(mx.clip(y, -0.9, 0.9)))

    made = export(lossy)
    assert "floor" in made.goldens["before"]
    assert made.goldens["after"]["no_floor"] == "MLX does not compute `erfinv` in true float64"


def test_an_input_that_no_operation_uses_is_found(export: Any) -> None:
    def ignoring(rec: Any) -> None:
        x = rec.input("x", mx.random.normal((4,)))
        rec.input("mask", mx.ones((4,)) * mx.arange(4))
        rec.save("y", mx.exp(x))

    assert export(ignoring).found() == [("unused-input", "mask")]


def test_a_draw_that_is_not_exported_is_found(export: Any) -> None:
    def drawing(rec: Any) -> None:
        x = rec.input("x", mx.random.normal((4,)))
        rec.save("y", x + mx.random.normal((4,), key=mx.random.key(3)))

    assert export(drawing).found() == [("unexported-draw", "y")]


def test_quantized_layers_are_exact_in_float64(export: Any) -> None:
    def quantized(rec: Any, bits: int = 4) -> None:
        layer = nn.QuantizedLinear(64, 32, bias=False, group_size=32, bits=bits)
        rec.weights(layer)
        x = rec.input("x", mx.random.normal((3, 64)))
        rec.hook(layer, {"root": "out"})
        layer(x)

    for bits in (4, 8):
        made = export(quantized, params={"bits": bits})
        full = np.array(
            mx.dequantize(
                *(hand_back(made.tensor("weight", name), "mlx") for name in ("weight", "scales", "biases")),
                group_size=32,
                bits=bits,
            )
        )
        error = np.abs(
            made.tensor("golden", "out").wide() - made.tensor("input", "x").wide() @ full.T.astype(np.float64)
        )
        # MLX dequantizes in float32 here, so the two truths agree to that and no further.
        assert made.goldens["out"]["floor"]["max"] == pytest.approx(error.max(), rel=0.5)
        assert made.goldens["out"]["floor"]["max"] < 1e-5


def test_replacements_do_what_mlx_does() -> None:
    draw = np.random.default_rng(0)

    def wide(*shape: int) -> Any:
        return mx.array(draw.standard_normal(shape), dtype=mx.float64)

    def same(name: str, mlx: Any, *args: Any, **kwargs: Any) -> None:
        mx.set_default_device(mx.cpu)
        exact = np.array(mlx_exact.REPLACED[name](*args, **kwargs))
        # MLX computes in float32: it does not support float64 for all of these.
        found = np.array(mlx(*mlx_side._narrowed(args), **mlx_side._narrowed(kwargs)))
        assert exact.shape == found.shape
        assert np.allclose(exact, found, rtol=1e-5, atol=1e-6), name

    x, w = wide(2, 9, 6), wide(6)
    same("softmax", mx.softmax, x, axis=-1)
    same("softmax", mx.softmax, x, axis=[0, 1])
    same("logsumexp", mx.logsumexp, x, axis=1, keepdims=True)
    same("rms_norm", mx.fast.rms_norm, x, w, 1e-5)
    same("layer_norm", mx.fast.layer_norm, x, w, None, 1e-5)
    for traditional in (True, False):
        same("rope", mx.fast.rope, wide(2, 3, 5, 8), 6, traditional=traditional, base=100.0, scale=0.5, offset=3)
    q, k = wide(1, 4, 5, 8), wide(1, 2, 7, 8)
    mask = mx.array(draw.standard_normal((5, 7)) > 0)
    same("scaled_dot_product_attention", mx.fast.scaled_dot_product_attention, q, k, k, scale=0.3)
    same("scaled_dot_product_attention", mx.fast.scaled_dot_product_attention, q, k, k, scale=0.3, mask="causal")
    same("scaled_dot_product_attention", mx.fast.scaled_dot_product_attention, q, k, k, scale=0.3, mask=mask)
    same("conv1d", mx.conv1d, x, wide(4, 3, 3), stride=2, padding=1, groups=2)
    same("conv2d", mx.conv2d, wide(1, 8, 7, 4), wide(5, 3, 2, 4), (2, 1), (1, 0), (2, 1))
    same("conv3d", mx.conv3d, wide(1, 4, 5, 6, 2), wide(3, 2, 2, 2, 2), 2, 1)
    for name in ("exp", "sin", "sigmoid", "erf", "tanh"):
        same(name, getattr(mx, name), x)


def test_what_is_left_to_mlx_is_measured() -> None:
    exact = mlx_exact.exact_operations()
    assert {"add", "mul", "matmul", "mean", "sum", "addmm"} <= exact
    assert not exact & {"exp", "softmax", "erfinv"}


def test_arrays_come_over_bit_for_bit() -> None:
    bits = np.arange(0, 65536, 7, dtype=np.uint16)
    array = mx.array(bits).view(mx.bfloat16)
    assert host(array).bits.tobytes() == bits.tobytes()
    assert host(hand_back(host(array), array)).same_as(host(array))
    assert host(mx.array([1 + 2j])).dtype == "complex64"
    assert host(mx.array([True])).dtype == "bool"
