"""The MLX side of a training step: `nn.value_and_grad`, and the state of `mlx.optimizers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from .training import Gradients, Parameter, again, name_of, settings_of
from .values import host

if TYPE_CHECKING:
    from .recorder import Recorder

_WHY = "MLX does not differentiate in true float64"


def differentiate(recorder: Recorder, loss: Any, model: Any) -> Gradients:
    """Differentiates a function, since MLX keeps no record of what was computed.

    A float64 run computes the loss, and continues with the gradients of the first run: NumPy computes much of that run,
    and MLX cannot differentiate through NumPy.
    """
    if not callable(loss):
        raise TypeError("MLX differentiates functions: pass a function without arguments that returns the loss")
    if recorder.is_float64:
        flat = again(recorder, "mlx")
        return Gradients(loss(), flat, tree_unflatten(list(flat.items())), _WHY)
    value, made = nn.value_and_grad(model, loss)()
    flat = dict(tree_flatten(made))
    recorder.training.gradients.append({name: host(array, f"gradient of `{name}`") for name, array in flat.items()})
    return Gradients(value, flat, made)


def parameters_of(recorder: Recorder, optimizer: Any, gradients: Any) -> Iterator[Parameter]:
    """Returns the parameters that a step changes: those with a gradient."""
    model, made = _of_latest(recorder, gradients)
    prefixes = {id(held): prefix for held, prefix in recorder.training.modules}
    prefix = name_of(prefixes, id(model), ())
    parameters = dict(tree_flatten(model.parameters()))
    held = dict(tree_flatten(optimizer.state))
    kind = type(optimizer).__name__.lower()
    settings = settings_of(lambda name: getattr(optimizer, {"lr": "learning_rate"}.get(name, name), None))
    if "adam" in kind:
        settings["bias_correction"] = bool(getattr(optimizer, "bias_correction", False))
    for name, gradient in tree_flatten(made):
        own = parameters[name]
        state = {
            slot.removeprefix(f"{name}."): array
            for slot, array in held.items()
            if slot.startswith(f"{name}.") and array.shape == own.shape
        }
        yield Parameter(prefix + name, own, gradient, state, kind, settings)


def apply_step(recorder: Recorder, optimizer: Any, gradients: Any) -> None:
    """Moves the parameters by these gradients, or else by those of the latest call."""
    model, made = _of_latest(recorder, gradients)
    optimizer.update(model, made)


def _of_latest(recorder: Recorder, gradients: Any) -> tuple[Any, Any]:
    if recorder.training.latest is None:
        raise ValueError("`rec.step` of an MLX optimiser needs gradients; call `rec.gradients` before")
    model, made = recorder.training.latest
    return model, made if gradients is None else gradients
