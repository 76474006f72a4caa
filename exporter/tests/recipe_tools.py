"""Tools for tests of recipes: tracing a function of tensors, and replaying what was traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from torch.overrides import TorchFunctionMode  # noqa: E402

from parity_export import torch_replay, torch_trace  # noqa: E402
from parity_export.places import Places  # noqa: E402
from parity_export.provenance import Sources  # noqa: E402
from parity_export.recipe import Recipe  # noqa: E402
from parity_export.values import host  # noqa: E402


class Mode(TorchFunctionMode):
    """Shows every call to a tracer, as the recorder does."""

    def __init__(self, tracer: Any):
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.tracer.before(args, kwargs)
        output = func(*args, **kwargs)
        self.tracer.after(func, func.__name__, args, kwargs, output)
        return output


class Traced:
    """A traced function: its recipe, its outputs, and their nodes."""

    def __init__(self, function: Any, *inputs: Any, strict: bool = True):
        self.recipe = Recipe()
        self.tracer = torch_trace.TorchTracer(self.recipe, Places(Sources(Path(__file__), "script.py")))
        self.inputs = [tensor.clone() for tensor in inputs]
        given = [tensor.clone() for tensor in inputs]
        for index, tensor in enumerate(given):
            self.tracer.bind(tensor, self.recipe.leaf("input", str(index)))
        before, torch_trace.STRICT = torch_trace.STRICT, strict
        try:
            with torch.no_grad(), Mode(self.tracer):
                output = function(*given)
            self.outputs = list(torch_trace.flat(output))
            self.nodes = [self.tracer.node_of(tensor) for tensor in self.outputs]
        finally:
            torch_trace.STRICT = before
        self.recipe.goldens = {str(index): node for index, node in enumerate(self.nodes)}

    @property
    def ops(self) -> list[str]:
        """The operations that the outputs need, without leaves."""
        needed = (self.recipe.nodes[number].op for number in self.recipe.needed())
        return [op for op in needed if op not in ("input", "constant")]

    def node(self, index: int = 0) -> Any:
        """The node of an output."""
        return self.recipe.nodes[self.nodes[index]]

    def replayed(self) -> list[Any]:
        """Returns the outputs as the recipe computes them."""
        values: dict[int, Any] = {}
        for number in self.recipe.needed():
            node = self.recipe.nodes[number]
            if node.op == "input":
                values[number] = torch_replay.tensor_of(host(self.inputs[int(node.attributes["name"])]))
            elif node.op == "constant":
                values[number] = torch_replay.tensor_of(self.recipe.constants[number].value)
            else:
                inputs = [values[one] if isinstance(one, int) else one for one in node.inputs]
                values[number] = torch_replay.replay(node.op, inputs, node.attributes)
        return [values[node] for node in self.nodes]

    def check(self) -> None:
        """Compares the outputs with what the recipe computes."""
        for output, again in zip(self.outputs, self.replayed(), strict=True):
            expected = torch_replay.value_of(torch_replay.tensor_of(host(output)))
            actual = torch_replay.value_of(again)
            assert actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def draw(*shape: int, seed: int = 0) -> Any:
    """Returns float64 numbers without two that are equal."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
