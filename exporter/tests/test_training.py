"""Training steps: gradients and optimisers of torch and MLX, with floors from a float64 run, backward pass included."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from parity_export.finish import Refused


def torch_() -> Any:
    return pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")


def golden(made: Any, name: str) -> Any:
    return made.tensor("golden", name).wide()


def step(rec: Any, clips: bool = False) -> None:
    torch = torch_()
    model = rec.weights(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)))
    x = rec.input("x", torch.randn(4, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    with torch.enable_grad():
        loss = model(x).square().mean()
    rec.gradients(loss, model)
    if clips:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=False)
        rec.save_each("clipped", {name: own.grad for name, own in model.named_parameters()})
    rec.step(optimizer)


def test_a_step_of_torch_is_recorded_from_the_last_parameter_to_the_first(export: Any) -> None:
    torch_()
    made = export(step)
    names = list(made.goldens)
    assert names[:5] == ["loss", "grad.2.bias", "grad.2.weight", "grad.0.bias", "grad.0.weight"]
    assert names[5:7] == ["step.1.state.0.weight.exp_avg", "step.1.state.0.weight.exp_avg_sq"]
    assert names[-1] == "step.1.param.2.bias"
    facts = made.goldens["step.1.param.0.weight"]["step"]
    assert facts == {
        "number": 1, "parameter": "0.weight", "optimizer": "adamw", "lr": 0.01, "betas": [0.9, 0.999],
        "eps": 1e-8, "weight_decay": 0.1, "bias_correction": True, "gradient": "grad.0.weight",
    }  # fmt: skip
    assert made.goldens["step.1.state.0.weight.exp_avg"]["step"]["slot"] == "exp_avg"


def test_the_floors_of_gradients_and_steps_are_those_of_float64(export: Any) -> None:
    torch_()
    made = export(step)
    for name, entry in made.goldens.items():
        floor, size = entry["floor"], np.abs(golden(made, name)).max()
        assert 0 < floor["max"] < 1e-5 * size, name


def test_a_clipped_gradient_is_the_one_that_the_step_used(export: Any) -> None:
    torch_()
    made = export(lambda rec: step(rec, clips=True))
    assert made.goldens["step.1.param.0.weight"]["step"]["gradient"] == "clipped.0.weight"
    norm = np.sqrt(sum((golden(made, name) ** 2).sum() for name in made.goldens if name.startswith("clipped.")))
    assert norm == pytest.approx(0.01, rel=1e-4)


def test_a_loss_without_a_graph_says_what_to_do(export: Any) -> None:
    torch = torch_()

    def reference(rec: Any) -> None:
        model = rec.weights(torch.nn.Linear(3, 2))
        rec.gradients(model(rec.input("x", torch.randn(4, 3))).sum(), model)

    with pytest.raises(ValueError, match=r"compute it in `with torch.enable_grad\(\):`"):
        export(reference)


def test_a_parameter_without_a_gradient_is_a_finding(export: Any) -> None:
    torch = torch_()

    def reference(rec: Any) -> None:
        model = rec.weights(torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)]))
        x = rec.input("x", torch.randn(4, 3))
        rec.gradients(lambda: model[0](x).square().mean(), model)

    with pytest.raises(Refused, match=r"no gradient reaches parameter `1\.weight`"):
        export(reference, lint="refuse")


def test_a_parameter_of_an_unknown_module_is_refused(export: Any) -> None:
    torch = torch_()

    def reference(rec: Any) -> None:
        model = torch.nn.Linear(3, 2)
        x = rec.input("x", torch.ones(4, 3))
        rec.gradients(lambda: model(x).square().mean(), model)
        rec.step(torch.optim.SGD(model.parameters(), lr=0.1))

    with pytest.raises(ValueError, match=r"belongs to no module of `rec\.weights`"):
        export(reference)


def test_names_of_gradients_follow_the_specs_rename(export: Any, monkeypatch: Any, tmp_path: Any) -> None:
    torch_()
    expected = tmp_path / "expected.json"
    names = ["loss", "grad.last.weight", "step.1.param.last.weight"]
    goldens = dict.fromkeys(names, "float32")
    expected.write_text(json.dumps({"goldens": goldens, "rename": {"2": "last"}}), encoding="utf-8")
    monkeypatch.setenv("PARITY_EXPECT", str(expected))
    assert list(export(step).goldens) == names


def test_mlx_gradients_have_no_floor_and_the_step_is_that_of_mlx(export: Any) -> None:
    pytest.importorskip("mlx.core", reason="needs MLX: install the `mlx` group of references/")
    import mlx.core as mx
    import mlx.optimizers as optim
    from mlx import nn

    def reference(rec: Any) -> None:
        model = rec.weights(nn.Linear(6, 3))
        x = rec.input("x", mx.random.normal((4, 6)))
        optimizer = optim.AdamW(learning_rate=1e-2, weight_decay=0.1)
        rec.gradients(lambda: nn.gelu(model(x)).square().mean(), model)
        rec.step(optimizer)

    made = export(reference)
    assert next(iter(made.goldens)) == "loss"
    assert made.goldens["loss"]["floor"]["max"] < 1e-6
    assert made.goldens["grad.weight"]["no_floor"] == "MLX does not differentiate in true float64"
    facts = made.goldens["step.1.param.weight"]["step"]
    assert (facts["optimizer"], facts["bias_correction"], facts["gradient"]) == ("adamw", False, "grad.weight")
    m = golden(made, "step.1.state.weight.m")
    np.testing.assert_allclose(m, 0.1 * golden(made, "grad.weight"), rtol=1e-5, atol=1e-9)
