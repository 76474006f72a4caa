"""The registry of rules, and what rules have in common.

A rule has the signature of the torch function it stands for, after the tracer. Python binds the arguments of the call
to it, so a call with arguments that the rule does not take is unknown. It returns one node per tensor of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from .recipe import Unknown
from .values import STORED

RULES: dict[str, Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., Any])


def rule(names: str) -> Callable[[F], F]:
    """Makes a function the rule of these names of torch functions, methods and properties."""

    def named(function: F) -> F:
        for name in names.split():
            RULES[name] = function
        return function

    return named


def is_bool(operand: Any) -> bool:
    """Whether an operand is a bool or a tensor of bools."""
    return isinstance(operand, bool) or (isinstance(operand, torch.Tensor) and operand.dtype == torch.bool)


def is_complex(operand: Any) -> bool:
    """Whether an operand is a complex number or a tensor of them."""
    return isinstance(operand, complex) or (isinstance(operand, torch.Tensor) and operand.dtype.is_complex)


def cast(e: Any, node: Any, dtype: Any) -> int:
    """Adds a cast to a torch dtype. Sets do not hold every dtype."""
    name = str(dtype).removeprefix("torch.")
    if name not in STORED:
        raise Unknown(f"casts to {name}, which recipes do not know")
    return int(e.add("cast", [node], dtype=name))


def in_dtype(e: Any, tensor: Any, dtype: Any) -> int:
    """Returns the node of a tensor, with a cast if it has another dtype."""
    node = int(e.node(tensor))
    if dtype is None or dtype == tensor.dtype:
        return node
    if dtype == torch.complex128:
        # Sets do not hold it, and nothing is rounded.
        return node if is_complex(tensor) else int(e.add("complex", [node, [0.0]]))
    return cast(e, node, dtype)


def axis_of(tensor: Any, dim: Any) -> int:
    """Returns an axis as a number from 0."""
    return int(int(dim) % max(tensor.dim(), 1))


def axes_of(tensor: Any, dim: Any) -> list[int]:
    """Returns axes as sorted numbers from 0; all of them for none and for an empty list."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(tensor.dim()))
    return sorted(axis_of(tensor, one) for one in (dim if isinstance(dim, (list, tuple)) else [dim]))


def reshaped(e: Any, node: int, before: Any, after: Any) -> int:
    """Adds a `reshape`, unless the shape stays the same."""
    return node if list(before) == list(after) else int(e.add("reshape", [node], shape=list(after)))


def permuted(e: Any, node: int, axes: list[int]) -> int:
    """Adds a `permute`, unless the order stays the same."""
    return node if axes == sorted(axes) else int(e.add("permute", [node], axes=axes))


def expanded(e: Any, node: int, before: Any, after: Any) -> int:
    """Adds an `expand`, unless the shape stays the same. Axes in front are added first."""
    before, after = list(before), list(after)
    if before == after:
        return node
    node = reshaped(e, node, before, [1] * (len(after) - len(before)) + before)
    return node if [1] * (len(after) - len(before)) + before == after else int(e.add("expand", [node], shape=after))


def sliced(e: Any, node: int, axis: int, start: int, end: int, step: int, length: int) -> int:
    """Adds a `slice`, unless it takes everything."""
    if (start, end, step) == (0, length, 1):
        return node
    return int(e.add("slice", [node], axis=axis, start=start, end=end, step=step))
