"""Replays a recipe in float64 with NumPy, where torch is not installed: all that the rules for MLX and NumPy write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .recipe import from_number
from .values import Array, Value

_INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


def tensor_of(value: Value) -> Array:
    """Returns a stored tensor as float64 or complex128 numbers."""
    wide = value.wide()
    return wide if value.is_inexact else wide.astype(np.dtype("float64"))


def value_of(array: Any) -> Array:
    """Returns numbers as a NumPy array."""
    return np.asarray(array)


def replay(op: str, inputs: list[Any], a: dict[str, Any]) -> Any:
    """Computes one node. Raises KeyError if the operation is not known here."""
    inputs = [np.dtype("float64").type(from_number(x[0])) if isinstance(x, list) else x for x in inputs]
    with np.errstate(all="ignore"):
        found = np.asarray(OPS[op](a, *inputs))
    return found if found.dtype.kind == "c" else found.astype(np.dtype("float64"))


def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, *inputs: function(*inputs)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, x: function(x, axis=tuple(a["axes"]), keepdims=a["keep"])


def _cast(a: dict[str, Any], x: Any) -> Any:
    if a["dtype"] == "bool":
        return x != 0
    # Rounding to another float type is not repeated: the float64 run does not round either.
    return np.trunc(x) if a["dtype"] in _INTEGERS else x


def _logsumexp(a: dict[str, Any], x: Any) -> Any:
    axes = tuple(a["axes"])
    top = x.max(axis=axes, keepdims=True)
    summed = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    return summed if a["keep"] else np.squeeze(summed, axis=axes)


def _softmax(x: Any, axis: int) -> Any:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    made = x @ weight.T
    return made if bias is None else made + bias


def _layer_norm(a: dict[str, Any], x: Any, weight: Any, bias: Any) -> Any:
    axes = tuple(range(-a["rank"], 0))
    x = x - x.mean(axis=axes, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + a["eps"])
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _rms_norm(a: dict[str, Any], x: Any, weight: Any) -> Any:
    axes = tuple(range(-a["rank"], 0))
    x = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + a["eps"])
    return x if weight is None else x * weight


def _attention(a: dict[str, Any], q: Any, k: Any, v: Any, mask: Any) -> Any:
    k, v = (np.repeat(part, a["groups"], axis=-3) if a["groups"] != 1 else part for part in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * a["scale"]
    if a["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:]) != 0, scores, -np.inf)
    if a["mask"] == "bool":
        scores = np.where(mask != 0, scores, -np.inf)
    elif a["mask"] == "add":
        scores = scores + mask
    return _softmax(scores, -1) @ v


def _dequantize(a: dict[str, Any], packed: Any, scales: Any, biases: Any) -> Any:
    bits = a["bits"]
    words = packed.astype(np.dtype("uint64"))
    if 32 % bits == 0:
        shifts = np.arange(0, 32, bits, dtype=np.dtype("uint64"))
        values = (words[..., None] >> shifts) & np.dtype("uint64").type(2**bits - 1)
    else:
        # Elements of 3, 5 and 6 bits cross the words, so all bits are laid out one after the other.
        shifts = np.arange(32, dtype=np.dtype("uint64"))
        single = ((words[..., None] >> shifts) & np.dtype("uint64").type(1)).reshape(*words.shape[:-1], -1, bits)
        values = (single << np.arange(bits, dtype=np.dtype("uint64"))).sum(axis=-1)
    values = values.reshape(*packed.shape[:-1], -1, a["group_size"]).astype(np.dtype("float64"))
    made = values * scales[..., None] + biases[..., None]
    return made.reshape(*packed.shape[:-1], -1)


def _slice(a: dict[str, Any], x: Any) -> Any:
    return x[(*(slice(None),) * a["axis"], slice(a["start"], a["end"], a["step"]))]


def _take(x: Any, indices: Any, axis: int) -> Any:
    return np.take(x, indices.astype(np.dtype("int64")), axis=axis)


def _put_slices(a: dict[str, Any], x: Any, value: Any) -> Any:
    whole = [slice(None)] * x.ndim
    for axis, start, end, step in a["slices"]:
        whole[axis] = slice(start, end, step)
    made = x.copy()
    made[tuple(whole)] = value
    return made


_SAME = "exp log log2 sqrt sin cos tan tanh square floor ceil sign isfinite add maximum minimum matmul".split()
_NAMED = {
    "neg": "negative",
    "abs": "absolute",
    "reciprocal": "reciprocal",
    "atan": "arctan",
    "round": "rint",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "floor_div": "floor_divide",
    "mod": "mod",
    "pow": "power",
    "atan2": "arctan2",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "not": "logical_not",
}
OPS: dict[str, Callable[..., Any]] = {
    **{name: _one(getattr(np, name)) for name in _SAME},
    **{name: _one(getattr(np, spelling)) for name, spelling in _NAMED.items()},
    **{name: _reduction(getattr(np, name)) for name in "sum mean prod max min any all".split()},
    "rsqrt": _one(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _one(lambda x: 1 / (1 + np.exp(-x))),
    "silu": _one(lambda x: x / (1 + np.exp(-x))),
    "erf": _one(np.vectorize(math.erf, otypes=["float64"])),
    "where": _one(lambda c, x, y: np.where(c != 0, x, y)),
    "clamp": lambda a, x: np.clip(x, *(None if a[key] is None else from_number(a[key]) for key in ("min", "max"))),
    "cast": _cast,
    "full": lambda a: np.full(a["shape"], from_number(a["value"]), dtype="float64"),
    "arange": lambda a: np.arange(a["start"], a["end"], a["step"], dtype="float64"),
    "argmax": lambda a, x: np.argmax(x, axis=a["axes"][0], keepdims=a["keep"]),
    "argmin": lambda a, x: np.argmin(x, axis=a["axes"][0], keepdims=a["keep"]),
    "var": lambda a, x: np.var(x, axis=tuple(a["axes"]), keepdims=a["keep"], ddof=a["ddof"]),
    "std": lambda a, x: np.std(x, axis=tuple(a["axes"]), keepdims=a["keep"], ddof=a["ddof"]),
    "logsumexp": _logsumexp,
    "cumsum": lambda a, x: np.cumsum(x, axis=a["axis"]),
    "softmax": lambda a, x: _softmax(x, a["axis"]),
    "linear": _one(_linear),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "attention": _attention,
    "dequantize": _dequantize,
    "einsum": lambda a, *inputs: np.einsum(a["equation"], *inputs),
    "embedding": _one(lambda weight, ids: _take(weight, ids, 0)),
    "take": lambda a, x, indices: _take(x, indices, a["axis"]),
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "permute": lambda a, x: x.transpose(a["axes"]),
    "expand": lambda a, x: np.broadcast_to(x, a["shape"]),
    "slice": _slice,
    "put_slices": _put_slices,
    "cat": lambda a, *inputs: np.concatenate(inputs, axis=a["axis"]),
    "stack": lambda a, *inputs: np.stack(inputs, axis=a["axis"]),
    "roll": lambda a, x: np.roll(x, a["shifts"], a["axes"]),
    "flip": lambda a, x: np.flip(x, a["axes"]),
    "tile": lambda a, x: np.tile(x, a["times"]),
    "repeat_interleave": lambda a, x: np.repeat(x, a["repeats"], axis=a["axis"]),
    "tril": lambda a, x: np.tril(x, a["diagonal"]),
    "triu": lambda a, x: np.triu(x, a["diagonal"]),
}
