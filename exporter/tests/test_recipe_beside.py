"""Recipes of torch references that compute in NumPy first."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from recipe_tools import Mode, Traced  # noqa: E402

from parity_export import torch_trace  # noqa: E402
from parity_export.numpy_beside import trace_numpy  # noqa: E402
from parity_export.places import Places  # noqa: E402
from parity_export.provenance import Sources  # noqa: E402
from parity_export.recipe import Recipe  # noqa: E402


class Beside(Traced):
    """A traced function without inputs, whose NumPy is traced, too."""

    def __init__(self, function: Any):
        self.recipe, self.inputs = Recipe(), []
        places = Places(Sources(Path(__file__), "script.py"))
        self.tracer = torch_trace.TorchTracer(self.recipe, places)
        before = torch.from_numpy
        with ExitStack() as stack:
            trace_numpy(self.recipe, places, stack)
            torch.from_numpy = self.tracer.reading(before)
            stack.callback(setattr, torch, "from_numpy", before)
            with torch.no_grad(), Mode(self.tracer):
                self.outputs = [function()]
            self.nodes = [self.tracer.node_of(tensor) for tensor in self.outputs]
        self.recipe.goldens = {"0": self.nodes[0]}


def shifted() -> Any:
    sigmas = np.linspace(1.0, 0.25, 4)
    return torch.from_numpy(3.0 * sigmas / (1 + 2.0 * sigmas)) * 1000


def stretched() -> Any:
    left = 1 - np.array(np.linspace(1.0, 0.25, 4))
    return torch.from_numpy(1 - left / (left[-1] / 0.9))


def counted() -> Any:
    return torch.tensor(np.exp(np.arange(0, 6, 2) / 6.0) ** 1.0)


@pytest.mark.parametrize(
    ("function", "ops"),
    [
        (shifted, "arange mul add mul mul add div mul"),
        (stretched, "arange mul add sub slice reshape div div sub"),
        (counted, "arange div exp pow"),
    ],
)
def test_a_schedule_has_a_history(function: Any, ops: str) -> None:
    traced = Beside(function)
    assert [op for op in traced.ops if op != "cast"] == ops.split()
    assert not traced.recipe.constants
    traced.check()
    assert torch.equal(traced.outputs[0], function())


def test_a_history_with_a_gap_is_a_constant() -> None:
    # No rule knows `np.interp`.
    traced = Beside(lambda: torch.from_numpy(np.interp(np.linspace(0.0, 1.0, 4), [0, 1], [0, 2])) + 1)
    assert traced.ops == ["add"]
    assert len(traced.recipe.constants) == 1
    traced.check()


def test_numpy_is_as_before_afterwards() -> None:
    before = np.linspace, np.array, np.asarray, np.arange
    Beside(shifted)
    assert before == (np.linspace, np.array, np.asarray, np.arange)
    assert type(np.linspace(0, 1, 3)) is np.ndarray
