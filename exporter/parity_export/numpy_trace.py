"""Traces a NumPy reference: its inputs and weights are arrays that note what is computed with them.

NumPy has no way to watch all operations. An array class can: NumPy passes it every universal function and nearly every
other function. Whatever it does not pass gives an ordinary array, which has no history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .numpy_rules import FUNCTIONS, REDUCTIONS, UFUNCS
from .places import Places
from .recipe import MAX_CONSTANT, Operand, Recipe, Unknown, number_of
from .values import Array, host

_CHANGING = frozenset("copyto put place putmask put_along_axis fill_diagonal".split())
_METHODS = """all any argmax argmin clip cumsum diagonal dot max mean min prod ravel repeat reshape round squeeze std
    sum swapaxes take trace transpose var""".split()
_CHANGED = "was changed in place in a way that recipes do not know"


class TracedArray(Array):
    """An array with the node of its value. Arrays with one `_cell` may share elements, and know of changes in place."""

    _tracer: Any = None
    _node: int | None = None
    _cell: list[int]
    _seen: int = 0

    def __array_finalize__(self, source: Any) -> None:
        # A view or a copy that no rule made: its node is unknown.
        self._tracer = getattr(source, "_tracer", None)
        self._node = None
        self._cell = getattr(source, "_cell", None) or [0]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self._tracer.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._tracer.function(func, func.__name__, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return self._tracer.function(lambda x, at: x[at], "getitem", (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tracer.assigned(self, index, value)

    @property
    def T(self) -> Any:
        return np.transpose(self)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        return self._tracer.function(lambda x, to: x.astype(to, *args, **kwargs), "astype", (self, dtype), {})

    def copy(self, order: Any = "C") -> Any:
        return self._tracer.function(lambda x: x.copy(order), "copy", (self,), {})

    def fill(self, value: Any) -> None:
        plain(self).fill(value)
        self._tracer.changed(self, None)

    def sort(self, *args: Any, **kwargs: Any) -> None:
        plain(self).sort(*args, **kwargs)
        self._tracer.changed(self, None)


def _method(name: str) -> Callable[..., Any]:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._tracer.function(call, name, (self, *args), kwargs)

    def call(array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    return called


for _name in _METHODS:
    setattr(TracedArray, _name, _method(_name))


class NumpyTracer:
    """Adds the operations of one run to a recipe."""

    def __init__(self, recipe: Recipe, places: Places, keeps_scalars: bool = False):
        self.recipe = recipe
        self._places = places
        # Whether single numbers stay arrays, so that what is computed with them has a history.
        self._keeps_scalars = keeps_scalars
        # Single numbers are no arrays. They are kept, so that their addresses are not used again.
        self._numbers: dict[int, tuple[Any, int]] = {}
        self.place: tuple[str, int] | None = None
        self.out: Any = None

    def bind(self, tensor: Any, node: int) -> Any:
        """Returns the array as one that notes what is computed with it."""
        if isinstance(tensor, np.generic):
            if not self._keeps_scalars:
                self._numbers[id(tensor)] = (tensor, node)
                return tensor
            tensor = np.asanyarray(tensor)
        traced = plain(tensor).view(TracedArray)
        traced._tracer, traced._node, traced._cell, traced._seen = self, node, [0], 0
        return traced

    def node_of(self, tensor: Any) -> int:
        """Returns the node of an array's present value. An array without history becomes a constant, or unknown."""
        self.here()
        return self.node(tensor)

    def here(self) -> None:
        """Notes the line of the reference that runs now. Nodes that are added get this place."""
        self.place = self._places.here()

    def node(self, array: Any) -> int:
        """Returns the node of an array."""
        if isinstance(array, TracedArray):
            if array._node is None:
                return self.add("unknown", [], why="uses a method of NumPy that recipes do not know")
            return array._node if array._seen == array._cell[0] else self.add("unknown", [], why=_CHANGED)
        if id(array) in self._numbers:
            return self._numbers[id(array)][1]
        array = np.asarray(array)
        if array.size > MAX_CONSTANT:
            return self.add("unknown", [], why=f"a tensor of {array.size} elements has no history")
        return self.recipe.constant(host(array), self.place)

    def of(self, operand: Any) -> Operand:
        """Returns an operand: the node of an array, a literal for a number, and none for none."""
        if operand is None:
            return None
        if isinstance(operand, np.ndarray) or id(operand) in self._numbers:
            return self.node(operand)
        if isinstance(operand, (list, tuple)):
            return self.node(np.asarray(operand))
        # The shortest digits: `np.float32(1e-6)` means 1e-6.
        return [number_of(float(str(operand)) if isinstance(operand, np.floating) else operand)]

    def add(self, op: str, inputs: list[Operand], **attributes: Any) -> int:
        return self.recipe.add(op, inputs, attributes, self.place)

    def ufunc(self, ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
        """Calls a universal function, and notes what it computes."""
        self.here()
        outs = kwargs.get("out", ())
        given = {key: value for key, value in kwargs.items() if key != "out"}
        rule: Any = None
        if method == "__call__" and not given:
            rule = UFUNCS.get(ufunc.__name__)
        elif method == "reduce":
            rule = REDUCTIONS.get(ufunc.__name__)
        nodes = self._nodes(rule, f"numpy.{ufunc.__name__}", inputs, given if method == "reduce" else {})
        into = {"out": tuple(map(plain, outs))} if outs else {}
        result = getattr(ufunc, method)(*map(plain, inputs), **_plain(given), **into)
        if method == "at":
            self.changed(inputs[0], None)
            return None
        if outs:
            for array in outs:
                self.changed(array, nodes(result))
            return outs[0] if len(outs) == 1 else outs
        return self._kept(result, nodes(result), ())

    def function(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Calls another function, and notes what it computes."""
        self.here()
        nodes = self._nodes(FUNCTIONS.get(name), f"numpy.{name}", args, kwargs)
        result = func(*_plain(args), **_plain(kwargs))
        for array in flat((args, kwargs)):
            if name in _CHANGING or array is kwargs.get("out"):
                self.changed(array, None)
        return self._kept(result, nodes(result), list(flat((args, kwargs))))

    def assigned(self, array: Any, index: Any, value: Any) -> None:
        """Assigns to a part of an array."""
        self.here()
        nodes = self._nodes(FUNCTIONS.get("setitem"), "numpy.setitem", (array, index, value), {})
        plain(array)[_plain(index)] = plain(value)
        self.changed(array, nodes(array))

    def changed(self, array: Any, node: int | None) -> None:
        """Notes that an array was changed in place, and with it all arrays that may share its elements."""
        if isinstance(array, TracedArray):
            array._cell[0] += 1
            array._seen = array._cell[0]
            array._node = node if node is not None else self.add("unknown", [], why=_CHANGED)

    def _nodes(self, rule: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Callable[[Any], Any]:
        """Looks operands up before a call, and returns what makes the nodes of its result afterwards."""
        held = {id(array): self.node(array) for array in flat((args, kwargs))}

        def made(result: Any) -> Any:
            self.out = result
            try:
                if rule is None:
                    raise Unknown(f"uses `{name}`, which recipes do not know")
                try:
                    return rule(_Call(self, held), *args, **kwargs)
                except (TypeError, ValueError, KeyError, AssertionError) as error:
                    raise Unknown(f"uses `{name}` in a way that recipes do not know") from error
            except Unknown as unknown:
                return self.add("unknown", [], why=str(unknown))

        return made

    def _kept(self, result: Any, node: Any, operands: Sequence[TracedArray]) -> Any:
        """Returns the result of a call with its node. A view knows when its operand is changed."""
        if isinstance(result, (list, tuple)):
            nodes = node if isinstance(node, list) else [node] * len(result)
            return type(result)(self._kept(one, at, operands) for one, at in zip(result, nodes, strict=True))
        if not isinstance(result, (np.ndarray, np.generic)):
            return result
        made = self.bind(result, node)
        for operand in operands:
            if isinstance(made, TracedArray) and np.may_share_memory(plain(made), plain(operand)):
                made._cell, made._seen = operand._cell, operand._cell[0]
        return made


class _Call:
    """What a rule sees of the tracer: operands have the nodes that they had before the call."""

    def __init__(self, tracer: NumpyTracer, held: dict[int, int]):
        self._tracer, self._held = tracer, held
        self.out, self.add = tracer.out, tracer.add

    def node(self, array: Any) -> int:
        return self._held[id(array)] if id(array) in self._held else self._tracer.node(array)

    def of(self, operand: Any) -> Operand:
        return self._held[id(operand)] if id(operand) in self._held else self._tracer.of(operand)


def plain(array: Any) -> Any:
    """Returns an array without history, of the same elements."""
    return array.view(np.ndarray) if isinstance(array, TracedArray) else array


def _plain(thing: Any) -> Any:
    if type(thing) in (tuple, list):
        return type(thing)(_plain(part) for part in thing)
    if type(thing) is dict:
        return {key: _plain(part) for key, part in thing.items()}
    return plain(thing)


def flat(thing: Any) -> Iterator[Any]:
    """Returns the traced arrays in nested tuples, lists and dictionaries."""
    if isinstance(thing, TracedArray):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from flat(part)
    elif type(thing) is dict:
        for part in thing.values():
            yield from flat(part)
