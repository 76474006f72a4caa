"""Debug sessions of torch and MLX references: hooks stop too, and evaluating leaves no trace in what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from debug_tools import answers, write_script

TORCH = """
import torch
from parity_export import main

class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = torch.nn.Linear(dim, dim)
    def forward(self, x):
        y = torch.softmax(self.up(x), -1)
        return x + y

def reference(rec, dim=8):
    model = rec.weights(Block(dim).to(torch.bfloat16), vary=0.1)
    rec.hook(model, ops=["softmax"])
    model(rec.input("x", torch.randn(5, dim, dtype=torch.bfloat16)))
"""

MLX = """
import mlx.core as mx
import mlx.nn as nn

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, dim)
    def __call__(self, x):
        y = mx.softmax(self.up(x), axis=-1)
        return x + y

def reference(rec, dim=8):
    model = Block(dim)
    model.set_dtype(mx.bfloat16)
    rec.weights(model, vary=0.1)
    rec.hook(model, ops=["softmax"])
    model(rec.input("x", mx.random.normal((5, dim)).astype(mx.bfloat16)))
"""

NAMES = ["up", "root.softmax", "root"]


@pytest.mark.parametrize(
    ("module", "text", "call"), [("torch", TORCH, "Block.forward"), ("mlx.core", MLX, "Block.__call__")]
)
def test_hooks_stop_inside_the_model(tmp_path: Path, module: str, text: str, call: str) -> None:
    pytest.importorskip(module, reason=f"needs {module}: install its group of references/")
    script = write_script(tmp_path, text)
    found = answers(
        script, "next", "location", "eval self.up(x).shape[0], self(x).shape[1]", "next", "next", "continue"
    )
    assert [answer["tap"]["name"] for answer in found if answer.get("tap") and answer["kind"] == "stopped"] == NAMES
    assert found[0]["tap"]["actual"]["dtype"] == "bfloat16"
    location = found[1]
    assert (location["place"]["file"], location["place"]["function"]) == ("reference.py", call)
    source = location["source"]
    assert "softmax(self.up(x)" in source["lines"][source["line"] - source["first"]]
    assert [frame["function"] for frame in location["calls"]] == ["reference", call]
    # Calls of the model and of its operations at a stop are not the reference's.
    assert found[2]["values"][0]["text"] == "(5, 8)"
    assert (found[5]["why"], found[5]["taps"]) == ({"reason": "returned"}, 3)


@pytest.mark.parametrize(("module", "text", "word"), [("torch", TORCH, "torch"), ("mlx.core", MLX, "mx")])
def test_tensors_come_back_as_those_of_the_framework(tmp_path: Path, module: str, text: str, word: str) -> None:
    pytest.importorskip(module, reason=f"needs {module}: install its group of references/")
    lines = [f"eval taps['{name}'].dtype == {word}.bfloat16" for name in ("up", "x", "up.weight")]
    found = answers(write_script(tmp_path, text), "next", *lines, "eval bool((taps['up'] == actual).all())", "show x 0")
    assert [answer["values"][0]["values"] for answer in found[1:5]] == [[True]] * 4
    assert found[5]["tensor"]["dtype"] == "bfloat16" and len(found[5]["value"]["values"]) == 8


def test_into_stops_at_points_that_no_hook_records(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    script = write_script(tmp_path, TORCH.replace('ops=["softmax"]', '{"root": True}, ops=True'))
    found = answers(script, "into", "into", "into", "into")
    names = [(answer["tap"]["name"], answer["tap"]["unrecorded"]) for answer in found if answer["kind"] == "stopped"]
    why = "no hook records it"
    assert names == [("up", why), ("root.softmax", why), ("root.add", why), ("root", None)]
