"""Checks recipes: each must reproduce its golden when it is replayed in float64 from inputs, weights and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .floor import LIMIT, Floor
from .recipe import Recipe
from .values import Array, Value

# Relative distance from the float64 run, as root mean square, that two orders of summing can explain.
EXACT = 1e-9
# Without a float64 run: multiples of the floor, or a relative distance.
FLOORS = 8
LOOSE = 1e-3
WHY_TRUTH = "the recipe does not reproduce the float64 run"
WHY_GOLDEN = "the recipe does not reproduce the golden"


class Wanted:
    """What a golden's recipe must reproduce: its float64 twin, or else the golden itself, with its floor."""

    def __init__(self, golden: Value, truth: Value | None, floor: Floor | None):
        self.truth = truth
        self.value = golden if truth is None else truth
        self.floor = floor

    def problem(self, found: Array) -> str | None:
        """Returns why numbers do not reproduce the golden; none if they do."""
        why = WHY_GOLDEN if self.truth is None else WHY_TRUTH
        expected = self.value.wide()
        if found.shape != expected.shape:
            return f"{why}: its shape is {list(found.shape)}, expected {list(expected.shape)}"
        if not self.value.is_inexact:
            return None if np.array_equal(found, expected) else why
        with np.errstate(all="ignore"):
            usable = np.abs(expected) < LIMIT
            if not np.array_equal(usable, np.abs(found) < LIMIT):
                return why
            error = np.abs(found[usable] - expected[usable])
            size = np.sqrt(np.mean(np.abs(expected[usable]) ** 2)) if error.size else 0.0
            far = np.sqrt(np.mean(error**2)) if error.size else 0.0
        if self.truth is not None:
            return None if far <= EXACT * size or far == 0.0 else f"{why}: it is off by {far / (size or 1):.1e}"
        allowed = max(LOOSE * size, FLOORS * (self.floor.rms if self.floor is not None else 0.0))
        return None if far <= allowed else f"{why}: it is off by {far / (size or 1):.1e}"


def check(
    recipe: Recipe,
    leaves: Mapping[tuple[str, str], Value | Callable[[], Value]],
    wanted: Mapping[str, Wanted],
    side: Any,
) -> None:
    """Replays the recipe with `torch_replay` or `numpy_replay`, and moves goldens that differ to `missing`.

    A golden that needs an unknown value cannot be replayed. Its twin continues in its place, as it does for a golden
    that is not reproduced, so that later recipes are checked all the same.
    """
    names: dict[int, list[str]] = {}
    for name, at in recipe.goldens.items():
        names.setdefault(at, []).append(name)
    order = recipe.needed()
    last: dict[int, int] = {}
    for number in order:
        for operand in recipe.nodes[number].operands():
            last[operand] = number
    values: dict[int, Any] = {}
    for number in order:
        node = recipe.nodes[number]
        made, why = _computed(recipe, number, values, leaves, side)
        own = names.get(number, [])
        if own and (made is not None or why is not None):
            found = side.value_of(made) if made is not None else None
            problems = (why if found is None else wanted[name].problem(found) for name in own)
            why = next((problem for problem in problems if problem is not None), None)
        if why is not None:
            for name in own:
                del recipe.goldens[name]
                recipe.missing[name] = why
            recipe.forget(number, why)
            made = None
        if made is None and own:
            made = side.tensor_of(wanted[own[0]].value)
        if made is not None:
            values[number] = made
        for operand in node.operands():
            if last[operand] == number:
                values.pop(operand, None)


def _computed(
    recipe: Recipe,
    number: int,
    values: Mapping[int, Any],
    leaves: Mapping[tuple[str, str], Value | Callable[[], Value]],
    side: Any,
) -> tuple[Any, str | None]:
    """Returns a node's value, or why it cannot be computed; neither if it needs an unknown value."""
    node = recipe.nodes[number]
    if node.op == "unknown" or any(operand not in values for operand in node.operands()):
        return None, None
    if node.op in ("input", "weight"):
        leaf = leaves[node.op, str(node.attributes["name"])]
        return side.tensor_of(leaf if isinstance(leaf, Value) else leaf()), None
    if node.op == "constant":
        constant = recipe.constants[number]
        return side.tensor_of(constant.truth or constant.value), None
    inputs = [values[operand] if isinstance(operand, int) else operand for operand in node.inputs]
    try:
        return side.replay(node.op, inputs, node.attributes), None
    except Exception as error:
        return None, f"the recipe cannot be replayed: `{node.op}`: {error}"
