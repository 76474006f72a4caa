"""The tracing of one run: its recipe, and the tracer of each framework that adds to it."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from .numpy_trace import NumpyTracer
from .places import Places
from .recipe import Recipe
from .values import framework_of

# Libraries that may refuse an array which is not exactly NumPy's. Beside them, NumPy is not traced.
_OTHERS = ("torch", "mlx", "jax", "numba", "cupy", "tensorflow")
_NAMES = {"numpy": "NumPy", "jax": "JAX", "torch": "torch", "mlx": "MLX"}


class Tracer(Protocol):
    """Finds the nodes of one framework's tensors."""

    def bind(self, tensor: Any, node: int) -> Any:
        """Notes that a tensor has the value of a node, and returns the tensor that the reference continues with."""

    def node_of(self, tensor: Any) -> int:
        """Returns the node of a tensor's present value."""


class Tracing:
    """Knows which node stands for which tensor of a run."""

    def __init__(self, places: Places) -> None:
        self.recipe = Recipe()
        self.tracers: dict[str, Tracer] = {}
        self.is_settled = False
        if not any(name in sys.modules for name in _OTHERS):
            self.tracers["numpy"] = NumpyTracer(self.recipe, places)

    def leaf(self, role: str, name: str, tensor: Any) -> Any:
        """Notes that a tensor is an input or a weight of the set, and returns the tensor to continue with."""
        tracer = self.tracers.get(framework_of(tensor) or "")
        return tensor if tracer is None else tracer.bind(tensor, self.recipe.leaf(role, name))

    def again(self, golden: str, tensor: Any) -> Any:
        """Notes that a tensor has the value of a golden, and returns the tensor to continue with."""
        tracer, node = self.tracers.get(framework_of(tensor) or ""), self.recipe.goldens.get(golden)
        return tensor if tracer is None or node is None else tracer.bind(tensor, node)

    def golden(self, name: str, tensor: Any) -> None:
        """Gives a golden the node of its tensor."""
        framework = framework_of(tensor) or ""
        tracer = self.tracers.get(framework)
        if tracer is None:
            self.recipe.missing[name] = f"operations of {_NAMES.get(framework, 'this library')} are not traced"
        else:
            self.recipe.goldens[name] = tracer.node_of(tensor)
