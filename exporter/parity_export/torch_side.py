"""The torch side: watches modules and operations, sets parameters, and runs in true float64."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from .numpy_beside import trace_numpy
from .places import Places, caller
from .points import Hooking, is_layer, place_of
from .torch_blocks import block_names, named_modules, run_block, version_of, watch_blocks
from .torch_float64 import CASTS, WIDE, default_to_float64, flat, is_simple, patch, swap, widened
from .torch_trace import TorchTracer

if TYPE_CHECKING:
    from .collector import Collector

__all__ = ["block_names", "named_modules", "run_block", "version_of", "watch_blocks"]

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
                    if buffer is not None and buffer.dtype in WIDE:
                        module._buffers[key] = buffer.to(WIDE[buffer.dtype])
                for parameter in module._parameters.values():
                    if parameter is not None and parameter.dtype in WIDE:
                        parameter.data = parameter.data.to(WIDE[parameter.dtype])
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
        default_to_float64(stack)
    if tracer is not None:
        trace_numpy(tracer.recipe, Places(recorder.sources), stack)
        patch(stack, torch, "from_numpy", tracer.reading(torch.from_numpy))
    stack.enter_context(mode)


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
            for tensor in flat((args, kwargs)):
                recorder.used(tensor)
        if recorder.kind == "again" and kwargs.get("generator") is not None:
            # A generator with its own seed must also draw other numbers in this run.
            kwargs = {**kwargs, "generator": torch.Generator(kwargs["generator"].device).manual_seed(_OTHER_SEED)}
        tracer = None
        if recorder.tracing is not None and (name not in _ABOUT or _property(func) in _SHOWN):
            tracer = self._tracer
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
        func = CASTS.get(func, func)
        # A block that runs alone starts from the weights and tensors as they are.
        for tensor in flat((args, kwargs)) if self._recorder.kind == "truth" else ():
            if tensor.dtype in WIDE and not name.endswith("_") and not is_simple(tensor):
                self._recorder.lowered.setdefault(caller(self._recorder.sources), f"{tensor.dtype} into `{name}`")
        if name.endswith("_") and not name.endswith("__"):
            # In place: the tensor keeps its identity, so only the values written into it can be promoted.
            args, kwargs = swap(args, keep_tensors=True), swap(kwargs, keep_tensors=True)
        else:
            args, kwargs = swap(args), swap(kwargs)
        output = func(*args, **kwargs)
        returned = any(output is part for part in flat(args))
        return output if returned else widened(output)


def _property(func: Any) -> str:
    return str(getattr(getattr(func, "__self__", None), "__name__", ""))


_OTHER_SEED = 0x9E3779B9
