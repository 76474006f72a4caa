"""One training step of a reference: gradients, and what an optimiser makes of them, as goldens like any other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .names import Rules
from .points import side_of
from .values import Value, hand_back, host

if TYPE_CHECKING:
    from .recorder import Recorder

# Settings of an optimiser that decide what a step computes. The manifest has those that are numbers or bools.
SETTINGS = ("lr", "betas", "eps", "weight_decay", "momentum", "dampening", "nesterov", "amsgrad", "maximize")


@dataclass
class Gradients:
    """The loss and the gradients of one call. A parameter that the loss does not depend on may have none."""

    loss: Any
    gradients: dict[str, Any]
    # The gradients as the framework's own functions take them.
    back: Any
    # Why a float64 run has no true float64 from here on.
    distrusted: str | None = None


@dataclass
class Training:
    """What a run knows about its training: the modules with weights, and the steps so far."""

    modules: list[tuple[Any, str]] = field(default_factory=list)
    steps: int = 0
    # The gradients of each call, in order. A float64 run of MLX continues with those of the first run.
    gradients: list[dict[str, Value]] = field(default_factory=list)
    # Of the latest call, for MLX, whose optimisers take the gradients as an argument.
    latest: tuple[Any, Any] | None = None


def gradients(recorder: Recorder, loss: Any, model: Any, name: str) -> Any:
    """Computes the gradients of `loss` by the parameters of `model`, and records both."""
    training = recorder.training
    prefix = next((prefix for held, prefix in training.modules if held is model), "")
    found = _side_of_module(model).differentiate(recorder, loss, model)
    if recorder.full("loss") not in recorder.met:
        recorder.save("loss", found.loss)
    if found.distrusted is not None and recorder.distrusted is None:
        recorder.distrusted = found.distrusted
    for own in [own for own, gradient in found.gradients.items() if gradient is None]:
        at = f"{name}.{prefix}{own}"
        recorder.lint.add("no-gradient", at, f"no gradient reaches parameter `{prefix}{own}` in the reference")
    save_each(recorder, name, {prefix + own: made for own, made in found.gradients.items() if made is not None})
    training.latest = (model, found.back)
    return found.back


def save_each(recorder: Recorder, name: str, tensors: Mapping[str, Any]) -> None:
    """Saves `name.<key>` per tensor, the last first: a backward pass reaches the last layer first.

    A mistake there then shows at the first red checkpoint.
    """
    rules = Rules("**", recorder.settings.expected.rename)
    for own in reversed(list(tensors)):
        recorder.save(f"{name}.{rules.renamed(own)}", tensors[own])


def step(recorder: Recorder, optimizer: Any, gradients: Any) -> None:
    """Applies one step of an optimiser, and records the optimiser's state and the parameters after it."""
    training = recorder.training
    training.steps += 1
    side = _side_of_optimizer(optimizer)
    before = [Update.of(recorder, parameter) for parameter in side.parameters_of(recorder, optimizer, gradients)]
    side.apply_step(recorder, optimizer, gradients)
    after = {parameter.name: parameter for parameter in side.parameters_of(recorder, optimizer, gradients)}
    updates = [(update, after[update.name]) for update in before]
    rules = Rules("**", recorder.settings.expected.rename)
    with recorder.scope("step", training.steps):
        for update, parameter in updates:
            for slot, tensor in parameter.state.items():
                _record(recorder, f"state.{rules.renamed(update.name)}.{slot}", tensor, update, slot)
        for update, parameter in updates:
            _record(recorder, f"param.{rules.renamed(update.name)}", parameter.tensor, update, None)


@dataclass
class Parameter:
    """One parameter of an optimiser, with its gradient, its state and its settings."""

    name: str
    tensor: Any
    gradient: Any
    state: dict[str, Any]
    optimizer: str
    settings: dict[str, Any]


@dataclass
class Update:
    """How a step changes one parameter, as the manifest describes it."""

    name: str
    gradient: str | None
    optimizer: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, recorder: Recorder, parameter: Parameter) -> Update:
        """Finds the golden that holds the gradient of this step: the latest with the same elements."""
        found = None
        if parameter.gradient is not None and recorder.kind == "native":
            value = host(parameter.gradient, f"the gradient of `{parameter.name}`")
            end = "." + Rules("**", recorder.settings.expected.rename).renamed(parameter.name)
            named = [golden for golden in recorder.goldens.values() if golden.name.partition("@")[0].endswith(end)]
            found = next((golden.name for golden in reversed(named) if golden.value.same_as(value)), None)
        return cls(parameter.name, found, parameter.optimizer, parameter.settings)

    def json(self, number: int, slot: str | None) -> dict[str, Any]:
        facts = {"number": number, "parameter": self.name, "optimizer": self.optimizer, **self.settings}
        if self.gradient is not None:
            facts["gradient"] = self.gradient
        if slot is not None:
            facts["slot"] = slot
        return facts


def _record(recorder: Recorder, name: str, tensor: Any, update: Update, slot: str | None) -> None:
    recorder.save(name, tensor)
    golden = recorder.goldens.get(recorder.full(name))
    if golden is not None and golden.step is None:
        golden.step = update.json(recorder.training.steps, slot)


def settings_of(read: Callable[[str], Any]) -> dict[str, Any]:
    """Returns the settings that `read` knows. `betas` become two numbers, and bools that are false are left out."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        value = read(name)
        if isinstance(value, bool):
            found |= {name: True} if value else {}
        elif name == "betas" and value is not None:
            found["betas"] = [float(beta) for beta in value]
        elif value is not None:
            found[name] = float(value)
    return found


def again(recorder: Recorder, like: Any) -> dict[str, Any]:
    """Returns the gradients of the same call in the first run, for a framework that cannot differentiate in float64."""
    assert recorder._first is not None
    held = recorder._first.training.gradients[len(recorder.training.gradients)]
    recorder.training.gradients.append(held)
    return {name: hand_back(value.widened(), like) for name, value in held.items()}


def name_of(names: Mapping[int, str], key: int, shape: Any) -> str:
    """Returns the name of a parameter of an optimiser, or of the module that has it."""
    if key not in names:
        raise ValueError(
            f"the optimiser has a parameter of shape {list(shape)} that belongs to no module of `rec.weights`; "
            "pass the module to `rec.weights`, or record the step with `rec.save`"
        )
    return names[key]


def _side_of_module(model: Any) -> Any:
    side = side_of(model)
    if side is None:
        raise TypeError(f"`{type(model).__name__}` has no gradients, expected a torch or MLX module")
    return _side(side.__name__.rpartition(".")[2].partition("_")[0])


def _side_of_optimizer(optimizer: Any) -> Any:
    torch, mlx = sys.modules.get("torch"), sys.modules.get("mlx.optimizers")
    if torch is not None and isinstance(optimizer, torch.optim.Optimizer):
        return _side("torch")
    if mlx is not None and isinstance(optimizer, mlx.Optimizer):
        return _side("mlx")
    raise TypeError(f"`{type(optimizer).__name__}` is no optimiser, expected one of `torch.optim` or `mlx.optimizers`")


def _side(framework: str) -> Any:
    return importlib.import_module(f".{framework}_training", __package__)
