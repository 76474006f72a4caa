"""References in torch: hooks, operations, and true float64 even where the code casts to float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from parity_export.run import points  # noqa: E402
from parity_export.values import hand_back, host  # noqa: E402

F = torch.nn.functional
Module: Any = torch.nn.Module


class Stubborn(Module):
    """Casts to float32 by name in five ways, whatever its input, as real models do."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(dim))
        self.register_buffer(
            "inv_freq", 1.0 / (100 ** (torch.arange(0, dim, dtype=torch.float32) / dim)), persistent=False
        )

    def forward(self, x: Any) -> Any:
        given = x.dtype
        x = x.to(torch.float32) * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        angle = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * self.inv_freq.float()
        x = x * torch.cos(angle).type(torch.float32) + torch.tensor(0.1, dtype=torch.float32)
        turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.polar(
            torch.tensor(1.0), torch.tensor(0.3)
        )
        x = torch.view_as_real(turned).flatten(-2).type_as(x)
        x = F.softmax(x, dim=-1, dtype=torch.float32) * torch.from_numpy(
            np.linspace(0.1, 1, x.shape[-1], dtype=np.float32)
        )
        return self.weight * x.to(given)


class Block(Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = Stubborn(dim)
        self.proj = torch.nn.Linear(dim, dim)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: Any, scale: Any = None) -> Any:
        y = self.drop(self.proj(self.norm(x)))
        y = F.silu(y) + x
        return y, None, y.sum(-1) if scale is None else y.sum(-1) * scale


class Model(Module):
    def __init__(self, dim: int, layers: int):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(dim) for _ in range(layers))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x, _, total = block(x)
        return {"x": x, "total": total}


def reference(
    rec: Any, dim: int = 8, dtype: str = "float32", names: Any = "**", mode: str = "eval", **hook: Any
) -> None:
    model = Model(dim, 2).to(getattr(torch, dtype))
    getattr(model, mode)()
    rec.weights(model, vary=0.1)
    x = rec.input("x", torch.randn(1, 5, dim, dtype=torch.float32).to(getattr(torch, dtype)))
    rec.hook(model, names, **hook)
    model(x)


def by_hand(made: Any) -> Any:
    """Returns the first block's norm in float64, computed by NumPy."""
    x, weight = made.tensor("input", "x").wide(), made.tensor("weight", "blocks.0.norm.weight").wide()
    dim = x.shape[-1]
    y = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)
    y = y * np.cos(np.arange(x.shape[1])[:, None] / 100 ** (np.arange(dim) / dim)) + 0.1
    pairs = (y[..., 0::2] + 1j * y[..., 1::2]) * np.exp(0.3j)
    y = np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
    y = np.exp(y - y.max(-1, keepdims=True))
    return weight * (y / y.sum(-1, keepdims=True) * np.linspace(0.1, 1, dim))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_casts_inside_do_not_stop_float64(export: Any, dtype: str) -> None:
    made = export(lambda rec: reference(rec, dtype=dtype), lint="refuse", script=__file__)
    golden = made.goldens["blocks.0.norm"]
    assert golden["dtype"] == dtype
    assert made.entries["weight", "blocks.0.proj.weight"]["dtype"] == dtype
    error = np.abs(made.tensor("golden", "blocks.0.norm").wide() - by_hand(made))
    assert golden["floor"]["max"] == pytest.approx(error.max(), rel=1e-6)
    assert golden["floor"]["max"] > 0
    # The patches are removed.
    assert torch.get_default_dtype() == torch.float32
    assert torch.from_numpy(np.ones(2, np.float32)).dtype == torch.float32


def test_a_float32_constant_from_outside_is_reported(export: Any) -> None:
    table = torch.linspace(0, 1, 7)

    def cached(rec: Any) -> None:
        x = rec.input("x", torch.randn(7))
        rec.save("y", torch.exp(x) * table)

    made = export(cached)
    assert [kind for kind, _ in made.found()] == ["truth-rounded"]
    assert "the float64 run passes torch.float32 into `mul` at " in made.report["findings"][0]["message"]


def test_tuples_dicts_and_second_calls_have_names(export: Any) -> None:
    def twice(rec: Any) -> None:
        model = Model(8, 1).eval()
        rec.weights(model, vary=0.1)
        x = rec.input("x", torch.randn(1, 5, 8))
        rec.hits("**", 2)
        rec.hook(model, {"blocks.*.0": "blocks.*.out", "blocks.*.2": True, "root.total": "total"})
        for scale in (1, 2):
            model(x * scale)

    made = export(twice, lint="report")
    assert list(made.goldens) == ["blocks.0.out", "blocks.0.2", "total", "blocks.0.out@1", "blocks.0.2@1", "total@1"]
    assert [made.goldens[name]["sequence"] for name in made.goldens] == list(range(6))
    assert {kind for kind, _ in made.found()} == {"same-bytes"}


def test_a_sweeping_hook_records_nothing_twice(export: Any) -> None:
    made = export(reference, script=__file__)
    # In eval mode dropout returns its input, and the model returns the output of its last block.
    assert list(made.goldens) == [f"blocks.{i}.{name}" for i in range(2) for name in ("norm", "proj", "0", "2")]
    assert made.report["skipped"]["blocks.0.drop"] == "blocks.0.proj"
    assert made.report["skipped"]["root.x"] == "blocks.1.0"
    assert made.found() == []


