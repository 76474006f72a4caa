"""The torch side: watches modules and operations, sets parameters, and runs in true float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from .numpy_beside import trace_numpy
from .places import Places, caller
from .points import Hooking, is_layer, place_of
from .torch_trace import TorchTracer

if TYPE_CHECKING:
    from .collector import Collector

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_WIDE: dict[Any, Any] = {**dict.fromkeys(_NARROW, torch.float64), torch.complex64: torch.complex128}
_CASTS = {
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
# Functions that do not read a tensor's elements. An input that only these receive is unused.
_ABOUT = frozenset(
    {"__get__", "size", "dim", "stride", "numel", "is_floating_point", "is_complex", "__len__", "__hash__", "__repr__"}
)
# Properties that are tensors.
_SHOWN = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


def module_names(model: Any) -> list[str]:
    """Returns the qualified names of all modules; the model itself is `root`."""
    return [name or "root" for name, _ in model.named_modules()]


def tensors_of(model: Any) -> dict[str, Any]:
    """Returns the parameters and persistent buffers by name. Tensors that share storage appear once."""
    kept: dict[str, Any] = {}
    seen: set[Any] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        kept[name] = tensor.detach()
    return kept


def load_into(model: Any, tensors: Mapping[str, Any], is_float64: bool) -> Any:
    """Sets parameters and buffers in place, whatever their dtype, and returns the model.

    In a float64 run, all other parameters and buffers are widened as well.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        held = model.state_dict(keep_vars=True)
        ties: dict[Any, list[Any]] = {}
        for tensor in held.values():
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                ties.setdefault(tensor.data_ptr(), []).append(tensor)
        tied = {name: ties.get(held[name].data_ptr(), [held[name]]) for name in tensors}
        for name, tensor in tensors.items():
            for other in tied[name]:
                if other is held[name] or other.shape == tensor.shape:
                    other.data = tensor
        if is_float64:
            for module in model.modules():
                for key, buffer in module._buffers.items():
                    if buffer is not None and buffer.dtype in _WIDE:
                        module._buffers[key] = buffer.to(_WIDE[buffer.dtype])
                for parameter in module._parameters.values():
                    if parameter is not None and parameter.dtype in _WIDE:
                        parameter.data = parameter.data.to(_WIDE[parameter.dtype])
    return model


def attach(hooking: Hooking, model: Any, stack: ExitStack) -> None:
    """Hooks the modules that the rules want, or all of them if the hook must know which module calls an operation."""
    sources = hooking.recorder.sources
    kinds = {name or "root": type(module) for name, module in model.named_modules()}
    for name, module in model.named_modules():
        point = name or "root"
        if not (hooking.rules.wants(point) or hooking.sees_inside):
            continue
        kind = type(module)
        layer = is_layer(kind)
        if hooking.rules.wants(point):
            sources.add(kind)
        place = place_of(point, kinds, sources)

        def before(
            module: Any, args: Any, kwargs: Any, point: str = point, layer: bool = layer, place: str = place
        ) -> None:
            hooking.enter(point, layer, module.forward, args, kwargs, place)

        def after(module: Any, args: Any, kwargs: Any, output: Any, point: str = point, place: str = place) -> None:
            hooking.leave(point, output, place)

        for handle in (
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True),
        ):
            stack.callback(handle.remove)


def watch(recorder: Collector, stack: ExitStack) -> None:
    """Watches every operation of a run. In a float64 run, operations are promoted to float64."""
    stack.enter_context(torch.no_grad())
    tracer = None
    if recorder.tracing is not None:
        tracer = recorder.tracing.tracers["torch"] = TorchTracer(recorder.tracing.recipe, Places(recorder.sources))
    mode: TorchFunctionMode = _Watch(recorder, tracer)
    if recorder.is_float64:
        before = torch.get_default_dtype()
        set_default, from_numpy = torch.set_default_dtype, torch.from_numpy
        set_default(torch.float64)
        stack.callback(set_default, before)
        # Libraries set bfloat16 as the default while they build a model. The float64 run must stay in float64.
        _patch(stack, torch, "set_default_dtype", lambda dtype: set_default(_WIDE.get(dtype, dtype)))
        _patch(stack, torch, "from_numpy", lambda array: _widened(from_numpy(array)))
    if tracer is not None:
        trace_numpy(tracer.recipe, Places(recorder.sources), stack)
        _patch(stack, torch, "from_numpy", tracer.reading(torch.from_numpy))
    stack.enter_context(mode)


