"""How one view of a storage follows from another: cuts, a permutation, a new shape and repeated elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Add: TypeAlias = Callable[..., int]


@dataclass(frozen=True)
class Geometry:
    """The elements of a storage that a tensor shows. Axes of length 1 have stride 0, whatever the tensor says."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    flags: tuple[bool, ...] = ()

    @classmethod
    def of(cls, tensor: Any) -> Geometry:
        shape = tuple(tensor.shape)
        strides = tuple(0 if size == 1 else stride for size, stride in zip(shape, tensor.stride(), strict=True))
        flags = (bool(tensor.is_conj()), bool(tensor.is_neg()))
        return cls(int(tensor.storage_offset()), shape, strides, tensor.dtype, flags)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether the elements lie one after the other, in row-major order."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True


@dataclass(frozen=True)
class View:
    """The way from a base tensor to a view: slices `[axis, start, end, step]`, then axes, a shape and an expansion."""

    base: tuple[int, ...]
    slices: tuple[tuple[int, int, int, int], ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    expanded: tuple[int, ...]

    @property
    def cut(self) -> tuple[int, ...]:
        """The shape after the slices."""
        sizes = list(self.base)
        for axis, start, end, step in self.slices:
            sizes[axis] = len(range(start, end, step))
        return tuple(sizes)

    def read(self, add: Add, node: int) -> int:
        """Adds the nodes that make the view from its base, and returns the last one."""
        for axis, start, end, step in self.slices:
            node = add("slice", [node], axis=axis, start=start, end=end, step=step)
        shape = self.cut
        if self.axes != tuple(range(len(self.axes))):
            node = add("permute", [node], axes=list(self.axes))
            shape = tuple(shape[axis] for axis in self.axes)
        if self.shape != shape:
            node = add("reshape", [node], shape=list(self.shape))
        if self.expanded != self.shape:
            node = add("expand", [node], shape=list(self.expanded))
        return node

    def write(self, add: Add, node: int, value: int) -> int:
        """Adds the nodes that put a value of the view into its base, and returns the new base."""
        cut = self.cut
        permuted = tuple(cut[axis] for axis in self.axes)
        if self.shape != permuted:
            value = add("reshape", [value], shape=list(permuted))
        if self.axes != tuple(range(len(self.axes))):
            back = sorted(range(len(self.axes)), key=lambda at: self.axes[at])
            value = add("permute", [value], axes=back)
        if not self.slices:
            return value
        return add("put_slices", [node, value], slices=[list(part) for part in self.slices])


def relate(base: Geometry, view: Geometry) -> View | None:
    """Returns the way from a base to a view of the same storage; none if slices, axes and shapes do not lead there."""
    if base.dtype != view.dtype or base.flags != view.flags:
        return None
    if base.offset == view.offset and base.is_whole and view.is_whole and base.count == view.count:
        return View(base.shape, (), tuple(range(len(base.shape))), view.shape, view.shape)
    left = view.offset - base.offset
    order = sorted((axis for axis, size in enumerate(base.shape) if size > 1), key=lambda axis: -base.strides[axis])
    if left < 0 or not _is_nested(base, order):
        return None
    starts = dict.fromkeys(range(len(base.shape)), 0)
    for axis in order:
        starts[axis] = min(left // base.strides[axis], base.shape[axis] - 1)
        left -= starts[axis] * base.strides[axis]
    if left:
        return None
    shown: dict[int, tuple[int, int]] = {}
    axes: list[int] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1 or stride == 0:
            continue
        fitting = [
            axis
            for axis in order
            if axis not in shown
            and stride % base.strides[axis] == 0
            and starts[axis] + (size - 1) * (stride // base.strides[axis]) < base.shape[axis]
        ]
        if not fitting:
            return None
        shown[fitting[0]] = (size, stride // base.strides[fitting[0]])
        axes.append(fitting[0])
    slices = []
    for axis, length in enumerate(base.shape):
        size, step = shown.get(axis, (1, 1))
        start = starts[axis]
        if (start, size, step) != (0, length, 1):
            slices.append((axis, start, start + (size - 1) * step + 1, step))
    # Axes of length 1 can lie anywhere, so they need no permutation of their own.
    rest = [axis for axis in range(len(base.shape)) if axis not in shown]
    axes = [*axes, *rest] if axes != sorted(axes) else list(range(len(base.shape)))
    shape = tuple(1 if stride == 0 else size for size, stride in zip(view.shape, view.strides, strict=True))
    return View(base.shape, tuple(slices), tuple(axes), shape, view.shape)


def _is_nested(base: Geometry, order: list[int]) -> bool:
    """Whether every step along an axis is longer than all shorter axes together, so no two elements overlap."""
    reach = 0
    for axis in reversed(order):
        if base.strides[axis] <= reach:
            return False
        reach += (base.shape[axis] - 1) * base.strides[axis]
    return True
