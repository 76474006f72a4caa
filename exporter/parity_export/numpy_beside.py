"""Traces what a torch reference computes in NumPy before it makes tensors of it, such as the sigmas of a schedule.

NumPy's arrays have no history. The functions below start one: they make arrays that note what is computed with them,
until `torch.from_numpy` and the like turn them into tensors.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .numpy_trace import NumpyTracer, TracedArray, plain
from .places import Places, own_frame
from .recipe import Recipe, Unknown, number_of

# Libraries that may refuse an array which is not exactly NumPy's. Beside them, NumPy is not traced.
_REFUSING = ("mlx", "jax", "numba", "cupy", "tensorflow")


def trace_numpy(recipe: Recipe, places: Places, stack: ExitStack) -> None:
    """Traces NumPy until `stack` is closed, unless another library may not accept traced arrays."""
    if any(name in sys.modules for name in _REFUSING):
        return
    tracer = NumpyTracer(recipe, places, keeps_scalars=True)
    for name, made in (("linspace", _linspace), ("arange", _arange), ("array", _array), ("asarray", _array)):
        stack.callback(setattr, np, name, getattr(np, name))
        setattr(np, name, _traced(tracer, getattr(np, name), made))


def _traced(tracer: NumpyTracer, function: Any, made: Callable[..., int | None]) -> Any:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})
        # What libraries compute for themselves is no part of the reference.
        if sys._getframe(1) is not own_frame() or type(result) is not np.ndarray:
            return result
        try:
            node = made(tracer, result, *args, **kwargs)
        except (Unknown, TypeError, ValueError):
            node = None
        return result if node is None else tracer.bind(result, node)

    return called


def _linspace(e: NumpyTracer, out: Any, start: Any, stop: Any, num: Any = 50) -> int | None:
    start, stop, count = float(start), float(stop), len(out)
    e.here()
    if count < 2:
        return e.add("full", [], shape=[count], value=number_of(start))
    counted = e.add("arange", [], start=0, end=count, step=1)
    scaled = e.add("mul", [counted, [number_of((stop - start) / (count - 1))]])
    return e.add("add", [scaled, [number_of(start)]])


def _arange(e: NumpyTracer, out: Any, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> int | None:
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [number_of(one) for one in (first, last, step)]
    if not len(out) or (out.dtype.kind != "f" and not all(isinstance(one, int) for one in numbers)):
        return None
    e.here()
    return e.add("arange", [], start=numbers[0], end=numbers[1], step=numbers[2])


def _array(e: NumpyTracer, out: Any, object: Any, dtype: Any = None) -> int | None:
    # Anything but a traced array has no history to keep.
    if not isinstance(object, TracedArray):
        return None
    e.here()
    node = e.node(object)
    return node if out.dtype == object.dtype else e.add("cast", [node], dtype=out.dtype.name)
