"""The precision of a golden: its distance from the same computation in true float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .lint import Lint
from .values import Value, host

# Masks hold values such as the lowest float32. A distance between two of those has no meaning.
LIMIT = 1e30


@dataclass(frozen=True)
class Floor:
    """Largest distance and root mean square distance of a golden from the same computation in true float64."""

    max: float
    rms: float

    @classmethod
    def between(cls, golden: Any, truth: Any) -> Floor:
        """Returns the floor of `golden`, over the elements where both tensors are below 1e30 in magnitude."""
        expected, exact = host(golden, "golden"), host(truth, "truth")
        if exact.dtype not in ("float64", "complex128") or expected.shape != exact.shape:
            raise ValueError(
                f"a floor needs a float64 truth of the golden's shape {expected.shape}, "
                f"but got {exact.dtype} {exact.shape}"
            )
        return distance(expected, exact)

    def json(self) -> dict[str, float]:
        return {"max": self.max, "rms": self.rms}


def distance(left: Value, right: Value) -> Floor:
    """Returns the largest and the root mean square distance, over elements where both are below 1e30 in magnitude."""
    a, b = left.wide(), right.wide()
    with np.errstate(all="ignore"):
        usable = (np.abs(a) < LIMIT) & (np.abs(b) < LIMIT)
        error = np.abs(a[usable].astype(np.result_type(a, np.dtype("float64"))) - b[usable])
    if error.size == 0:
        return Floor(0.0, 0.0)
    largest = float(error.max())
    if largest == 0.0:
        return Floor(0.0, 0.0)
    # Scaling keeps the squares of tiny distances from vanishing. Rounding could lift the result above the largest.
    rms = largest * float(np.sqrt(np.mean((error / largest) ** 2)))
    return Floor(largest, min(rms, largest))


def floor_of(lint: Lint, name: str, golden: Value, truth: Value) -> Floor | str:
    """Returns the floor of a golden of floats, or why `truth` gives none. Reports a truth that was rounded."""
    if truth.dtype not in ("float64", "complex128"):
        return f"the float64 run gives {truth.dtype}"
    if truth.shape != golden.shape:
        return f"the float64 run gives shape {list(truth.shape)}"
    floor = distance(golden, truth)
    if floor.max > 0 and is_rounded(truth):
        message = f"golden `{name}` holds only float32 numbers in the float64 run, so its floor is unreliable"
        lint.add("truth-rounded", name, message)
    return floor


def is_rounded(truth: Value) -> bool:
    """Whether every element of a float64 tensor fits a float32, which a float64 computation hardly ever gives."""
    wide = truth.wide()
    if truth.dtype not in ("float64", "complex128") or wide.size < 16:
        return False
    narrow = np.dtype("complex64" if truth.dtype == "complex128" else "float32")
    with np.errstate(all="ignore"):
        return bool(np.all((wide.astype(narrow).astype(wide.dtype) == wide) | ~np.isfinite(wide)))
