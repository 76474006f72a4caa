"""Recipes: the computation graph by which a reference makes its goldens, and its file `recipes.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from .values import COMPLEX, Value

FILE = "recipes.json"
FORMAT = 1
# The longest file that readers accept.
MAX_BYTES = 64 << 20
# Tensors of unknown origin are stored up to this number of elements.
MAX_CONSTANT = 4096
# A longer run is not traced to its end: its recipes would be too long to read.
MAX_NODES = 1_000_000
MAX_OPERANDS = 4096

_LEAVES = ("input", "weight", "constant")

# An operand: the number of an earlier node, a literal number in a list, or none.
Operand: TypeAlias = int | list[Any] | None


class Unknown(Exception):
    """An operation that recipes cannot describe. The text is the reason."""


@dataclass
class Node:
    """One value of the graph. `place` is a source file and a line."""

    op: str
    inputs: list[Operand]
    attributes: dict[str, Any]
    place: tuple[str, int] | None = None

    def operands(self) -> Iterable[int]:
        """Returns the nodes that this one is computed from."""
        return (operand for operand in self.inputs if isinstance(operand, int))


@dataclass
class Constant:
    """A tensor without history. `where` identifies it in other runs of the same reference."""

    value: Value
    where: tuple[Any, ...]
    truth: Value | None = None


@dataclass
class Recipe:
    """The graph of one run, and the node of each golden. Nodes only refer to earlier ones."""

    nodes: list[Node] = field(default_factory=list)
    goldens: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    constants: dict[int, Constant] = field(default_factory=dict)
    _leaves: dict[Any, int] = field(default_factory=dict)
    _met: dict[Any, int] = field(default_factory=dict)

    def add(
        self, op: str, inputs: Iterable[Operand], attributes: Mapping[str, Any], place: tuple[str, int] | None = None
    ) -> int:
        """Adds a node and returns its number."""
        inputs = list(inputs)
        if len(inputs) > MAX_OPERANDS:
            raise Unknown(f"joins {len(inputs)} tensors, more than recipes can hold")
        if len(self.nodes) >= MAX_NODES:
            return self._leaf("unknown", {"why": f"the reference has more than {MAX_NODES} operations"})
        self.nodes.append(Node(op, inputs, dict(attributes), place))
        return len(self.nodes) - 1

    def leaf(self, role: str, name: str) -> int:
        """Returns the node of an input or a weight."""
        return self._leaf(role, {"name": name})

    def constant(self, value: Value, place: tuple[str, int] | None) -> int:
        """Returns a node for a tensor without history: a `full` if all its elements are the same whole number."""
        wide = value.wide().reshape(-1)
        if wide.size and value.dtype not in COMPLEX and np.all(wide == wide[0]):
            number = number_of(wide[0])
            # Another number may have been rounded, so its float64 twin is wanted too.
            if isinstance(number, (int, str)) or number % 1 == 0:
                return self.add("full", [], {"shape": list(value.shape), "value": number}, place)
        seen = self._met.get((place, value.shape), 0)
        self._met[place, value.shape] = seen + 1
        node = self.add("constant", [], {}, place)
        self.constants[node] = Constant(value, (place, value.shape, seen))
        return node

    def forget(self, node: int, why: str) -> None:
        """Replaces a node by an unknown value."""
        self.nodes[node] = Node("unknown", [], {"why": why}, self.nodes[node].place)
        self.constants.pop(node, None)

    def needed(self) -> list[int]:
        """Returns the nodes that some golden needs, in order."""
        return self._before(self.goldens.values())

    def has_gap(self, node: int) -> bool:
        """Whether a node, or one that it is computed from, is unknown."""
        return any(self.nodes[one].op == "unknown" for one in self._before([node]))

    def _before(self, nodes: Iterable[int]) -> list[int]:
        """Returns nodes and those that they are computed from, in order."""
        found: set[int] = set()
        ahead = list(nodes)
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead += self.nodes[node].operands()
        return sorted(found)

    def blocked(self) -> dict[str, str]:
        """Returns the goldens that no search can replay from inputs and weights alone, each with the reason."""
        why: dict[int, str] = {}
        for number in self.needed():
            node = self.nodes[number]
            if node.op == "unknown":
                why[number] = str(node.attributes["why"])
            else:
                reasons = [why[operand] for operand in node.operands() if operand in why]
                if reasons:
                    why[number] = reasons[0]
        return {name: why[node] for name, node in self.goldens.items() if node in why}

    def _leaf(self, op: str, attributes: dict[str, Any]) -> int:
        key = (op, *attributes.values())
        if key not in self._leaves:
            self.nodes.append(Node(op, [], attributes))
            self._leaves[key] = len(self.nodes) - 1
        return self._leaves[key]


def written(recipe: Recipe) -> tuple[str, dict[str, Value]]:
    """Returns the text of `recipes.json` and the constants by name. Nodes that no golden needs are left out."""
    numbers: dict[int, int] = {}
    constants: dict[str, Value] = {}
    names: dict[tuple[str, str], str] = {}
    sources: dict[str, int] = {}
    lines: list[str] = []
    for old in _order(recipe):
        node = recipe.nodes[old]
        attributes = node.attributes
        if node.op == "constant":
            value = recipe.constants[old].value
            key = (value.kind(), value.sha256())
            name = names.setdefault(key, f"constant.{len(names)}")
            constants[name] = value
            attributes = {"name": name}
        inputs = [numbers[operand] if isinstance(operand, int) else operand for operand in node.inputs]
        parts: list[Any] = [node.op, inputs, attributes]
        if node.place is not None:
            parts += [sources.setdefault(node.place[0], len(sources)), node.place[1]]
        numbers[old] = len(lines)
        lines.append(_json(parts))
    goldens = {name: numbers[node] for name, node in recipe.goldens.items()}
    head = f' "format": {FORMAT},\n "sources": {_json(list(sources))},\n'
    body = ' "nodes": [' + ("\n  " + ",\n  ".join(lines) + "\n ],\n" if lines else "],\n")
    tail = f' "goldens": {_mapping(goldens)},\n "missing": {_mapping(recipe.missing)}\n'
    return "{\n" + head + body + tail + "}\n", constants


def _order(recipe: Recipe) -> list[int]:
    """Returns the nodes that some golden needs. Inputs, weights and constants come where they are first used."""
    needed, goldens = recipe.needed(), set(recipe.goldens.values())
    order: dict[int, None] = {}
    for number in needed:
        for operand in recipe.nodes[number].operands():
            if recipe.nodes[operand].op in _LEAVES:
                order.setdefault(operand)
        if recipe.nodes[number].op not in _LEAVES or number in goldens:
            order.setdefault(number)
    return list(order)


def _mapping(entries: Mapping[str, Any]) -> str:
    if not entries:
        return "{}"
    return "{\n  " + ",\n  ".join(f"{_json(name)}: {_json(entry)}" for name, entry in entries.items()) + "\n }"


def _json(thing: Any) -> str:
    return json.dumps(_plain(thing), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(thing: Any) -> Any:
    if isinstance(thing, (list, tuple)):
        return [_plain(part) for part in thing]
    if isinstance(thing, dict):
        return {key: _plain(part) for key, part in thing.items()}
    return thing


def number_of(value: Any) -> Any:
    """Returns a Python number as the file holds it: numbers that JSON does not have become text."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isfinite(number):
            return number
        return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    raise Unknown(f"uses a number of type `{type(value).__name__}`, which recipes do not know")


def from_number(number: Any) -> Any:
    """Returns the number that the file holds, which may be text."""
    return float(number) if isinstance(number, str) else number