def _patch(stack: ExitStack, module: Any, name: str, value: Any) -> None:
    stack.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, value)


class _Watch(TorchFunctionMode):
    def __init__(self, recorder: Collector, tracer: TorchTracer | None):
        super().__init__()
        self._recorder = recorder
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recorder = self._recorder
        name = getattr(func, "__name__", "")
        if name not in _ABOUT:
            for tensor in _flat((args, kwargs)):
                recorder.used(tensor)
        if recorder.kind == "again" and kwargs.get("generator") is not None:
            # A generator with its own seed must also draw other numbers in this run.
            kwargs = {**kwargs, "generator": torch.Generator(kwargs["generator"].device).manual_seed(_OTHER_SEED)}
        tracer = self._tracer if name not in _ABOUT or _property(func) in _SHOWN else None
        if tracer is not None:
            tracer.before(args, kwargs)
        if not recorder.is_float64 or name == "__get__":
            output = func(*args, **kwargs)
        else:
            output = self._promoted(func, name, args, kwargs)
        if tracer is not None:
            # Before the hooks, which look the output up.
            tracer.after(func, name, args, kwargs, output)
        if name != "__get__":
            recorder.hooks.operation(name, args, kwargs, output)
        return output

    def _promoted(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        func = _CASTS.get(func, func)
        for tensor in _flat((args, kwargs)):
            if tensor.dtype in _WIDE and not name.endswith("_") and not _is_simple(tensor):
                self._recorder.lowered.setdefault(caller(self._recorder.sources), f"{tensor.dtype} into `{name}`")
        if name.endswith("_") and not name.endswith("__"):
            # In place: the tensor keeps its identity, so only the values written into it can be promoted.
            args, kwargs = _swap(args, keep_tensors=True), _swap(kwargs, keep_tensors=True)
        else:
            args, kwargs = _swap(args), _swap(kwargs)
        output = func(*args, **kwargs)
        returned = any(output is part for part in _flat(args))
        return output if returned else _widened(output)


def _property(func: Any) -> str:
    return str(getattr(getattr(func, "__self__", None), "__name__", ""))


_OTHER_SEED = 0x9E3779B9


def _swap(thing: Any, keep_tensors: bool = False) -> Any:
    """Returns the arguments of an operation with narrow dtypes and tensors widened to float64."""
    if isinstance(thing, torch.dtype):
        return _WIDE.get(thing, thing)
    if isinstance(thing, torch.Tensor):
        return (
            thing
            if keep_tensors or (isinstance(thing, torch.nn.Parameter) and thing.dtype not in _WIDE)
            else _widened(thing)
        )
    if isinstance(thing, str):
        return _TYPES.get(thing, thing)
    if type(thing) in (tuple, list):
        return type(thing)(_swap(part, keep_tensors) for part in thing)
    if type(thing) is dict:
        return {key: _swap(part, keep_tensors) for key, part in thing.items()}
    return thing


def _widened(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return thing.to(_WIDE[thing.dtype]) if thing.dtype in _WIDE else thing
    if type(thing) in (tuple, list):
        return type(thing)(_widened(part) for part in thing)
    return thing


def _is_simple(tensor: Any) -> bool:
    """Whether all numbers are multiples of 1/256, such as integers and halves, so rounding to float32 lost nothing."""
    with torch._C.DisableTorchFunction():
        if tensor.numel() == 0:
            return True
        wide = tensor.detach().cpu().to(_WIDE[tensor.dtype]).numpy().view(np.dtype("float64"))
        return bool(np.all(~np.isfinite(wide) | (wide * 256 == np.round(wide * 256))))


def _flat(thing: Any) -> Iterator[Any]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _flat(part)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from _flat(part)
