"""Adapters such as LoRA: weights in a file of their own, and what they change in each golden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import pins as pinning
from .floor import distance
from .names import Rule, near
from .points import side_of
from .values import Value, host

if TYPE_CHECKING:
    from .recorder import Recorder

# The names of adapters in torch and MLX modules: `q.lora_a`, `q.lora_A.weight`, `q.lora_A.default.weight`,
# `q.lora.up.weight`.
NAMES = ("**.lora_*.**", "**.lora.**")
# A golden proves that the adapters are applied if they change it by more floors than a right port may be off.
FLOORS = 8.0


def chosen(state: Any, names: str | Iterable[str], what: str = "rec.adapters") -> dict[str, Any]:
    """Returns the tensors of a mapping, or the parameters of a module whose names match.

    Raises ValueError if none do.
    """
    tensors = pinning.as_tensors(state)
    if side_of(state) is None:
        return tensors
    rules = [Rule(pattern, True) for pattern in ([names] if isinstance(names, str) else names)]
    found = {name: tensor for name, tensor in tensors.items() if any(rule.fits.fullmatch(name) for rule in rules)}
    if not found:
        patterns = ", ".join(f"`{rule.pattern}`" for rule in rules)
        raise ValueError(f"`{what}` finds no parameter that matches {patterns}{near(rules[0].pattern, tensors)}")
    return found


def describe(file: str, tensors: Mapping[str, Any], alpha: float | None) -> dict[str, Any]:
    """Returns what the manifest says about a file of adapters. The rank is that of all products, if they have one."""
    shapes = [host(tensor, f"adapter `{name}`").shape for name, tensor in tensors.items()]
    ranks = {min(shape) for shape in shapes if len(shape) == 2}
    found: dict[str, Any] = {"file": file}
    if len(ranks) == 1 and (rank := ranks.pop()) > 0:
        found["rank"] = rank
    if alpha is not None:
        found["alpha"] = float(alpha)
    return found


def zeros(value: Value) -> Value:
    """Returns a tensor of zeros of the same dtype and shape: an adapter without effect."""
    return Value(value.dtype, np.zeros_like(value.bits))


def measure(native: Recorder, bare: Recorder) -> None:
    """Lets the run without adapters note its distance from each golden."""

    def meets(name: str, value: Value) -> None:
        golden = native.goldens[name]
        if golden.value.is_inexact and golden.value.kind() == value.kind():
            golden.change = distance(golden.value, value)

    bare.meets = meets


def look(native: Recorder) -> None:
    """Reports adapters that change no golden by more than a right port may be off."""
    changes = [(golden.change, golden.floor) for golden in native.goldens.values() if golden.change is not None]
    if any(change.rms > FLOORS * (floor.rms if floor is not None else 0.0) for change, floor in changes):
        return
    message = (
        f"the adapters change no golden by more than {FLOORS:g} of its floors, so nothing shows whether they apply"
    )
    native.lint.add("no-effect", "*", message, "weight")


def facts(recorder: Recorder) -> dict[str, Any] | None:
    """Returns the manifest's part about adapters; none if the reference has none."""
    if not recorder.adapter_files:
        return None
    goldens = recorder.goldens.values()
    changes = {golden.name: golden.change.json() for golden in goldens if golden.change is not None}
    return {"files": recorder.adapter_files, "changes": changes}
