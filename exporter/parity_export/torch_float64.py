"""True float64 in torch: narrow dtypes and tensors of an operation are widened before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
WIDE: dict[Any, Any] = {**dict.fromkeys(_NARROW, torch.float64), torch.complex64: torch.complex128}
CASTS = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
    torch.Tensor.cfloat: torch.Tensor.cdouble,
}
_TYPES = {
    "torch.FloatTensor": "torch.DoubleTensor",
    "torch.HalfTensor": "torch.DoubleTensor",
    "torch.BFloat16Tensor": "torch.DoubleTensor",
}


def default_to_float64(stack: ExitStack) -> None:
    """Makes torch create float64 tensors until `stack` closes, also from NumPy arrays."""
    before = torch.get_default_dtype()
    set_default, from_numpy = torch.set_default_dtype, torch.from_numpy
    set_default(torch.float64)
    stack.callback(set_default, before)
    # Libraries set bfloat16 as the default while they build a model. The float64 run must stay in float64.
    patch(stack, torch, "set_default_dtype", lambda dtype: set_default(WIDE.get(dtype, dtype)))
    patch(stack, torch, "from_numpy", lambda array: widened(from_numpy(array)))


def patch(stack: ExitStack, module: Any, name: str, value: Any) -> None:
    """Replaces an attribute until `stack` closes."""
    stack.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, value)


def swap(thing: Any, keep_tensors: bool = False) -> Any:
    """Returns the arguments of an operation with narrow dtypes and tensors widened to float64."""
    if isinstance(thing, torch.dtype):
        return WIDE.get(thing, thing)
    if isinstance(thing, torch.Tensor):
        return (
            thing
            if keep_tensors or (isinstance(thing, torch.nn.Parameter) and thing.dtype not in WIDE)
            else widened(thing)
        )
    if isinstance(thing, str):
        return _TYPES.get(thing, thing)
    if type(thing) in (tuple, list):
        return type(thing)(swap(part, keep_tensors) for part in thing)
    if type(thing) is dict:
        return {key: swap(part, keep_tensors) for key, part in thing.items()}
    return thing


def widened(thing: Any) -> Any:
    """Returns the tensors of a result in float64; tensors that are not narrow floats stay as they are."""
    if isinstance(thing, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return thing.to(WIDE[thing.dtype]) if thing.dtype in WIDE else thing
    if type(thing) in (tuple, list):
        return type(thing)(widened(part) for part in thing)
    return thing


def is_simple(tensor: Any) -> bool:
    """Whether all numbers are multiples of 1/256, such as integers and halves, so rounding to float32 lost nothing."""
    with torch._C.DisableTorchFunction():
        if tensor.numel() == 0:
            return True
        wide = tensor.detach().cpu().to(WIDE[tensor.dtype]).numpy().view(np.dtype("float64"))
        return bool(np.all(~np.isfinite(wide) | (wide * 256 == np.round(wide * 256))))


def flat(thing: Any) -> Iterator[Any]:
    """Returns the tensors in the arguments or the result of an operation."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from flat(part)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from flat(part)
