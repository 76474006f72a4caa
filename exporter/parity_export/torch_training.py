"""The torch side of a training step: `backward`, and the state that `torch.optim` keeps per parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .torch_trace import TorchTracer
from .training import Gradients, Parameter, name_of, settings_of

if TYPE_CHECKING:
    from .recorder import Recorder

_WHY = "comes from a backward pass, which recipes do not follow"


def differentiate(recorder: Recorder, loss: Any, model: Any) -> Gradients:
    """Calls `backward`. Gradients add up, as in torch, until the reference sets them to zero."""
    if callable(loss) and not isinstance(loss, torch.Tensor):
        with torch.enable_grad():
            loss = loss()
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        found = f"shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else f"type {type(loss).__name__}"
        raise TypeError(f"the loss has {found}, expected a tensor with one element")
    if not loss.requires_grad:
        raise ValueError(
            "the loss has no gradient: compute it in `with torch.enable_grad():`, or pass a function that returns it"
        )
    loss.backward()
    made = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}
    tracer = recorder.tracing.tracers.get("torch") if recorder.tracing is not None else None
    if isinstance(tracer, TorchTracer):
        with torch._C.DisableTorchFunction():
            for gradient in made.values():
                if gradient is not None:
                    tracer.forget(gradient, _WHY)
    return Gradients(loss, made, {name: gradient for name, gradient in made.items() if gradient is not None})


def parameters_of(recorder: Recorder, optimizer: Any, gradients: Any) -> Iterator[Parameter]:
    """Returns the parameters that a step changes: those with a gradient."""
    modules = recorder.training.modules
    names = {id(own): prefix + name for model, prefix in modules for name, own in model.named_parameters()}
    kind = type(optimizer).__name__.lower()
    for group in optimizer.param_groups:
        settings = settings_of(group.get)
        if "adam" in kind:
            settings["bias_correction"] = True
        for own in group["params"]:
            if own.grad is None:
                continue
            name = name_of(names, id(own), own.shape)
            held = optimizer.state.get(own, {})
            state = {
                slot: tensor
                for slot, tensor in held.items()
                # A count of steps is no tensor per element.
                if slot != "step" and isinstance(tensor, torch.Tensor) and tensor.shape == own.shape
            }
            yield Parameter(name, own, own.grad, state, kind, settings)


def apply_step(recorder: Recorder, optimizer: Any, gradients: Any) -> None:
    """Moves the parameters by their own gradients."""
    if gradients is not None:
        raise TypeError("a torch optimiser reads `.grad` of its parameters; leave out `gradients`")
    optimizer.step()
