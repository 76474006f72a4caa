"""Rules for tensors that torch makes: filled, counted, and from Python's numbers."""

from __future__ import annotations

from typing import Any

import torch

from .recipe import Unknown, number_of
from .torch_rule import expanded, in_dtype, is_complex, rule


def _full(e: Any, value: Any) -> int:
    if is_complex(e.out):
        raise Unknown("fills a tensor with a complex number, which recipes do not know")
    if isinstance(value, torch.Tensor):
        return expanded(e, e.node(value), value.shape, e.out.shape)
    return int(e.add("full", [], shape=list(e.out.shape), value=number_of(value)))


@rule("zeros zeros_like new_zeros zero_")
def _zeros(e: Any, *_: Any, **__: Any) -> int:
    return _full(e, 0)


@rule("ones ones_like new_ones")
def _ones(e: Any, *_: Any, **__: Any) -> int:
    return _full(e, 1)


@rule("full full_like new_full")
def _filled(e: Any, first: Any = None, fill_value: Any = None, **named: Any) -> int:
    return _full(e, fill_value)


@rule("fill_ fill constant_")
def _fill(e: Any, input: Any = None, value: Any = None, *, val: Any = None, tensor: Any = None) -> int:
    return _full(e, val if value is None else value)


@rule("ones_")
def _ones_in_place(e: Any, *_: Any, **__: Any) -> int:
    return _full(e, 1)


@rule("zeros_")
def _zeros_in_place(e: Any, *_: Any, **__: Any) -> int:
    return _full(e, 0)


@rule("empty empty_like new_empty empty_strided")
def _empty(e: Any, *_: Any, **__: Any) -> int:
    raise Unknown("reads a tensor that was not filled")


@rule("arange")
def _arange(e: Any, start: Any = None, end: Any = None, step: Any = 1, **_: Any) -> int:
    first, last = (0, start) if end is None else (start or 0, end)
    numbers = [one.item() if isinstance(one, torch.Tensor) else one for one in (first, last, step)]
    if not e.out.dtype.is_floating_point and not all(isinstance(one, int) for one in numbers):
        raise Unknown("counts in integers between other numbers, which recipes do not know")
    first, last, step = map(number_of, numbers)
    return int(e.add("arange", [], start=first, end=last, step=step))


@rule("linspace")
def _linspace(e: Any, start: Any, end: Any, steps: Any = None, **_: Any) -> int:
    count = e.out.shape[0]
    if isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor) or not e.out.dtype.is_floating_point:
        raise Unknown("uses `torch.linspace` in a way that recipes do not know")
    if count == 1:
        return int(e.add("full", [], shape=[1], value=number_of(start)))
    counted = e.add("arange", [], start=0, end=count, step=1)
    step = (end - start) / (count - 1)
    return int(e.add("add", [e.add("mul", [counted, [number_of(step)]]), [number_of(start)]]))


@rule("logspace")
def _logspace(e: Any, start: Any, end: Any, steps: Any = None, base: Any = 10.0, **_: Any) -> int:
    return int(e.add("pow", [[number_of(float(base))], _linspace(e, start, end)]))


@rule("eye")
def _eye(e: Any, n: int, m: int | None = None, **_: Any) -> int:
    rows = e.add("reshape", [e.add("arange", [], start=0, end=n, step=1)], shape=[n, 1])
    return int(e.add("eq", [rows, e.add("arange", [], start=0, end=n if m is None else m, step=1)]))


@rule("tensor as_tensor asarray scalar_tensor new_tensor from_numpy")
def _tensor(e: Any, data: Any = None, obj: Any = None, **named: Any) -> int:
    # `new_tensor` is a method: the tensor in front only gives its dtype.
    if isinstance(data, torch.Tensor) and obj is not None:
        data = obj
    data = named.get("data", data)
    if isinstance(data, torch.Tensor):
        return in_dtype(e, data, e.out.dtype)
    traced = e.of_numpy(data, e.out)
    if traced is not None:
        return int(traced)
    if isinstance(data, (int, float)) and not is_complex(e.out):
        whole = not e.out.dtype.is_floating_point
        return int(e.add("full", [], shape=[], value=number_of(int(data) if whole else data)))
    return int(e.constant(e.out))


@rule("tril_indices triu_indices")
def _indices(e: Any, *_: Any, **__: Any) -> int:
    return int(e.constant(e.out))
