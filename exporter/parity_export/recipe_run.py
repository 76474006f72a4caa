"""The recipes of a finished run: constants are compared with other runs, and every recipe is checked."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .recipe import Constant, Node, Recipe
from .recipe_check import LOOSE, Wanted, check
from .values import Value

if TYPE_CHECKING:
    from .collector import Collector

WHY_CHANGES = "comes from an input by operations that are not traced"
WHY_UNTRACED = "no operation that is traced made it"
WHY_UNSURE = "has no history, and the run that would show whether it depends on an input failed"


def float_constants(recipe: Recipe) -> dict[int, Constant]:
    """Returns the constants of floats that some golden needs."""
    needed = set(recipe.needed())
    return {
        node: constant for node, constant in recipe.constants.items() if node in needed and constant.value.is_inexact
    }


def give_twins(recipe: Recipe, truth: Recipe) -> None:
    """Gives constants and literals their numbers in the float64 run, where those are nearly the same."""
    twins = _by_place(truth)
    for constant in recipe.constants.values():
        twin = twins.get(constant.where)
        if twin is not None and constant.value.is_inexact and _is_near(constant.value, twin.value):
            constant.truth = twin.value
    _give_literals(recipe, truth)


def _give_literals(recipe: Recipe, truth: Recipe) -> None:
    """Replaces literals by those of the float64 run: `sigma.item()` was rounded to float32."""
    twins = dict(_by_call(truth))
    for call, node in _by_call(recipe):
        twin = twins.get(call)
        if twin is None or len(twin.inputs) != len(node.inputs):
            continue
        for at, (own, other) in enumerate(zip(node.inputs, twin.inputs, strict=True)):
            if isinstance(own, list) and isinstance(other, list) and _is_rounded(own[0], other[0]):
                node.inputs[at] = other


def _by_call(recipe: Recipe) -> Iterator[tuple[object, Node]]:
    """Returns the nodes with literals, each with what identifies it in another run: its line, and the count there."""
    met: dict[object, int] = {}
    for node in recipe.nodes:
        if node.place is not None and any(isinstance(operand, list) for operand in node.inputs):
            key = (node.op, node.place)
            met[key] = met.get(key, 0) + 1
            yield (*key, met[key]), node


def _is_rounded(own: object, other: object) -> bool:
    """Whether two different numbers are the same but for rounding to float32."""
    if not isinstance(own, float) or not isinstance(other, float):
        return False
    return own != other and abs(own - other) <= 1e-6 * abs(other)


def drop_changing(recipe: Recipe, moved: Recipe | None, why: str = WHY_CHANGES) -> None:
    """Makes constants of floats unknown if they differ in a run with other inputs, or are not met there.

    Such a tensor is computed from an input where the tracer does not look, so it is no constant.
    """
    others = _by_place(moved) if moved is not None else {}
    for node, constant in float_constants(recipe).items():
        other = others.get(constant.where)
        if other is None or not constant.value.same_as(other.value):
            recipe.forget(node, why)


def _by_place(recipe: Recipe) -> dict[object, Constant]:
    return {constant.where: constant for constant in recipe.constants.values()}


def _is_near(native: Value, twin: Value) -> bool:
    """Whether two tensors can be the same constant, computed in different precision."""
    a, b = native.wide(), twin.wide()
    if a.shape != b.shape or not a.size:
        return False
    with np.errstate(all="ignore"):
        far, size = np.sqrt(np.mean(np.abs(a - b) ** 2)), np.sqrt(np.mean(np.abs(b) ** 2))
    return bool(far <= LOOSE * size)


def settle(recorder: Collector, truths: Mapping[str, Value]) -> None:
    """Checks the recipes of a run. Later calls do nothing."""
    tracing = recorder.tracing
    if tracing is None or tracing.is_settled:
        return
    tracing.is_settled = True
    wanted = {name: Wanted(golden.value, truths.get(name), golden.floor) for name, golden in recorder.goldens.items()}
    leaves: dict[tuple[str, str], Value | Callable[[], Value]] = {
        ("input", name): pin.value for name, pin in recorder.pins.inputs.items()
    }
    leaves |= {("weight", name): pin.value for name, pin in recorder.pins.weights.items()}
    external = recorder.settings.external
    if external is not None:
        # Each is read when the check needs it.
        leaves |= {("weight", name): partial(external.value, name) for name in external.places}
    if tracing.tracers:
        side = "torch_replay" if "torch" in tracing.tracers else "numpy_replay"
        check(tracing.recipe, leaves, wanted, importlib.import_module(f".{side}", __package__))
        drop_copies(tracing.recipe)


def drop_copies(recipe: Recipe) -> None:
    """Gives up goldens that are constants which no other recipe needs: they would only be stored twice."""
    used = {operand for number in recipe.needed() for operand in recipe.nodes[number].operands()}
    for name, node in list(recipe.goldens.items()):
        if recipe.nodes[node].op == "constant" and node not in used:
            del recipe.goldens[name]
            recipe.missing[name] = WHY_UNTRACED
