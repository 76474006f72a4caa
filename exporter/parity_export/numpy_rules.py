"""Rules for NumPy: how its functions become nodes of a recipe.

A rule has the signature of the NumPy function it stands for, after the tracer. A call with other arguments is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .einsum import explicit
from .recipe import Unknown, number_of
from .values import STORED

Rule = Callable[..., Any]

_SAME = "exp log log2 sqrt reciprocal sin cos tan tanh square floor ceil sign isfinite maximum minimum matmul".split()
_SAME += "add pow erf".split()
_NAMED = {
    "negative": "neg",
    "absolute": "abs",
    "arctan": "atan",
    "rint": "round",
    "logical_not": "not",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "floor_divide": "floor_div",
    "remainder": "mod",
    "power": "pow",
    "float_power": "pow",
    "arctan2": "atan2",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "expit": "sigmoid",
}


def _elementwise(op: str) -> Rule:
    def made(e: Any, *inputs: Any) -> int:
        if np.asarray(e.out).dtype.kind == "c" and op not in ("add", "sub", "mul", "div", "neg", "exp"):
            raise Unknown(f"uses `{op}` of complex numbers, which recipes do not know")
        if op in ("add", "mul") and all(np.asarray(x).dtype == bool for x in inputs):
            return int(e.add("or" if op == "add" else "and", [e.of(x) for x in inputs]))
        return int(e.add(op, [e.of(x) for x in inputs]))

    return made


UFUNCS: dict[str, Rule] = {name: _elementwise(name) for name in _SAME}
UFUNCS |= {name: _elementwise(op) for name, op in _NAMED.items()}
# NumPy computes `x ** 1` with this.
UFUNCS["positive"] = lambda e, x: e.node(x)


def _axes(a: Any, axis: Any) -> list[int]:
    rank = np.ndim(a)
    if axis is None:
        return list(range(rank))
    return sorted(int(one) % rank for one in (axis if isinstance(axis, (list, tuple)) else [axis]))


def _reduction(op: str, default: Any = None) -> Rule:
    def made(e: Any, a: Any, axis: Any = default, dtype: Any = None, out: Any = None, keepdims: bool = False) -> int:
        if dtype is not None or out is not None:
            raise Unknown("reduces in another dtype, which recipes do not know")
        return int(e.add(op, [e.node(a)], axes=_axes(a, axis), keep=bool(keepdims)))

    return made


REDUCTIONS: dict[str, Rule] = {
    # `ufunc.reduce` takes the first axis where none is given.
    "add": _reduction("sum", 0),
    "multiply": _reduction("prod", 0),
    "maximum": _reduction("max", 0),
    "minimum": _reduction("min", 0),
    "logical_or": _reduction("any", 0),
    "logical_and": _reduction("all", 0),
}


def _plain_reduction(op: str) -> Rule:
    def made(e: Any, a: Any, axis: Any = None, *, keepdims: bool = False) -> int:
        return int(e.add(op, [e.node(a)], axes=_axes(a, axis), keep=bool(keepdims)))

    return made


def _spread(op: str) -> Rule:
    def made(e: Any, a: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False) -> int:
        return int(e.add(op, [e.node(a)], axes=_axes(a, axis), keep=bool(keepdims), ddof=number_of(ddof)))

    return made


def _place(op: str) -> Rule:
    def made(e: Any, a: Any, axis: Any = None, *, keepdims: bool = False) -> int:
        node = e.node(a)
        if axis is None:
            if keepdims:
                raise Unknown(f"uses `{op}` in a way that recipes do not know")
            node = _reshaped(e, node, a.shape, [a.size])
            return int(e.add(op, [node], axes=[0], keep=False))
        return int(e.add(op, [node], axes=[axis % a.ndim], keep=bool(keepdims)))

    return made


def _reshaped(e: Any, node: int, before: Any, after: Any) -> int:
    return node if list(before) == list(after) else int(e.add("reshape", [node], shape=list(after)))


def _reshape(e: Any, a: Any, *_: Any, order: str = "C", **__: Any) -> int:
    if order != "C":
        raise Unknown("reads elements in another order, which recipes do not know")
    return _reshaped(e, e.node(a), a.shape, e.out.shape)


def _permuted(e: Any, a: Any, axes: list[int]) -> int:
    return int(e.node(a)) if axes == sorted(axes) else int(e.add("permute", [e.node(a)], axes=axes))


def _transpose(e: Any, a: Any, *axes: Any) -> int:
    given = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
    given = [] if given in ((None,), None) else given
    return _permuted(e, a, [int(axis) % a.ndim for axis in given] or list(reversed(range(a.ndim))))


def _swapaxes(e: Any, a: Any, axis1: int, axis2: int) -> int:
    axes = list(range(a.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return _permuted(e, a, axes)


def _broadcast_to(e: Any, array: Any, shape: Any) -> int:
    after = list(e.out.shape)
    before = [1] * (len(after) - array.ndim) + list(array.shape)
    node = _reshaped(e, e.node(array), array.shape, before)
    return node if before == after else int(e.add("expand", [node], shape=after))


def _concatenate(e: Any, arrays: Any, axis: int = 0) -> int:
    return int(e.add("cat", [e.of(array) for array in arrays], axis=axis % e.out.ndim))


def _stack(e: Any, arrays: Any, axis: int = 0) -> int:
    return int(e.add("stack", [e.of(array) for array in arrays], axis=axis % e.out.ndim))


def _split(e: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[int]:
    axis, node, start, nodes = axis % ary.ndim, e.node(ary), 0, []
    for part in e.out:
        end = start + part.shape[axis]
        nodes.append(e.add("slice", [node], axis=axis, start=start, end=end, step=1))
        start = end
    return nodes


def _where(e: Any, condition: Any, x: Any, y: Any) -> int:
    return int(e.add("where", [e.of(condition), e.of(x), e.of(y)]))


def _clip(e: Any, a: Any, a_min: Any = None, a_max: Any = None) -> int:
    low, high = (None if bound is None else number_of(bound) for bound in (a_min, a_max))
    return int(e.add("clamp", [e.node(a)], min=low, max=high))


def _dot(e: Any, a: Any, b: Any) -> int:
    if max(np.ndim(a), np.ndim(b)) > 2 or 0 in (np.ndim(a), np.ndim(b)):
        raise Unknown("uses `numpy.dot` of more than two axes, which recipes do not know")
    return int(e.add("matmul", [e.of(a), e.of(b)]))


def _einsum(e: Any, subscripts: str, *operands: Any) -> int:
    text = explicit(subscripts, [np.ndim(array) for array in operands])
    return int(e.add("einsum", [e.of(array) for array in operands], equation=text))


def _take(e: Any, a: Any, indices: Any, axis: int | None = None) -> int:
    places = np.asarray(indices)
    if axis is None or places.dtype.kind not in "iu" or (places.size and places.min() < 0):
        raise Unknown("uses `numpy.take` in a way that recipes do not know")
    found = e.of(indices) if isinstance(indices, np.ndarray) else e.node(places)
    return int(e.add("take", [e.node(a), found], axis=axis % a.ndim))


def _repeat(e: Any, a: Any, repeats: int, axis: int | None = None) -> int:
    if axis is None or not isinstance(repeats, int):
        raise Unknown("uses `numpy.repeat` in a way that recipes do not know")
    return int(e.add("repeat_interleave", [e.node(a)], repeats=repeats, axis=axis % a.ndim))


def _cumsum(e: Any, a: Any, axis: int) -> int:
    return int(e.add("cumsum", [e.node(a)], axis=axis % a.ndim))


def _astype(e: Any, a: Any, dtype: Any) -> int:
    name = np.dtype(dtype).name
    if name not in STORED:
        raise Unknown(f"casts to {name}, which recipes do not know")
    return int(e.node(a) if a.dtype == np.dtype(dtype) else e.add("cast", [e.node(a)], dtype=name))


def _same(e: Any, a: Any) -> int:
    return int(e.node(a))


def _cuts(a: Any, index: Any) -> list[tuple[int, int, int]]:
    """Returns start, end and step per axis for an index of numbers, slices and new axes."""
    given = list(index) if isinstance(index, tuple) else [index]
    if any(not (one is None or one is Ellipsis or isinstance(one, (int, np.integer, slice))) for one in given):
        raise Unknown("uses an array as an index in a way that recipes do not know")
    given = [one for one in given if one is not None]
    if not any(one is Ellipsis for one in given):
        given.append(Ellipsis)
    at = next(at for at, one in enumerate(given) if one is Ellipsis)
    given[at : at + 1] = [slice(None)] * (a.ndim - len(given) + 1)
    cuts = []
    for one, length in zip(given, a.shape, strict=True):
        start, end, step = (one % length, one % length + 1, 1) if not isinstance(one, slice) else one.indices(length)
        if step < 0:
            raise Unknown("counts backwards in an index, which recipes do not know")
        cuts.append((int(start), int(max(start, end)), int(step)))
    return cuts


def _getitem(e: Any, a: Any, index: Any) -> int:
    if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
        return _take(e, a, index, 0)
    node, shape = e.node(a), []
    for axis, (start, end, step) in enumerate(_cuts(a, index)):
        shape.append(len(range(start, end, step)))
        if (start, end, step) != (0, a.shape[axis], 1):
            node = e.add("slice", [node], axis=axis, start=start, end=end, step=step)
    return _reshaped(e, node, shape, np.shape(e.out))


def _setitem(e: Any, a: Any, index: Any, value: Any) -> int:
    cuts = _cuts(a, index)
    slices = [
        [axis, *cut] for axis, (cut, length) in enumerate(zip(cuts, a.shape, strict=True)) if cut != (0, length, 1)
    ]
    shape = [len(range(*cut)) for cut in cuts]
    new = e.of(value)
    if isinstance(value, np.ndarray) and list(value.shape) != shape:
        if value.size != np.prod(shape):
            raise Unknown("assigns an array that is repeated, which recipes do not know")
        new = _reshaped(e, new, value.shape, shape)
    if isinstance(new, list) and not slices:
        return int(e.add("full", [], shape=shape, value=new[0]))
    return int(e.add("put_slices", [e.node(a), new], slices=slices)) if slices else int(new)


FUNCTIONS: dict[str, Rule] = {
    **{name: _plain_reduction(name) for name in "sum mean prod max min any all".split()},
    "amax": _plain_reduction("max"),
    "amin": _plain_reduction("min"),
    "var": _spread("var"),
    "std": _spread("std"),
    "argmax": _place("argmax"),
    "argmin": _place("argmin"),
    **dict.fromkeys("reshape ravel squeeze expand_dims".split(), _reshape),
    "transpose": _transpose,
    "swapaxes": _swapaxes,
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "where": _where,
    "clip": _clip,
    "dot": _dot,
    "einsum": _einsum,
    "take": _take,
    "repeat": _repeat,
    "cumsum": _cumsum,
    "astype": _astype,
    "copy": _same,
    "getitem": _getitem,
    "setitem": _setitem,
}
