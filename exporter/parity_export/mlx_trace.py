"""Traces an MLX reference: every call of the MLX API becomes nodes of a recipe.

MLX arrays are values: no two of them share elements. An array is identified by its Python object. A weak reference
watches the object, because the address of a dead one is used again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx

from .mlx_rules import RULES
from .places import Places
from .recipe import MAX_CONSTANT, Operand, Recipe, Unknown, number_of
from .values import host

_ARRAY: Any = mx.array
_EVAL: Any = mx.eval
_IN_PLACE = {f"__i{name}__": f"__{name}__" for name in "add sub mul truediv floordiv mod pow matmul and or".split()}


class MlxTracer:
    """Adds the operations of one run to a recipe."""

    def __init__(self, recipe: Recipe, places: Places):
        self.recipe = recipe
        self._places = places
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._held: dict[int, int] = {}
        self._is_busy = False
        self.place: tuple[str, int] | None = None
        self.out: Any = None

    def bind(self, tensor: Any, node: int) -> Any:
        """Notes that an array has the value of a node, and returns it."""
        key, arrays = id(tensor), self._arrays

        def gone(reference: Any) -> None:
            if key in arrays and arrays[key][0] is reference:
                del arrays[key]

        self._arrays[key] = (weakref.ref(tensor, gone), node)
        return tensor

    def node_of(self, tensor: Any) -> int:
        """Returns the node of an array's present value. An array without history becomes a constant, or unknown."""
        self.place = self._places.here()
        return self.node(tensor)

    def before(self, args: Any, kwargs: Any) -> None:
        """Looks up the operands: an operation in place changes them."""
        if self._is_busy:
            return
        self.place = self._places.here()
        self._held = {id(array): self.node(array) for array in flat((args, kwargs))}

    def after(self, name: str, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
        """Adds the nodes of an operation."""
        if self._is_busy:
            return
        changes = name == "__setitem__" or name in _IN_PLACE
        results = [args[0]] if changes else list(flat(output))
        self.out = args[0] if changes else output
        given = {key: value for key, value in kwargs.items() if key != "stream"}
        try:
            nodes = self._nodes(_IN_PLACE.get(name, name), args, given)
            if len(nodes) != len(results):
                raise Unknown(f"uses `mlx.{name}`, which recipes do not know")
        except Unknown as unknown:
            nodes = [self.add("unknown", [], why=str(unknown)) for _ in results]
        for array, node in zip(results, nodes, strict=True):
            self.bind(array, node)
        self._held, self.out = {}, None

    def node(self, array: Any) -> int:
        """Returns the node of an array."""
        held = self._held.get(id(array))
        if held is not None:
            return held
        found = self._arrays.get(id(array))
        if found is None:
            self.bind(array, self._constant(array))
            found = self._arrays[id(array)]
        return found[1]

    def of(self, operand: Any) -> Operand:
        """Returns an operand: the node of an array, a literal for a number, and none for none."""
        if operand is None:
            return None
        return self.node(operand) if isinstance(operand, _ARRAY) else [number_of(operand)]

    def add(self, op: str, inputs: list[Operand], **attributes: Any) -> int:
        return self.recipe.add(op, inputs, attributes, self.place)

    def _constant(self, array: Any) -> int:
        if array.size > MAX_CONSTANT:
            return self.add("unknown", [], why=f"a tensor of {array.size} elements has no history")
        self._is_busy = True
        try:
            # MLX traces a compiled function with arrays that have no values. Reading one would crash the process.
            _EVAL(array)
            return self.recipe.constant(host(array), self.place)
        except (TypeError, ValueError, RuntimeError):
            return self.add("unknown", [], why="a tensor without history cannot be stored")
        finally:
            self._is_busy = False

    def _nodes(self, name: str, args: Any, kwargs: dict[str, Any]) -> list[int]:
        rule = RULES.get(name)
        if rule is None:
            if name.startswith("random."):
                raise Unknown("comes from a random draw that is not an input")
            raise Unknown(f"uses `mlx.{name}`, which recipes do not know")
        try:
            made = rule(self, *args, **kwargs)
        except Unknown:
            raise
        except Exception as error:
            raise Unknown(f"uses `mlx.{name}` in a way that recipes do not know") from error
        return list(made) if isinstance(made, (list, tuple)) else [made]


def flat(thing: Any) -> Iterator[Any]:
    """Returns the arrays in nested tuples, lists and dictionaries."""
    if isinstance(thing, _ARRAY):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from flat(part)
    elif type(thing) is dict:
        for part in thing.values():
            yield from flat(part)