def test_operations_are_seen_with_their_module_and_place(export: Any) -> None:
    made = export(
        lambda rec: reference(rec, names=["**.softmax", "blocks.*.add", "**.silu"], ops=True), script=__file__
    )
    assert list(made.goldens) == [f"blocks.{i}.{name}" for i in range(2) for name in ("norm.softmax", "silu", "add")]
    assert made.goldens["blocks.0.norm.softmax"]["place"].split(":")[-2].endswith("forward")
    assert all(entry["floor"]["max"] > 0 for entry in made.goldens.values())
    inputs = export(
        lambda rec: reference(rec, names={"**.silu": "{1}.act.input"}, ops=["silu"], at="input"), script=__file__
    )
    assert list(inputs.goldens) == ["blocks.0.act.input", "blocks.1.act.input"]


def test_every_point_can_be_listed() -> None:
    seen = points(lambda rec: reference(rec, names="root", ops=True), script=__file__)
    names = [name for name, _ in seen]
    assert (
        names.index("blocks.0.norm")
        < names.index("blocks.0.proj")
        < names.index("blocks.0.silu")
        < names.index("root.x")
    )
    assert dict(seen)["blocks.0.norm"] == "float32 [1, 5, 8]"
    # Operations inside torch's own layers are not points.
    assert not [name for name in names if name.startswith("blocks.0.proj.")]


def test_inputs_of_modules_are_named_by_their_parameter(export: Any) -> None:
    def called(rec: Any) -> None:
        block = Block(8).eval()
        rec.weights(block, vary=0.1)
        x = rec.input("x", torch.randn(1, 5, 8))
        scale = rec.input("scale", torch.randn(5))
        rec.hook(block, {"root": True, "proj": "proj.in"}, at="input")
        block(x, scale=scale)

    assert list(export(called).goldens) == ["root.input.x", "root.input.scale", "proj.in"]

    def by_name(rec: Any) -> None:
        block = rec.weights(Block(8).eval(), vary=0.1)
        x = rec.input("x", torch.randn(1, 5, 8))
        scale = rec.input("scale", torch.randn(5))
        rec.hook(block, {"root.input.scale": "scaled_by", "proj.input": "proj.in"}, at="input")
        block(x, scale=scale)

    assert list(export(by_name).goldens) == ["scaled_by", "proj.in"]


def helper(x: Any) -> Any:
    return torch.exp(x), x + 1


class Helped(Module):
    def forward(self, x: Any) -> Any:
        a, b = helper(x)
        return a * b


def test_functions_of_the_source_are_points(export: Any) -> None:
    def helped(rec: Any) -> None:
        model = torch.nn.Sequential(Helped())
        x = rec.input("x", torch.randn(4))
        rec.hook(model, {"0.helper.0": "exp", "0.helper.1": "shifted"}, functions=[helper])
        model(x)

    before = helper
    assert list(export(helped).goldens) == ["exp", "shifted"]
    assert helper is before
    with pytest.raises(
        LookupError, match=r"`torch\.nn\.functional` has no function `sofmax`; similar names: `softmax`"
    ):
        export(lambda rec: rec.hook(Helped(), functions=["torch.nn.functional:sofmax"]), script=__file__)


def with_unused_mask(rec: Any) -> None:
    reference(rec)
    # Reading the shape is no use of the elements.
    assert rec.input("mask", torch.arange(3)).shape == (3,)


@pytest.mark.parametrize(
    ("found", "plant"),
    [
        ([("unexported-draw", "blocks.0.drop")], lambda rec: reference(rec, mode="train")),
        ([("never-called", "missing")], lambda rec: reference(rec, names=["missing", "blocks.0.norm"], ops=True)),
        (
            [("unexported-draw", "y")],
            lambda rec: rec.save("y", torch.randn(3, generator=torch.Generator().manual_seed(4))),
        ),
        ([("unused-input", "mask")], with_unused_mask),
    ],
)
def test_planted_mistakes_are_found(export: Any, found: list[Any], plant: Any) -> None:
    assert export(plant, script=__file__).found() == found


def test_weights_that_are_tied_are_saved_once_and_stay_tied(export: Any) -> None:
    def tied(rec: Any) -> None:
        model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(11, 4), "head": torch.nn.Linear(4, 11, bias=False)})
        model["head"].weight = model["embed"].weight
        rec.weights(model)
        ids = rec.input("ids", torch.tensor([3, 1, 4]))
        rec.save("logits", model["head"](model["embed"](ids)))

    made = export(tied, lint="refuse")
    assert [name for role, name in made.entries if role == "weight"] == ["embed.weight"]
    assert made.goldens["logits"]["floor"]["max"] < 1e-5


def test_committed_weights_are_loaded_into_the_model(export: Any, tmp_path: Path) -> None:
    first = export(reference, tmp_path / "a", script=__file__)
    again = export(reference, tmp_path / "b", script=__file__, seed=5, reuse=tmp_path / "a")
    assert again.report["counts"]["reused"] == 7
    assert again.bytes()["goldens.safetensors"] == first.bytes()["goldens.safetensors"]
    other = export(reference, tmp_path / "c", script=__file__, seed=5)
    assert other.bytes()["goldens.safetensors"] != first.bytes()["goldens.safetensors"]


def test_tensors_come_over_bit_for_bit() -> None:
    bits = np.arange(0, 65536, 7, dtype=np.uint16)
    for dtype in (torch.bfloat16, torch.float16):
        tensor = torch.from_numpy(bits.view(np.int16)).view(dtype)
        assert host(tensor).bits.tobytes() == bits.tobytes()
        assert host(hand_back(host(tensor), tensor)).same_as(host(tensor))
    turned = torch.randn(3, 2, dtype=torch.complex64)
    assert host(turned.conj().T).bits.tolist() == turned.numpy().conj().T.tolist()
    with pytest.raises(TypeError, match="value is float8_e4m3fn, expected one of bool, uint8"):
        host(torch.zeros(2, dtype=torch.float8_e4m3fn))
