"""Recipes of whole exports of torch references."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from parity_export import Recorder, torch_trace  # noqa: E402
from parity_export.torch_rules import RULES  # noqa: E402

F = torch.nn.functional
Module: Any = torch.nn.Module


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_trace, "STRICT", True)


class Attention(Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.q, self.k = torch.nn.Linear(dim, dim), torch.nn.Linear(dim, dim, bias=False)
        self.k.weight = self.q.weight
        self.register_buffer("rates", 1 / 100 ** (torch.arange(0, dim, dtype=torch.float32) / dim), persistent=False)

    def forward(self, x: Any) -> Any:
        x = self.norm((x.float() * self.rates).type_as(x))
        q, k = self.q(x).unflatten(-1, (2, -1)), self.k(x).unflatten(-1, (2, -1))
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2))


def attention(rec: Any, dim: int = 8, dtype: str = "float32") -> None:
    model = rec.weights(Attention(dim).to(getattr(torch, dtype)).eval(), vary=0.1)
    twin = copy.deepcopy(model)
    rec.hook(model, {"**": True})
    x = rec.input("x", torch.randn(1, 5, dim, dtype=getattr(torch, dtype)))
    model(x)
    rec.save("twin", twin(x) * 2)


def recipes(made: Any) -> Any:
    return json.loads((made.folder / "recipes.json").read_text(encoding="utf-8"))


def test_every_golden_of_a_model_has_a_recipe_with_its_source_lines(export: Any) -> None:
    made = export(attention)
    found = recipes(made)
    assert found["missing"] == {}
    assert made.report["counts"]["recipes"] == len(found["goldens"]) == len(made.goldens) == 5
    nodes = found["nodes"]
    linear = nodes[found["goldens"]["q"]]
    assert linear[0] == "linear"
    assert [nodes[at][2] for at in linear[1][1:]] == [{"name": "q.weight"}, {"name": "q.bias"}]
    assert found["sources"][linear[3]].endswith("test_recipe_export.py")
    lines = Path(__file__).read_text().splitlines()
    assert "q, k = self.q(x)" in lines[linear[4] - 1]
    # The tied weight has one name, and the table of rates is computed and not stored.
    tied = nodes[found["goldens"]["k"]]
    assert nodes[tied[1][1]][2] == {"name": "q.weight"}
    assert {"arange", "pow", "attention"} <= {node[0] for node in nodes}
    assert "constant" not in {entry["role"] for entry in made.manifest["tensors"]}
    assert all(not Path(source).is_absolute() for source in found["sources"])


def test_casts_of_a_narrow_reference_are_written(export: Any) -> None:
    found = recipes(export(attention, params={"dtype": "bfloat16"}))
    assert found["missing"] == {}
    assert {node[2]["dtype"] for node in found["nodes"] if node[0] == "cast"} == {"float32", "bfloat16"}


def test_recipes_change_no_other_byte_and_two_exports_are_equal(export: Any, tmp_path: Path) -> None:
    first, second = export(attention, tmp_path / "first"), export(attention, tmp_path / "second")
    without = export(attention, tmp_path / "without", recipes=False)
    assert first.bytes() == second.bytes()
    assert set(first.bytes()) - set(without.bytes()) == {"recipes.json"}
    assert all(first.bytes()[file] == data for file, data in without.bytes().items() if file != "manifest.json")
    del first.manifest["recipes"]
    assert first.manifest == without.manifest
    assert without.report["counts"]["recipes"] is None


def test_a_set_with_recipes_is_replaced_by_one_without(export: Any) -> None:
    assert "recipes.json" in export(attention).bytes()
    assert "recipes.json" not in export(attention, recipes=False).bytes()


def test_a_rule_that_lies_is_found(export: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "linear", lambda e, x, w, b=None: e.add("linear", [e.node(x), e.node(w), None]))
    made = export(attention)
    found = recipes(made)
    assert list(found["missing"]) == ["q", "twin"]
    assert found["missing"]["q"].startswith("the recipe does not reproduce the float64 run: it is off by")
    # Attention needs the wrong one and starts from there, so the report does not count it.
    assert [node[0] for node in found["nodes"]].count("unknown") == 1
    assert list(found["goldens"]) == ["norm", "k", "root"]
    assert made.report["counts"]["recipes"] == 2
    assert any("no recipe for" in note for note in made.report["notes"])
    assert made.found() == []


def tables(rec: Any) -> None:
    x = rec.input("x", torch.randn(3, 4))
    table = torch.from_numpy(np.linspace(0.1, 1, 4).astype(np.float32))
    rec.save("scaled", x * table)
    rec.save("numpy", np.asarray(x.numpy() * 2))
    rec.save("lost", torch.from_numpy(x.numpy() * np.float32(0.3)) + 1)
    rec.save("index", x[:, torch.tensor([2, 0, 1, 1])])


def test_a_table_of_numpy_is_a_constant_unless_it_depends_on_an_input(export: Any) -> None:
    made = export(tables)
    found = recipes(made)
    constants = [entry for entry in made.manifest["tensors"] if entry["role"] == "constant"]
    assert [(entry["name"], entry["file"], entry["dtype"], entry["shape"]) for entry in constants] == [
        ("constant.0", "constants.safetensors", "float32", [4]),
        ("constant.1", "constants.safetensors", "int64", [4]),
    ]
    assert {"sequence", "floor", "place"} & set(constants[0]) == set()
    assert made.tensor("constant", "constant.0").wide() == pytest.approx(np.linspace(0.1, 1, 4))
    assert found["missing"] == {"numpy": "operations of NumPy are not traced"}
    lost = found["nodes"][found["goldens"]["lost"]]
    assert found["nodes"][lost[1][0]][2] == {"why": "comes from an input by operations that are not traced"}
    assert made.report["counts"]["recipes"] == 2


def test_a_recorder_by_itself_checks_with_the_goldens(tmp_path: Path) -> None:
    with Recorder(tmp_path / "set", script=__file__, lint="report") as rec:
        x = rec.input("x", torch.randn(4))
        rec.save("y", torch.tanh(x))
        rec.save("loaded", rec.load("y", "torch") * 2)
    found = json.loads((tmp_path / "set" / "recipes.json").read_text())
    assert [node[0] for node in found["nodes"]] == ["input", "tanh", "mul"]
    assert found["goldens"] == {"y": 1, "loaded": 2}


def test_repeated_taps_and_shared_values_have_a_node_each(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = rec.input("x", torch.randn(4))
        for _ in rec.axis("step", 2):
            x = rec.save("x", x * 2)
        rec.save("same", x)
        rec.save("tap", x + 1)
        rec.save("tap", x + 2)

    assert recipes(export(reference))["goldens"] == {"step.0.x": 1, "step.1.x": 2, "same": 2, "tap": 3, "tap@1": 4}


def test_a_scripted_function_ends_a_recipe(export: Any) -> None:
    # Torch compiles it, so that Python does not see its operations.
    hidden = torch.jit.trace(lambda x: x * 1.7, torch.ones(4), check_trace=False)

    def reference(rec: Any) -> None:
        x = rec.input("x", torch.randn(4))
        rec.save("z", rec.save("y", torch.exp(hidden(x))) * 2)

    found = recipes(export(reference))
    assert [node[0] for node in found["nodes"]] == ["unknown", "exp", "mul"]
    assert found["goldens"] == {"y": 1, "z": 2}
