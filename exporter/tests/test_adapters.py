"""Adapters: weights in a file of their own, and a run without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export.finish import Refused


def lora(rec: Any, scale: float = 1.5) -> None:
    draw = np.random.default_rng(0)
    tensors = {"q.lora_a": draw.standard_normal((2, 6)), "q.lora_b": draw.standard_normal((4, 2)) * scale}
    adapters = rec.adapters({name: array.astype(np.float32) for name, array in tensors.items()}, alpha=3)
    w = rec.weights({"q.weight": draw.standard_normal((4, 6)).astype(np.float32)})
    x = rec.input("x", draw.standard_normal((5, 6)).astype(np.float32))
    rec.save("before", x * np.float32(2))
    rec.save("q", x @ w["q.weight"].T + x @ adapters["q.lora_a"].T @ adapters["q.lora_b"].T * np.float32(1.5))


def test_the_manifest_says_how_far_the_adapters_move_each_golden(export: Any) -> None:
    made = export(lora, lint="refuse")
    found = made.manifest["adapters"]
    assert found["files"] == [{"file": "adapters.safetensors", "rank": 2, "alpha": 3.0}]
    assert found["changes"]["before"] == {"max": 0.0, "rms": 0.0}
    x, a, b = (made.tensor(*which).wide() for which in (("input", "x"), ("weight", "q.lora_a"), ("weight", "q.lora_b")))
    change = x @ a.T @ b.T * 1.5
    assert found["changes"]["q"]["max"] == pytest.approx(np.abs(change).max(), rel=1e-5)
    assert found["changes"]["q"]["rms"] == pytest.approx(np.sqrt(np.mean(change**2)), rel=1e-5)
    assert made.entries["weight", "q.lora_a"]["file"] == "adapters.safetensors"
    assert made.entries["weight", "q.weight"]["file"] == "weights.safetensors"


def test_adapters_without_effect_are_a_finding(export: Any) -> None:
    with pytest.raises(Refused, match="no-effect: the adapters change no golden by more than 8 of its floors"):
        export(lambda rec: lora(rec, scale=0.0), lint="refuse")


def test_a_set_without_adapters_says_nothing_about_them(export: Any) -> None:
    assert "adapters" not in export(lambda rec: rec.save("x", np.arange(3.0))).manifest


def test_adapters_need_a_file_of_their_own(export: Any) -> None:
    with pytest.raises(ValueError, match="which the format `npy` does not have; use `safetensors`"):
        export(lora, format="npy")


def test_the_adapters_of_a_module_are_chosen_by_name(export: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")

    def forward(model: Any, x: Any) -> Any:
        return model["base"](x) + model["lora_B"](model["lora_A"](x))

    def layer() -> Any:
        thin = torch.nn.Linear(6, 2, bias=False), torch.nn.Linear(2, 4, bias=False)
        return torch.nn.ModuleDict({"base": torch.nn.Linear(6, 4), "lora_A": thin[0], "lora_B": thin[1]})

    def reference(rec: Any) -> None:
        model = rec.weights(rec.adapters(layer(), prefix="base_model.model."))
        rec.save("out", forward(model, rec.input("x", torch.randn(3, 6))))

    made = export(reference, lint="refuse")
    weights = {name: entry["file"] for (role, name), entry in made.entries.items() if role == "weight"}
    assert weights == {
        "base_model.model.lora_A.weight": "adapters.safetensors",
        "base_model.model.lora_B.weight": "adapters.safetensors",
        "base.weight": "weights.safetensors",
        "base.bias": "weights.safetensors",
    }
    assert made.manifest["adapters"]["changes"]["out"]["rms"] > 0.01
    assert made.goldens["out"]["floor"]["max"] > 0
    with pytest.raises(ValueError, match=r"`rec.adapters` finds no parameter that matches `\*\*.lora_\*"):
        export(lambda rec: rec.adapters(torch.nn.Linear(2, 2)))


def test_the_adapters_of_an_mlx_module_are_left_out_too(export: Any) -> None:
    pytest.importorskip("mlx.core", reason="needs MLX: install the `mlx` group of references/")
    import mlx.core as mx
    from mlx import nn

    def reference(rec: Any) -> None:
        model = nn.Linear(6, 4)
        model.lora_a, model.lora_b = mx.random.normal((6, 2)), mx.random.normal((2, 4))
        model = rec.weights(rec.adapters(model))
        x = rec.input("x", mx.random.normal((3, 6)))
        rec.save("out", model(x) + (x @ model.lora_a) @ model.lora_b)

    made = export(reference, lint="refuse")
    assert made.entries["weight", "lora_a"]["file"] == "adapters.safetensors"
    assert made.entries["weight", "weight"]["file"] == "weights.safetensors"
    assert made.manifest["adapters"]["changes"]["out"]["rms"] > 0.01


def test_a_second_reference_takes_inputs_and_weights_and_may_leave_goldens_out(
    export: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    first = export(lora)

    def second(rec: Any) -> None:
        a, b, weight = (rec.load(name) for name in ("q.lora_a", "q.lora_b", "q.weight"))
        rec.save("q", rec.load("x") @ (weight + b @ a * np.float32(1.5)).T)

    expected = tmp_path / "expected.json"
    expected.write_text('{"goldens": {"q": null, "before": null}, "inputs": [], "partial": true}', encoding="utf-8")
    monkeypatch.setenv("PARITY_EXPECT", str(expected))
    made = export(second, tmp_path / "second", lint="refuse", reuse=first.folder)
    assert list(made.goldens) == ["q"]
    assert made.entries["weight", "q.weight"]["sha256"] == first.entries["weight", "q.weight"]["sha256"]
    np.testing.assert_allclose(made.tensor("golden", "q").wide(), first.tensor("golden", "q").wide(), rtol=1e-4)
