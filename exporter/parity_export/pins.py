"""Inputs and weights: made once, then the same in every run of a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .folder import OldSet
from .names import check_name
from .points import side_of
from .values import FLOATS, Array, Value


@dataclass
class Pin:
    """An input or a weight of the set."""

    value: Value
    file: str | None = None
    place: str | None = None
    # The SHA-256 of elements that are not a copy: they are in the reference's own memory.
    lent: str | None = None


@dataclass
class Pins:
    """The inputs and weights of a set. A tensor of the committed set is reused if its dtype and shape still match."""

    old: OldSet | None = None
    inputs: dict[str, Pin] = field(default_factory=dict)
    weights: dict[str, Pin] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reused: int = 0

    def of(self, role: str) -> dict[str, Pin]:
        return self.inputs if role == "input" else self.weights

    def take(self, role: str, name: str, value: Value, file: str | None, place: str | None) -> Value:
        """Keeps the tensor, or the committed one instead, and returns the one it kept."""
        check_name(name, role)
        held = self.of(role)
        if name in held:
            raise ValueError(f"{role} `{name}` is saved twice; give the second one another name")
        old = self.old.get(role, name) if self.old is not None else None
        if old is not None and old.kind() != value.kind():
            self.notes.append(
                f"{role} `{name}` is new: the committed one is {old.kind()}, the reference now gives {value.kind()}"
            )
            old = None
        elif old is not None:
            self.reused += 1
        held[name] = Pin(old or value, file, place)
        return held[name].value

    def old_tensor(self, name: str) -> tuple[str, Value | None]:
        """Returns the role and the committed tensor of an input or a weight; no tensor if there is none."""
        if self.old is None:
            return "input", None
        found = self.old.get("input", name)
        return ("input", found) if found is not None else ("weight", self.old.get("weight", name))

    @classmethod
    def reading(cls, folder: Path | None) -> Pins:
        return cls(OldSet(folder) if folder is not None else None)


def varied(tensors: Mapping[str, Value], scale: float) -> dict[str, Value]:
    """Returns the tensors with noise on constant ones, such as fresh biases and norm weights.

    A port could omit a constant bias of zero unnoticed. The noise depends only on the tensor's name, so every machine
    draws the same.
    """
    out = {}
    for name, value in tensors.items():
        wide = value.wide()
        if value.dtype in FLOATS and wide.size > 1 and np.all(wide == wide.flat[0]):
            seed = list(name.encode())
            noise = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).standard_normal(wide.shape)
            out[name] = rounded(wide + scale * noise, value.dtype)
        else:
            out[name] = value
    return out


def rounded(wide: Array, dtype: str) -> Value:
    """Rounds float64 numbers to another float type, ties to even. bfloat16 is rounded through float32."""
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(wide.astype(np.dtype("float32" if dtype == "bfloat16" else dtype)))
    if dtype != "bfloat16":
        return Value(dtype, narrow)
    bits = narrow.view(np.dtype("uint32"))
    half = ((bits >> 16) & 1) + np.dtype("uint32").type(0x7FFF)
    return Value(dtype, np.ascontiguousarray(((bits + half) >> 16).astype(np.dtype("uint16"))))


def sharded(pins: Mapping[str, Pin], shard_bytes: int, stem: str, suffix: str) -> dict[str, str]:
    """Returns the file of each weight, in order. A file holds at most `shard_bytes`, or a single larger weight."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, pin in pins.items():
        length = pin.value.bits.nbytes
        if shards[-1] and size + length > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += length
    if len(shards) == 1:
        return dict.fromkeys(shards[0], f"{stem}{suffix}")
    count = len(shards)
    return {name: f"{stem}-{at + 1:05}-of-{count:05}{suffix}" for at, names in enumerate(shards) for name in names}


def as_tensors(state: Any) -> dict[str, Any]:
    """Returns the tensors of a mapping, or the parameters and persistent buffers of a torch or MLX module, by name.

    Parameters that share storage appear once, under their first name.
    """
    side = side_of(state)
    if side is not None:
        return dict(side.tensors_of(state))
    if isinstance(state, Mapping):
        return dict(state)
    raise TypeError(
        f"`rec.weights` got a {type(state).__name__}, expected a mapping of names to tensors, or a torch or MLX module"
    )
