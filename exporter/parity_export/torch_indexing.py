"""Rules for indexing: reading and assigning parts of a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .recipe import Unknown
from .torch_rule import axis_of, cast, expanded, permuted, reshaped, rule, sliced


@dataclass
class _Part:
    """What an index does with one axis of the tensor: a slice, one number, a tensor, or nothing but a new axis."""

    kind: str
    start: int = 0
    end: int = 0
    step: int = 1
    tensor: Any = None
    rank: int = 1


@dataclass
class _Index:
    parts: list[_Part] = field(default_factory=list)

    @classmethod
    def of(cls, tensor: Any, index: Any) -> _Index:
        given = list(index) if isinstance(index, tuple) else [index]
        given = [_as_tensor(one) for one in given]
        used = sum(_rank(one) for one in given)
        if not any(one is Ellipsis for one in given):
            given.append(Ellipsis)
        found = cls()
        axis = 0
        for one in given:
            if one is Ellipsis:
                for _ in range(tensor.dim() - used):
                    found.parts.append(_Part("slice", 0, tensor.shape[axis], 1))
                    axis += 1
            elif one is None:
                found.parts.append(_Part("new"))
            elif isinstance(one, slice):
                length = tensor.shape[axis]
                bounds = slice(*(None if bound is None else int(bound) for bound in (one.start, one.stop, one.step)))
                start, end, step = bounds.indices(length)
                # An empty slice has an end before its start otherwise.
                found.parts.append(_Part("slice", start, max(start, end), step))
                axis += 1
            elif isinstance(one, torch.Tensor):
                rank = one.dim() if one.dtype in (torch.bool, torch.uint8) else 1
                found.parts.append(_Part("tensor", tensor=one, rank=rank))
                axis += rank
            else:
                at = int(one) % tensor.shape[axis]
                found.parts.append(_Part("number", at, at + 1))
                axis += 1
        return found

    @property
    def is_basic(self) -> bool:
        return all(part.kind != "tensor" for part in self.parts)


def _as_tensor(one: Any) -> Any:
    if isinstance(one, (bool, np.bool_)):
        raise Unknown("uses a bool as an index, which recipes do not know")
    if isinstance(one, (list, tuple, range, np.ndarray)):
        return torch.as_tensor(list(one) if isinstance(one, range) else one)
    return one


def _rank(one: Any) -> int:
    if one is None or one is Ellipsis:
        return 0
    return one.dim() if isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8) else 1


@rule("__getitem__")
def _getitem(e: Any, input: Any, index: Any) -> int:
    parts = _Index.of(input, index).parts
    node, shape, axis = e.node(input), list(input.shape), 0
    left: list[_Part] = []
    kept: list[int] = []
    for part in parts:
        if part.kind == "new":
            kept.append(1)
            left.append(part)
            continue
        if part.kind == "tensor":
            kept += shape[axis : axis + part.rank]
            axis += part.rank
            left.append(part)
            continue
        node = sliced(e, node, axis, part.start, part.end, part.step, shape[axis])
        shape[axis] = len(range(part.start, part.end, part.step))
        if part.kind == "slice":
            kept.append(shape[axis])
            left.append(part)
        axis += 1
    node = reshaped(e, node, shape, kept)
    return node if all(part.kind != "tensor" for part in left) else _advanced(e, node, kept, left)


def _advanced(e: Any, node: int, shape: list[int], parts: list[_Part]) -> int:
    """Takes elements by tensors of indices. Those of neighbouring axes become one index of the merged axis."""
    at, axes, tensors = 0, [], []
    for part in parts:
        if part.kind == "tensor":
            axes += list(range(at, at + part.rank))
            tensors.append(part)
        at += part.rank if part.kind == "tensor" else 1
    if axes != list(range(axes[0], axes[0] + len(axes))):
        # The result has the indexed axes in front then.
        order = axes + [axis for axis in range(len(shape)) if axis not in axes]
        node, shape, first = permuted(e, node, order), [shape[axis] for axis in order], 0
    else:
        first = axes[0]
    lengths = shape[first : first + len(axes)]
    merged = [*shape[:first], math.prod(lengths), *shape[first + len(axes) :]]
    node = reshaped(e, node, shape, merged)
    if any(part.tensor.dtype in (torch.bool, torch.uint8) for part in tensors):
        if len(tensors) > 1:
            raise Unknown("uses a mask and other indices at once, which recipes do not know")
        # How many elements a mask shows depends on the data, so the places are constants of this run.
        indices = e.constant(tensors[0].tensor.reshape(-1).nonzero().reshape(-1))
    else:
        indices = None
        for part, length in zip(tensors, lengths, strict=True):
            own = _from_zero(e, part.tensor, length)
            scaled = own if indices is None else e.add("mul", [indices, [int(length)]])
            indices = own if indices is None else e.add("add", [scaled, own])
    return int(e.add("take", [node, indices], axis=first))


def _from_zero(e: Any, indices: Any, length: int) -> int:
    """Returns the node of indices, with those that count from the end made positive."""
    node = int(e.node(indices))
    if indices.numel() and bool((indices < 0).any()):
        return int(e.add("mod", [node, [int(length)]]))
    return node


@rule("__setitem__")
def _setitem(e: Any, input: Any, index: Any, value: Any) -> int:
    found = _Index.of(input, index)
    old = e.node(input)
    if not found.is_basic:
        return _masked(e, old, input, found, value)
    axis, slices, cut = 0, [], []
    for part in found.parts:
        if part.kind == "new":
            continue
        if part.step < 0:
            raise Unknown("assigns to a slice from the end to the start, which recipes do not know")
        size = len(range(part.start, part.end, part.step))
        if (part.start, part.end, part.step) != (0, input.shape[axis], 1):
            slices.append([axis, part.start, part.end, part.step])
        cut.append(size)
        axis += 1
    new: Any = e.of(value)
    if isinstance(value, torch.Tensor):
        shown = [
            1 if part.kind == "new" else len(range(part.start, part.end, part.step))
            for part in found.parts
            if part.kind != "number"
        ]
        new = new if value.dtype == input.dtype else cast(e, new, input.dtype)
        # Torch ignores axes of length 1 in front of the value.
        shape = list(value.shape)
        while len(shape) > len(shown):
            shape = shape[1:]
        new = expanded(e, reshaped(e, new, value.shape, shape), shape, shown)
        new = reshaped(e, new, shown, cut)
    if slices:
        return int(e.add("put_slices", [old, new], slices=slices))
    return int(new) if isinstance(new, int) else int(e.add("full", [], shape=list(input.shape), value=new[0]))


def _masked(e: Any, old: int, input: Any, found: _Index, value: Any) -> int:
    """Assigns one number to the elements that a mask shows."""
    parts = [part for part in found.parts if part.kind == "tensor"]
    is_mask = len(parts) == 1 and parts[0].tensor.dtype == torch.bool and found.parts[0].kind == "tensor"
    others = [part for part in found.parts[1:] if part.kind != "slice"]
    whole = all((part.start, part.step) == (0, 1) for part in found.parts[1:])
    if not is_mask or others or not whole or (isinstance(value, torch.Tensor) and value.numel() != 1):
        raise Unknown("assigns to elements at indices, which recipes do not know")
    mask = parts[0].tensor
    shape = [*mask.shape, *[1] * (input.dim() - mask.dim())]
    new = e.of(value)
    if isinstance(value, torch.Tensor):
        new = reshaped(e, new, value.shape, [])
    return int(e.add("where", [reshaped(e, e.node(mask), mask.shape, shape), new, old]))


@rule("index_select")
def _index_select(e: Any, input: Any, dim: Any, index: Any) -> int:
    axis = axis_of(input, dim)
    return int(e.add("take", [e.node(input), e.node(index)], axis=axis))


@rule("gather")
def _gather(e: Any, input: Any, dim: Any, index: Any, *, sparse_grad: bool = False) -> int:
    axis = axis_of(input, dim)
    node, shape = e.node(input), list(input.shape)
    for at, length in enumerate(index.shape):
        if at != axis:
            node = sliced(e, node, at, 0, length, 1, shape[at])
    return int(e.add("gather", [node, e.node(index)], axis=axis))


@rule("take_along_dim")
def _take_along_dim(e: Any, input: Any, indices: Any, dim: Any = None) -> int:
    if dim is None or any(
        a != b for at, (a, b) in enumerate(zip(input.shape, indices.shape, strict=True)) if at != axis_of(input, dim)
    ):
        raise Unknown("uses `torch.take_along_dim` in a way that recipes do not know")
    return int(e.add("gather", [e.node(input), e.node(indices)], axis=axis_of(input, dim)))


@rule("masked_select")
def _masked_select(e: Any, input: Any, mask: Any) -> int:
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    node = expanded(e, e.node(input), input.shape, shape)
    places = mask.expand(shape).reshape(-1).nonzero().reshape(-1)
    return int(e.add("take", [reshaped(e, node, shape, [math.prod(shape)]), e.constant(places)], axis=0))
