"""MLX operations in true float64. MLX accepts and returns float64, but computes many operations in float32 inside.

NumPy computes those here. The remaining operations of the installed MLX are compared with NumPy once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

_ARRAY: Any = mx.array
_FLOAT64: Any = mx.float64
# Before NumPy 2.3 its types allow a single axis only.
_WINDOWS: Any = np.lib.stride_tricks.sliding_window_view


def _np(array: Any) -> Any:
    return np.array(array) if isinstance(array, _ARRAY) else array


def _mx(array: Any) -> Any:
    return (
        _ARRAY(np.ascontiguousarray(array), dtype=_FLOAT64) if np.ndim(array) else _ARRAY(float(array), dtype=_FLOAT64)
    )


def _elementwise(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def exact(a: Any, /, *, stream: Any = None) -> Any:
        with np.errstate(all="ignore"):
            return _mx(function(_np(a)))

    return exact


def _softmax(a: Any, /, axis: Any = None, *, stream: Any = None, precise: bool = False) -> Any:
    x = _np(a)
    axis = tuple(axis) if isinstance(axis, list) else axis
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return _mx(raised / raised.sum(axis=axis, keepdims=True))


def _logsumexp(a: Any, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> Any:
    x = _np(a)
    axis = tuple(axis) if isinstance(axis, list) else axis
    top = x.max(axis=axis, keepdims=True)
    summed = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return _mx(summed if keepdims else np.squeeze(summed, axis=axis))


def _rms_norm(x: Any, weight: Any, eps: float, *, stream: Any = None) -> Any:
    a = _np(x)
    normed = a / np.sqrt(np.mean(a * a, axis=-1, keepdims=True) + eps)
    return _mx(normed if weight is None else normed * _np(weight))


def _layer_norm(x: Any, weight: Any, bias: Any, eps: float, *, stream: Any = None) -> Any:
    a = _np(x)
    a = a - a.mean(axis=-1, keepdims=True)
    a = a / np.sqrt(np.mean(a * a, axis=-1, keepdims=True) + eps)
    a = a if weight is None else a * _np(weight)
    return _mx(a if bias is None else a + _np(bias))


def _rope(
    a: Any,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: Any,
    freqs: Any = None,
    stream: Any = None,
) -> Any:
    x = _np(a)
    half = dims // 2
    offset = np.asarray(_np(offset), dtype="float64").reshape(-1, *[1] * (x.ndim - 2))
    positions = (np.arange(x.shape[-2], dtype="float64") + offset) * scale
    rates = 1 / _np(freqs) if freqs is not None else float(base or 0) ** (-np.arange(half, dtype="float64") / half)
    angles = positions[..., None] * rates
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = (x[..., 0:dims:2], x[..., 1:dims:2]) if traditional else (x[..., :half], x[..., half:dims])
    turned = (first * cos - second * sin, first * sin + second * cos)
    rotated = np.stack(turned, axis=-1).reshape(*x.shape[:-1], dims) if traditional else np.concatenate(turned, axis=-1)
    return _mx(np.concatenate([rotated, x[..., dims:]], axis=-1))


def _attention(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None, stream: Any = None) -> Any:
    a, b, c = _np(q), _np(k), _np(v)
    groups = a.shape[1] // b.shape[1]
    b, c = np.repeat(b, groups, axis=1), np.repeat(c, groups, axis=1)
    scores = a @ np.swapaxes(b, -1, -2) * scale
    if isinstance(mask, str):
        rows, columns = scores.shape[-2:]
        mask = np.arange(columns)[None, :] <= np.arange(columns - rows, columns)[:, None]
    if mask is not None:
        mask = _np(mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(axis=-1, keepdims=True)
    extra = 0.0
    if sinks is not None:
        sink = _np(sinks).reshape(1, -1, 1, 1)
        top = np.maximum(top, sink)
        extra = np.exp(sink - top)
    raised = np.exp(scores - top)
    return _mx(raised / (raised.sum(axis=-1, keepdims=True) + extra) @ c)


def _conv(spatial: int) -> Callable[..., Any]:
    def exact(
        input: Any,
        weight: Any,
        /,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        *,
        stream: Any = None,
    ) -> Any:
        x, w = _np(input), _np(weight)
        stride, padding, dilation = (
            (value,) * spatial if isinstance(value, int) else tuple(value) for value in (stride, padding, dilation)
        )
        x = np.pad(x, [(0, 0), *((side, side) for side in padding), (0, 0)])
        axes = tuple(range(1, spatial + 1))
        reach = tuple((size - 1) * step + 1 for size, step in zip(w.shape[1:-1], dilation, strict=True))
        windows = _WINDOWS(x, reach, axis=axes)
        every = (slice(None), *(slice(None, None, step) for step in stride), slice(None))
        windows = windows[every + tuple(slice(None, None, step) for step in dilation)]
        inner, outer = x.shape[-1] // groups, w.shape[0] // groups
        parts = []
        for group in range(groups):
            part = np.take(windows, range(group * inner, (group + 1) * inner), axis=spatial + 1)
            kernel = np.moveaxis(w[group * outer : (group + 1) * outer], -1, 1)
            parts.append(np.tensordot(part, kernel, axes=(range(spatial + 1, 2 * spatial + 2), range(1, spatial + 2))))
        return _mx(np.concatenate(parts, axis=-1))

    return exact


def _dequantize(
    w: Any,
    /,
    scales: Any,
    biases: Any = None,
    group_size: int | None = 64,
    bits: int | None = 4,
    mode: str = "affine",
    **_: Any,
) -> Any:
    group_size, bits = group_size or 64, bits or 4
    if mode != "affine" or bits not in (2, 4, 8):
        raise NotImplementedError(
            f"no float64 for {bits}-bit `{mode}` quantization, expected `affine` in 2, 4 or 8 bits"
        )
    packed = _np(w)
    shifts = np.arange(0, 32, bits, dtype="uint32")
    values = ((packed[..., None] >> shifts) & np.uint32(2**bits - 1)).reshape(*packed.shape[:-1], -1).astype("float64")
    grouped = values.reshape(*values.shape[:-1], -1, group_size)
    return _mx((grouped * _np(scales)[..., None] + _np(biases)[..., None]).reshape(values.shape))


def _quantized_matmul(
    x: Any,
    w: Any,
    /,
    scales: Any,
    biases: Any = None,
    transpose: bool = True,
    group_size: int | None = 64,
    bits: int | None = 4,
    mode: str = "affine",
    **_: Any,
) -> Any:
    full = _np(_dequantize(w, scales, biases, group_size, bits, mode))
    return _mx(_np(x) @ (np.swapaxes(full, -1, -2) if transpose else full))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


REPLACED: dict[str, Callable[..., Any]] = {
    **{
        name: _elementwise(getattr(np, name))
        for name in "exp expm1 sin cos tan sinh cosh tanh log log2 log10 log1p sqrt".split()
    },
    **{name: _elementwise(getattr(np, name)) for name in "arcsin arccos arctan arcsinh arccosh arctanh".split()},
    "rsqrt": _elementwise(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _elementwise(_sigmoid),
    "erf": _elementwise(np.vectorize(math.erf, otypes=["float64"])),
    "softmax": _softmax,
    "logsumexp": _logsumexp,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "rope": _rope,
    "scaled_dot_product_attention": _attention,
    **{f"conv{spatial}d": _conv(spatial) for spatial in (1, 2, 3)},
    "dequantize": _dequantize,
    "quantized_matmul": _quantized_matmul,
}


@cache
def exact_operations() -> frozenset[str]:
    """Returns the operations that the installed MLX computes in float64: equal to NumPy within 1e-13."""
    draw = np.random.Generator(np.random.PCG64(0))
    a, b = draw.standard_normal((17, 17)), draw.standard_normal((17, 17))
    x, y = _mx(a), _mx(b)
    trials: dict[str, Callable[[], tuple[Any, Any]]] = {
        "add": lambda: (_RAW["add"](x, y), a + b),
        "sub": lambda: (_RAW["subtract"](x, y), a - b),
        "mul": lambda: (_RAW["multiply"](x, y), a * b),
        "div": lambda: (_RAW["divide"](x, y), a / b),
        "pow": lambda: (_RAW["power"](_RAW["abs"](x), y), np.abs(a) ** b),
        "matmul": lambda: (_RAW["matmul"](x, y), a @ b),
        "addmm": lambda: (_RAW["addmm"](x, x, y), a + a @ b),
        "einsum": lambda: (_RAW["einsum"]("ij,kj->ik", x, y), a @ b.T),
        "inner": lambda: (_RAW["inner"](x, y), a @ b.T),
        "outer": lambda: (_RAW["outer"](x[0], y[0]), np.outer(a[0], b[0])),
        "tensordot": lambda: (_RAW["tensordot"](x, y, 1), a @ b),
        "sum": lambda: (_RAW["sum"](x, axis=-1), a.sum(-1)),
        "mean": lambda: (_RAW["mean"](x, axis=-1), a.mean(-1)),
        "var": lambda: (_RAW["var"](x, axis=-1), a.var(-1)),
        "std": lambda: (_RAW["std"](x, axis=-1), a.std(-1)),
        "prod": lambda: (_RAW["prod"](x, axis=-1), a.prod(-1)),
        "max": lambda: (_RAW["max"](x, axis=-1), a.max(-1)),
        "min": lambda: (_RAW["min"](x, axis=-1), a.min(-1)),
        "cumsum": lambda: (_RAW["cumsum"](x, axis=-1), a.cumsum(-1)),
        "abs": lambda: (_RAW["abs"](x), np.abs(a)),
        "neg": lambda: (_RAW["negative"](x), -a),
        "square": lambda: (_RAW["square"](x), a * a),
        "reciprocal": lambda: (_RAW["reciprocal"](x), 1 / a),
        "maximum": lambda: (_RAW["maximum"](x, y), np.maximum(a, b)),
        "minimum": lambda: (_RAW["minimum"](x, y), np.minimum(a, b)),
        "clip": lambda: (_RAW["clip"](x, -0.3, 0.3), np.clip(a, -0.3, 0.3)),
        "sign": lambda: (_RAW["sign"](x), np.sign(a)),
        "floor": lambda: (_RAW["floor"](x), np.floor(a)),
        "ceil": lambda: (_RAW["ceil"](x), np.ceil(a)),
        "round": lambda: (_RAW["round"](x), np.round(a)),
        "sort": lambda: (_RAW["sort"](x, axis=-1), np.sort(a, -1)),
    }
    exact = set()
    for name, trial in trials.items():
        # Only the CPU supports float64, and the default device may be a GPU.
        with mx.stream(mx.cpu):
            found, truth = trial()
            found = np.array(found)
        if found.dtype == np.dtype("float64") and np.allclose(found, truth, rtol=1e-13, atol=1e-14):
            exact.add(name)
    return frozenset(exact)


_RAW: dict[str, Any] = {name: getattr(mx, name) for name in dir(mx) if type(getattr(mx, name)).__name__ == "nb_func"}
