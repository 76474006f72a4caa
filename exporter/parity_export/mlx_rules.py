"""Rules for MLX: how its functions, methods and operators become nodes of a recipe.

A rule has the signature of the MLX function it stands for, after the tracer. A call with other arguments is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import mlx.core as mx

from .recipe import Unknown, number_of

RULES: dict[str, Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., Any])
_ARRAY: Any = mx.array

_UNARY = {
    "neg": "negative __neg__",
    "abs": "abs __abs__",
    "exp": "exp",
    "log": "log",
    "log2": "log2",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "atan": "arctan",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "erf": "erf",
    "square": "square",
    "floor": "floor",
    "ceil": "ceil",
    "sign": "sign",
    "not": "logical_not",
    "isfinite": "isfinite",
}
_BINARY = {
    "add": "add __add__ __radd__",
    "sub": "subtract __sub__",
    "mul": "multiply __mul__ __rmul__",
    "div": "divide __truediv__",
    "floor_div": "floor_divide __floordiv__",
    "mod": "remainder __mod__",
    "pow": "power __pow__",
    "maximum": "maximum",
    "minimum": "minimum",
    "atan2": "arctan2",
    "eq": "equal __eq__",
    "ne": "not_equal __ne__",
    "lt": "less __lt__",
    "le": "less_equal __le__",
    "gt": "greater __gt__",
    "ge": "greater_equal __ge__",
    "and": "logical_and",
    "or": "logical_or",
}
_REVERSED = {"sub": "__rsub__", "div": "__rtruediv__", "pow": "__rpow__"}


def rule(names: str) -> Callable[[F], F]:
    """Makes a function the rule of these names."""

    def named(function: F) -> F:
        for name in names.split():
            RULES[name] = function
        return function

    return named


def _is_bool(operand: Any) -> bool:
    return isinstance(operand, bool) or (isinstance(operand, _ARRAY) and "bool" in str(operand.dtype))


def _real(e: Any) -> None:
    if "complex" in str(e.out.dtype):
        raise Unknown("computes with complex numbers in MLX, which recipes do not know")


def _unary(op: str) -> Callable[..., int]:
    def made(e: Any, a: Any) -> int:
        _real(e)
        return int(e.add(op, [e.node(a)]))

    return made


def _binary(op: str, is_reversed: bool = False) -> Callable[..., int]:
    def made(e: Any, a: Any, b: Any) -> int:
        _real(e)
        a, b = (b, a) if is_reversed else (a, b)
        kind = {"add": "or", "mul": "and"}.get(op, op) if _is_bool(a) and _is_bool(b) else op
        return int(e.add(kind, [e.of(a), e.of(b)]))

    return made


for _op, _names in _UNARY.items():
    rule(_names)(_unary(_op))
for _op, _names in _BINARY.items():
    rule(_names)(_binary(_op))
for _op, _names in _REVERSED.items():
    rule(_names)(_binary(_op, is_reversed=True))


def _axes(a: Any, axis: Any) -> list[int]:
    if axis is None:
        return list(range(a.ndim))
    return sorted(int(one) % a.ndim for one in (axis if isinstance(axis, (list, tuple)) else [axis]))


def _reduced(op: str, **more: Any) -> Callable[..., int]:
    def made(e: Any, a: Any, axis: Any = None, keepdims: bool = False, ddof: Any = 0) -> int:
        ddofs = {"ddof": number_of(ddof)} if op in ("var", "std") else {}
        return int(e.add(op, [e.node(a)], axes=_axes(a, axis), keep=bool(keepdims), **ddofs, **more))

    return made


for _name in "sum mean prod max min any all var std logsumexp".split():
    rule(_name)(_reduced(_name))


@rule("softmax")
def _softmax(e: Any, a: Any, axis: Any = None, precise: bool = False) -> int:
    axes = _axes(a, axis)
    if len(axes) != 1:
        raise Unknown("uses softmax over several axes, which recipes do not know")
    return int(e.add("softmax", [e.node(a)], axis=axes[0]))


def _untransposed(e: Any, node: int) -> int | None:
    """Returns the matrix that a node is the transpose of; none if it is not one."""
    made = e.recipe.nodes[node]
    return made.inputs[0] if made.op == "permute" and made.attributes["axes"] == [1, 0] else None


@rule("matmul __matmul__")
def _matmul(e: Any, a: Any, b: Any) -> int:
    other = e.node(b)
    weight = _untransposed(e, other)
    if weight is not None:
        # As `nn.Linear` without a bias writes it.
        return int(e.add("linear", [e.node(a), weight, None]))
    return int(e.add("matmul", [e.node(a), other]))


@rule("addmm")
def _addmm(e: Any, c: Any, a: Any, b: Any, alpha: float = 1.0, beta: float = 1.0) -> int:
    other = e.node(b)
    weight = _untransposed(e, other)
    if weight is not None and alpha == 1 and beta == 1 and c.ndim == 1:
        # As `nn.Linear` with a bias writes it.
        return int(e.add("linear", [e.node(a), weight, e.node(c)]))
    product = e.add("matmul", [e.node(a), other])
    product = product if alpha == 1 else e.add("mul", [product, [number_of(alpha)]])
    added = e.node(c) if beta == 1 else e.add("mul", [e.node(c), [number_of(beta)]])
    return int(e.add("add", [added, product]))


@rule("dequantize")
def _dequantize(
    e: Any, w: Any, scales: Any, biases: Any = None, group_size: Any = None, bits: Any = None, mode: str = "affine"
) -> int:
    if mode != "affine" or biases is None:
        raise Unknown(f"uses `{mode}` quantization, which recipes do not know")
    inputs = [e.node(w), e.node(scales), e.node(biases)]
    return int(e.add("dequantize", inputs, bits=int(bits or 4), group_size=int(group_size or 64)))


@rule("quantized_matmul")
def _quantized_matmul(
    e: Any,
    x: Any,
    w: Any,
    scales: Any,
    biases: Any = None,
    transpose: bool = True,
    group_size: Any = None,
    bits: Any = None,
    mode: str = "affine",
) -> int:
    weight = _dequantize(e, w, scales, biases, group_size, bits, mode)
    if transpose and w.ndim == 2:
        return int(e.add("linear", [e.node(x), weight, None]))
    if transpose:
        axes = [*range(w.ndim - 2), w.ndim - 1, w.ndim - 2]
        weight = e.add("permute", [weight], axes=axes)
    return int(e.add("matmul", [e.node(x), weight]))


@rule("rms_norm")
def _rms_norm(e: Any, x: Any, weight: Any, eps: float) -> int:
    return int(e.add("rms_norm", [e.node(x), e.of(weight)], rank=1, eps=number_of(eps)))


@rule("layer_norm")
def _layer_norm(e: Any, x: Any, weight: Any, bias: Any, eps: float) -> int:
    return int(e.add("layer_norm", [e.node(x), e.of(weight), e.of(bias)], rank=1, eps=number_of(eps)))


@rule("scaled_dot_product_attention")
def _attention(e: Any, q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None) -> int:
    is_causal = isinstance(mask, str)
    if sinks is not None or (is_causal and q.shape[-2] != k.shape[-2]):
        raise Unknown("uses attention in a way that recipes do not know")
    kind = None if mask is None or is_causal else "bool" if _is_bool(mask) else "add"
    inputs = [e.node(q), e.node(k), e.node(v), None if is_causal else e.of(mask)]
    groups = q.shape[-3] // k.shape[-3]
    return int(e.add("attention", inputs, scale=number_of(scale), causal=is_causal, groups=groups, mask=kind))


@rule("astype")
def _astype(e: Any, a: Any, dtype: Any) -> int:
    name = str(dtype).rsplit(".", 1)[-1].removesuffix("_")
    return int(e.node(a) if a.dtype == dtype else e.add("cast", [e.node(a)], dtype=name))


def _reshaped(e: Any, node: int, before: Any, after: Any) -> int:
    return node if list(before) == list(after) else int(e.add("reshape", [node], shape=list(after)))


@rule("reshape flatten squeeze expand_dims unflatten")
def _reshape(e: Any, a: Any, *_: Any, **__: Any) -> int:
    return _reshaped(e, e.node(a), a.shape, e.out.shape)


def _permuted(e: Any, a: Any, axes: list[int]) -> int:
    return int(e.node(a)) if axes == sorted(axes) else int(e.add("permute", [e.node(a)], axes=axes))


@rule("transpose T")
def _transpose(e: Any, a: Any, *axes: Any) -> int:
    given = list(axes[0]) if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else list(axes)
    return _permuted(e, a, [int(axis) % a.ndim for axis in given] or list(reversed(range(a.ndim))))


@rule("swapaxes")
def _swapaxes(e: Any, a: Any, axis1: int, axis2: int) -> int:
    axes = list(range(a.ndim))
    first, second = axis1 % a.ndim, axis2 % a.ndim
    axes[first], axes[second] = axes[second], axes[first]
    return _permuted(e, a, axes)


@rule("broadcast_to")
def _broadcast_to(e: Any, a: Any, shape: Any) -> int:
    after = list(e.out.shape)
    before = [1] * (len(after) - a.ndim) + list(a.shape)
    node = _reshaped(e, e.node(a), a.shape, before)
    return node if before == after else int(e.add("expand", [node], shape=after))


@rule("concatenate concat")
def _concatenate(e: Any, arrays: Any, axis: int | None = 0) -> int:
    if axis is None:
        raise Unknown("joins arrays without an axis, which recipes do not know")
    return int(e.add("cat", [e.node(array) for array in arrays], axis=axis % arrays[0].ndim))


@rule("stack")
def _stack(e: Any, arrays: Any, axis: int = 0) -> int:
    return int(e.add("stack", [e.node(array) for array in arrays], axis=axis % e.out.ndim))


@rule("split")
def _split(e: Any, a: Any, indices_or_sections: Any, axis: int = 0) -> list[int]:
    at, node, start, nodes = axis % a.ndim, e.node(a), 0, []
    for part in e.out:
        end = start + part.shape[at]
        nodes.append(e.add("slice", [node], axis=at, start=start, end=end, step=1))
        start = end
    return nodes


@rule("take")
def _take(e: Any, a: Any, indices: Any, axis: int | None = None) -> int:
    if axis is None or not isinstance(indices, _ARRAY):
        raise Unknown("uses `mlx.take` in a way that recipes do not know")
    return int(e.add("take", [e.node(a), e.node(indices)], axis=axis % a.ndim))


@rule("where")
def _where(e: Any, condition: Any, x: Any, y: Any) -> int:
    return int(e.add("where", [e.of(condition), e.of(x), e.of(y)]))


@rule("zeros zeros_like")
def _zeros(e: Any, *_: Any, **__: Any) -> int:
    return int(e.add("full", [], shape=list(e.out.shape), value=0))


@rule("ones ones_like")
def _ones(e: Any, *_: Any, **__: Any) -> int:
    return int(e.add("full", [], shape=list(e.out.shape), value=1))


@rule("__getitem__")
def _getitem(e: Any, a: Any, index: Any) -> int:
    given = list(index) if isinstance(index, tuple) else [index]
    if len(given) == 1 and isinstance(given[0], _ARRAY) and "int" in str(given[0].dtype):
        # A look-up of rows, as `nn.Embedding` writes it.
        return int(e.add("take", [e.node(a), e.node(given[0])], axis=0))
    if any(not (one is None or one is Ellipsis or isinstance(one, (int, slice))) for one in given):
        raise Unknown("uses an array as an index in a way that recipes do not know")
    used = sum(one is not None and one is not Ellipsis for one in given)
    if Ellipsis not in given:
        given.append(Ellipsis)
    at = given.index(Ellipsis)
    given[at : at + 1] = [slice(None)] * (a.ndim - used)
    node, axis, shape = e.node(a), 0, list(a.shape)
    for one in given:
        if one is None:
            continue
        length = shape[axis]
        start, end, step = (one % length, one % length + 1, 1) if isinstance(one, int) else one.indices(length)
        if step < 0:
            raise Unknown("counts backwards in an index, which recipes do not know")
        if (start, end, step) != (0, length, 1):
            node = e.add("slice", [node], axis=axis, start=start, end=max(start, end), step=step)
            shape[axis] = len(range(start, end, step))
        axis += 1
    assert math.prod(shape) == e.out.size
    return _reshaped(e, node, shape, e.out.shape)
