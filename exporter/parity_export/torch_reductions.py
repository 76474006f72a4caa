"""Rules for torch's reductions, sorts and cumulative sums."""

from __future__ import annotations

import math
from typing import Any

import torch

from .recipe import Unknown, number_of
from .torch_rule import axes_of, axis_of, cast, in_dtype, is_complex, reshaped, rule


def _reduced(e: Any, op: str, node: int, tensor: Any, dim: Any, keepdim: bool, **more: Any) -> int:
    axes = axes_of(tensor, dim)
    return int(e.add(op, [node], axes=axes, keep=bool(keepdim), **more)) if tensor.dim() else node


@rule("sum")
def _sum(e: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> int:
    return _reduced(e, "sum", in_dtype(e, input, dtype), input, dim, keepdim)


@rule("mean")
def _mean(e: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> int:
    return _reduced(e, "mean", in_dtype(e, input, dtype), input, dim, keepdim)


@rule("prod")
def _prod(e: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> int:
    return _reduced(e, "prod", in_dtype(e, input, dtype), input, dim, keepdim)


@rule("amax")
def _amax(e: Any, input: Any, dim: Any = (), keepdim: bool = False) -> int:
    return _reduced(e, "max", e.node(input), input, dim, keepdim)


@rule("amin")
def _amin(e: Any, input: Any, dim: Any = (), keepdim: bool = False) -> int:
    return _reduced(e, "min", e.node(input), input, dim, keepdim)


@rule("any")
def _any(e: Any, input: Any, dim: Any = None, keepdim: bool = False) -> int:
    return _reduced(e, "any", _truth(e, input), input, dim, keepdim)


@rule("all")
def _all(e: Any, input: Any, dim: Any = None, keepdim: bool = False) -> int:
    return _reduced(e, "all", _truth(e, input), input, dim, keepdim)


def _truth(e: Any, tensor: Any) -> int:
    return in_dtype(e, tensor, torch.bool)


def _extreme(e: Any, op: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if isinstance(dim, torch.Tensor):
        return e.add(f"{op}imum", [e.node(input), e.node(dim)])
    node = e.node(input)
    if dim is None:
        return _reduced(e, op, node, input, None, keepdim)
    return [_reduced(e, op, node, input, dim, keepdim), _place(e, f"arg{op}", node, input, dim, keepdim)]


@rule("max")
def _max(e: Any, input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    return _extreme(e, "max", input, dim if other is None else other, keepdim)


@rule("min")
def _min(e: Any, input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    return _extreme(e, "min", input, dim if other is None else other, keepdim)


def _place(e: Any, op: str, node: int, input: Any, dim: Any, keepdim: bool) -> int:
    if input.dim() == 0:
        return int(e.add("full", [], shape=[], value=0))
    if dim is None:
        found = int(e.add(op, [reshaped(e, node, input.shape, [input.numel()])], axes=[0], keep=False))
        return reshaped(e, found, [], [1] * input.dim()) if keepdim else found
    return int(e.add(op, [node], axes=[axis_of(input, dim)], keep=bool(keepdim)))


@rule("argmax")
def _argmax(e: Any, input: Any, dim: Any = None, keepdim: bool = False) -> int:
    return _place(e, "argmax", e.node(input), input, dim, keepdim)


@rule("argmin")
def _argmin(e: Any, input: Any, dim: Any = None, keepdim: bool = False) -> int:
    return _place(e, "argmin", e.node(input), input, dim, keepdim)


def _spread(e: Any, op: str, input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> int:
    if is_complex(input) or input.dim() == 0:
        raise Unknown(f"uses `torch.{op}` of complex or single numbers, which recipes do not know")
    if isinstance(dim, bool):
        # `var(x, unbiased)`: the second argument is not an axis.
        dim, unbiased = None, dim
    ddof = number_of(correction) if correction is not None else int(unbiased is not False)
    return _reduced(e, op, e.node(input), input, dim, keepdim, ddof=ddof)


@rule("var")
def _var(
    e: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> int:
    return _spread(e, "var", input, dim, unbiased, correction, keepdim)


@rule("std")
def _std(
    e: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> int:
    return _spread(e, "std", input, dim, unbiased, correction, keepdim)


@rule("var_mean")
def _var_mean(
    e: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> list[int]:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return [_spread(e, "var", input, dim, unbiased, correction, keepdim), _mean(e, input, dim, keepdim)]


@rule("std_mean")
def _std_mean(
    e: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> list[int]:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return [_spread(e, "std", input, dim, unbiased, correction, keepdim), _mean(e, input, dim, keepdim)]


@rule("linalg_vector_norm")
def _vector_norm(
    e: Any, input: Any = None, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, x: Any = None
) -> int:
    tensor = x if input is None else input
    if is_complex(tensor) or isinstance(ord, str) or (tensor.dim() == 0):
        raise Unknown("uses a norm that recipes do not know")
    return _reduced(e, "norm", in_dtype(e, tensor, dtype), tensor, dim, keepdim, p=number_of(float(ord)))


@rule("norm")
def _norm(e: Any, input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> int:
    # The Frobenius norm is the 2-norm of all elements, whatever the number of axes.
    return _vector_norm(e, input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@rule("linalg_norm")
def _linalg_norm(
    e: Any,
    input: Any = None,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    A: Any = None,
) -> int:
    tensor = A if input is None else input
    one = dim is not None and len(axes_of(tensor, dim)) == 1
    if ord is not None and not one and tensor.dim() != 1:
        raise Unknown("uses a norm of matrices, which recipes do not know")
    return _vector_norm(e, tensor, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@rule("cumsum")
def _cumsum(e: Any, input: Any, dim: Any, *, dtype: Any = None) -> int:
    node = in_dtype(e, input, dtype)
    return int(e.add("cumsum", [node], axis=axis_of(input, dim))) if input.dim() else node


@rule("logsumexp")
def _logsumexp(e: Any, input: Any, dim: Any, keepdim: bool = False) -> int:
    return _reduced(e, "logsumexp", e.node(input), input, dim, keepdim)


@rule("topk")
def _topk(e: Any, input: Any, k: int, dim: Any = -1, largest: bool = True, sorted: bool = True) -> list[int]:
    node, axis = e.node(input), axis_of(input, dim)
    common = {"k": int(k), "axis": axis, "largest": bool(largest)}
    return [e.add("topk", [node], **common, output=output) for output in ("values", "indices")]


@rule("sort")
def _sort(e: Any, input: Any, dim: Any = -1, descending: bool = False, stable: Any = None) -> list[int]:
    node, axis = e.node(input), axis_of(input, dim)
    return [
        e.add("sort", [node], axis=axis, descending=bool(descending), output=output) for output in ("values", "indices")
    ]


@rule("argsort")
def _argsort(e: Any, input: Any, dim: Any = -1, descending: bool = False, stable: Any = None) -> int:
    return _sort(e, input, dim, descending)[1]


@rule("count_nonzero")
def _count_nonzero(e: Any, input: Any, dim: Any = None) -> int:
    return _reduced(e, "sum", cast(e, e.node(input), torch.bool), input, dim, False)


@rule("softmax")
def _softmax(e: Any, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None, op: str = "softmax") -> int:
    if isinstance(_stacklevel, torch.dtype):
        # `Tensor.softmax(dim, dtype)`.
        dtype = _stacklevel
    if dim is None:
        raise Unknown(f"uses `{op}` without an axis, which recipes do not know")
    return int(e.add(op, [in_dtype(e, input, dtype)], axis=axis_of(input, dim)))


@rule("log_softmax")
def _log_softmax(e: Any, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> int:
    return _softmax(e, input, dim, _stacklevel, dtype, op="log_softmax")


@rule("normalize")
def _normalize(e: Any, input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> int:
    if p != 2.0 or is_complex(input) or isinstance(dim, (tuple, list)):
        raise Unknown("uses `torch.normalize` in a way that recipes do not know")
    return int(e.add("l2_normalize", [e.node(input)], axis=axis_of(input, dim), eps=number_of(eps)))


@rule("diff")
def _diff(e: Any, input: Any, n: int = 1, dim: Any = -1) -> int:
    if n != 1:
        raise Unknown("uses `torch.diff` more than once, which recipes do not know")
    axis = axis_of(input, dim)
    length = input.shape[axis]
    node = e.node(input)
    late = e.add("slice", [node], axis=axis, start=1, end=length, step=1)
    early = e.add("slice", [node], axis=axis, start=0, end=length - 1, step=1)
    return int(e.add("sub", [late, early]))


@rule("outer ger")
def _outer(e: Any, input: Any, vec2: Any) -> int:
    column = reshaped(e, e.node(input), input.shape, [math.prod(input.shape), 1])
    return int(e.add("mul", [column, e.node(vec2)]))
