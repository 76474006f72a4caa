"""Replays a recipe in float64 with torch. All values are numbers: integers and bools are float64 too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .recipe import from_number
from .values import Value, hand_back

F = torch.nn.functional
_INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


def tensor_of(value: Value) -> Any:
    """Returns a stored tensor as float64 or complex128 numbers."""
    tensor = hand_back(value.widened() if value.is_inexact else value, "torch")
    return tensor if tensor.dtype.is_complex else tensor.double()


def value_of(tensor: Any) -> Any:
    """Returns numbers as a NumPy array."""
    return tensor.resolve_conj().resolve_neg().numpy()


def replay(op: str, inputs: list[Any], a: dict[str, Any]) -> Any:
    """Computes one node. Raises KeyError if the operation is not known here."""
    inputs = [torch.tensor(from_number(x[0]), dtype=torch.float64) if isinstance(x, list) else x for x in inputs]
    found = OPS[op](a, *inputs)
    return found if found.dtype.is_complex else found.double()


def _number(value: Any) -> Any:
    return None if value is None else from_number(value)


def _kept(tensor: Any, axes: list[int], keep: bool) -> Any:
    if keep:
        for axis in axes:
            tensor = tensor.unsqueeze(axis)
    return tensor


def _merged(x: Any, axes: list[int]) -> Any:
    """Returns the tensor with the reduced axes as one last axis."""
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    moved = x.permute(*rest, *axes)
    return moved.reshape(*moved.shape[: len(rest)], -1)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(a: dict[str, Any], x: Any) -> Any:
        return _kept(function(_merged(x, a["axes"]), a), sorted(a["axes"]), a["keep"])

    return made


def _cast(a: dict[str, Any], x: Any) -> Any:
    if a["dtype"] == "bool":
        return x != 0
    if a["dtype"].startswith("complex"):
        return x.to(torch.complex128)
    x = x.real if x.dtype.is_complex else x
    # Rounding to another float type is not repeated: the float64 run does not round either.
    return x.trunc() if a["dtype"] in _INTEGERS else x


def _floor_div(a: dict[str, Any], x: Any, y: Any) -> Any:
    return torch.floor(x / y)


def _attention(a: dict[str, Any], q: Any, k: Any, v: Any, mask: Any) -> Any:
    k, v = (part.repeat_interleave(a["groups"], dim=-3) if a["groups"] != 1 else part for part in (k, v))
    scores = q @ k.transpose(-1, -2) * a["scale"]
    if a["causal"]:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if a["mask"] == "bool":
        scores = scores.masked_fill(mask == 0, float("-inf"))
    elif a["mask"] == "add":
        scores = scores + mask
    # A query that sees no key has no probabilities.
    return torch.softmax(scores, dim=-1).masked_fill((scores == float("-inf")).all(-1, keepdim=True), 0.0) @ v


def _flat_pads(pads: list[list[int]]) -> list[int]:
    """Returns pads as torch takes them: the last axis first."""
    return [one for pair in reversed(pads) for one in pair]


def _conv(a: dict[str, Any], x: Any, weight: Any, bias: Any) -> Any:
    function = (F.conv1d, F.conv2d, F.conv3d)[len(a["stride"]) - 1]
    return function(F.pad(x, _flat_pads(a["padding"])), weight, bias, a["stride"], 0, a["dilation"], a["groups"])


def _conv_transpose(a: dict[str, Any], x: Any, weight: Any, bias: Any) -> Any:
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(a["stride"]) - 1]
    return function(x, weight, bias, a["stride"], a["padding"], a["output_padding"], a["groups"], a["dilation"])


def _avg_pool(a: dict[str, Any], x: Any) -> Any:
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(a["kernel"]) - 1]
    return function(F.pad(x, _flat_pads(a["padding"])), a["kernel"], a["stride"])


def _max_pool(a: dict[str, Any], x: Any) -> Any:
    function: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(a["kernel"]) - 1]
    return function(F.pad(x, _flat_pads(a["padding"]), value=float("-inf")), a["kernel"], a["stride"])


def _rms_norm(a: dict[str, Any], x: Any, weight: Any) -> Any:
    axes = tuple(range(-a["rank"], 0))
    x = x * torch.rsqrt((x * x).mean(dim=axes, keepdim=True) + a["eps"])
    return x if weight is None else x * weight


def _index(a: dict[str, Any]) -> slice:
    return slice(a["start"], a["end"], a["step"])


def _slice(a: dict[str, Any], x: Any) -> Any:
    return x[(*(slice(None),) * a["axis"], _index(a))]


def _put_slices(a: dict[str, Any], x: Any, value: Any) -> Any:
    whole = [slice(None)] * x.dim()
    for axis, start, end, step in a["slices"]:
        whole[axis] = slice(start, end, step)
    made = x.clone()
    if value.dim() and made[tuple(whole)].shape != value.shape:
        raise ValueError(f"a value of shape {list(value.shape)} does not fit a cut of {list(made[tuple(whole)].shape)}")
    made[tuple(whole)] = value
    return made


def _take(a: dict[str, Any], x: Any, indices: Any) -> Any:
    axis = a["axis"]
    found = x.index_select(axis, indices.long().reshape(-1))
    return found.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _pad(a: dict[str, Any], x: Any) -> Any:
    pads = a["pads"]
    if a["mode"] == "constant":
        return F.pad(x, _flat_pads(pads), value=_number(a["value"]))
    for axis, (before, after) in enumerate(pads):
        length = x.shape[axis]
        places = torch.arange(-before, length + after)
        if a["mode"] == "reflect":
            places = places.abs()
            places = torch.where(places >= length, 2 * (length - 1) - places, places)
        elif a["mode"] == "replicate":
            places = places.clamp(0, length - 1)
        else:
            places = places % length
        x = x.index_select(axis, places)
    return x


def _upsample(a: dict[str, Any], x: Any) -> Any:
    align = a["align"] if a["mode"] in ("linear", "bilinear", "bicubic", "trilinear") else None
    return F.interpolate(x, size=a["size"], mode=a["mode"], align_corners=align, antialias=a.get("antialias", False))


def _sorted(a: dict[str, Any], x: Any) -> Any:
    found = x.sort(dim=a["axis"], descending=a["descending"], stable=True)
    return found.values if a["output"] == "values" else found.indices


def _topk(a: dict[str, Any], x: Any) -> Any:
    found = x.topk(a["k"], dim=a["axis"], largest=a["largest"])
    return found.values if a["output"] == "values" else found.indices


def _dequantize(a: dict[str, Any], packed: Any, scales: Any, biases: Any) -> Any:
    shifts = torch.arange(0, 32, a["bits"])
    values = (packed.long()[..., None] >> shifts) & (2 ** a["bits"] - 1)
    values = values.reshape(*packed.shape[:-1], -1, a["group_size"]).double()
    return (values * scales[..., None] + biases[..., None]).flatten(-2)


def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, *inputs: function(*inputs)


_T: Any = torch
OPS: dict[str, Callable[..., Any]] = {
    **{
        name: _one(getattr(_T, name))
        for name in """neg abs exp log log2 sqrt rsqrt reciprocal sin cos tan atan tanh sigmoid relu erf square floor
        ceil round sign isfinite add sub mul div pow maximum minimum atan2 eq ne lt le gt ge matmul complex polar
        view_as_complex view_as_real real imag""".split()
    },
    "conj": _one(torch.conj_physical),
    "silu": _one(F.silu),
    "softplus": _one(lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    "not": _one(lambda x: x == 0),
    "and": _one(torch.logical_and),
    "or": _one(torch.logical_or),
    "xor": _one(torch.logical_xor),
    "mod": _one(torch.remainder),
    "floor_div": _floor_div,
    "where": _one(lambda c, x, y: torch.where(c != 0, x, y)),
    "gelu": lambda a, x: F.gelu(x, approximate="tanh" if a["tanh"] else "none"),
    "leaky_relu": lambda a, x: F.leaky_relu(x, a["slope"]),
    "elu": lambda a, x: F.elu(x, a["alpha"]),
    "clamp": lambda a, x: torch.clamp(x, _number(a["min"]), _number(a["max"])),
    "cast": _cast,
    "full": lambda a: torch.full(a["shape"], from_number(a["value"]), dtype=torch.float64),
    "arange": lambda a: torch.arange(a["start"], a["end"], a["step"], dtype=torch.float64),
    "sum": _reduction(lambda x, a: x.sum(-1)),
    "mean": _reduction(lambda x, a: x.mean(-1)),
    "prod": _reduction(lambda x, a: x.prod(-1)),
    "max": _reduction(lambda x, a: x.amax(-1)),
    "min": _reduction(lambda x, a: x.amin(-1)),
    "argmax": _reduction(lambda x, a: x.argmax(-1)),
    "argmin": _reduction(lambda x, a: x.argmin(-1)),
    "any": _reduction(lambda x, a: (x != 0).any(-1)),
    "all": _reduction(lambda x, a: (x != 0).all(-1)),
    "var": _reduction(lambda x, a: x.var(-1, correction=a["ddof"])),
    "std": _reduction(lambda x, a: x.std(-1, correction=a["ddof"])),
    "norm": _reduction(lambda x, a: torch.linalg.vector_norm(x, from_number(a["p"]), -1)),
    "logsumexp": _reduction(lambda x, a: x.logsumexp(-1)),
    "cumsum": lambda a, x: x.cumsum(a["axis"]),
    "topk": _topk,
    "sort": _sorted,
    "softmax": lambda a, x: x.softmax(a["axis"]),
    "log_softmax": lambda a, x: x.log_softmax(a["axis"]),
    "layer_norm": lambda a, x, weight, bias: F.layer_norm(x, x.shape[-a["rank"] :], weight, bias, a["eps"]),
    "rms_norm": _rms_norm,
    "group_norm": lambda a, x, weight, bias: F.group_norm(x, a["groups"], weight, bias, a["eps"]),
    "batch_norm": lambda a, x, mean, var, weight, bias: F.batch_norm(x, mean, var, weight, bias, eps=a["eps"]),
    "l2_normalize": lambda a, x: F.normalize(x, dim=a["axis"], eps=a["eps"]),
    "linear": _one(F.linear),
    "einsum": lambda a, *inputs: torch.einsum(a["equation"], *inputs),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "attention": _attention,
    "avg_pool": _avg_pool,
    "max_pool": _max_pool,
    "embedding": _one(lambda weight, ids: _take({"axis": 0}, weight, ids)),
    "take": _take,
    "gather": lambda a, x, indices: x.gather(a["axis"], indices.long()),
    "one_hot": lambda a, x: F.one_hot(x.long(), a["classes"]),
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "permute": lambda a, x: x.permute(a["axes"]),
    "expand": lambda a, x: x.expand(a["shape"]),
    "slice": _slice,
    "cat": lambda a, *inputs: torch.cat(inputs, a["axis"]),
    "stack": lambda a, *inputs: torch.stack(inputs, a["axis"]),
    "pad": _pad,
    "roll": lambda a, x: x.roll(a["shifts"], a["axes"]),
    "flip": lambda a, x: x.flip(a["axes"]),
    "tile": lambda a, x: x.repeat(a["times"]),
    "repeat_interleave": lambda a, x: x.repeat_interleave(a["repeats"], a["axis"]),
    "tril": lambda a, x: x.tril(a["diagonal"]),
    "triu": lambda a, x: x.triu(a["diagonal"]),
    "put_slices": _put_slices,
    "upsample": _upsample,
    "pixel_shuffle": lambda a, x: F.pixel_shuffle(x, a["factor"]),
    "pixel_unshuffle": lambda a, x: F.pixel_unshuffle(x, a["factor"]),
    "dequantize": _dequantize,
}
