"""How exact a golden is: its distance from the same computation in true float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .values import Value, host

# Masks hold values like float32's lowest; a distance between two of those says nothing.
LIMIT = 1e30


@dataclass(frozen=True)
class Floor:
    """How far a golden is from the same computation in true float64."""

    max: float
    rms: float

    @classmethod
    def between(cls, golden: Any, truth: Any) -> "Floor":
        """The floor of `golden`, over the elements of both that are finite and below 1e30."""
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
    """The largest distance and the root mean square of all, over the elements of both that are finite and below 1e30."""
    a, b = left.wide(), right.wide()
    with np.errstate(all="ignore"):
        usable = (np.abs(a) < LIMIT) & (np.abs(b) < LIMIT)
        error = np.abs(a[usable].astype(np.result_type(a, np.dtype("float64"))) - b[usable])
    if error.size == 0:
        return Floor(0.0, 0.0)
    largest = float(error.max())
    if largest == 0.0:
        return Floor(0.0, 0.0)
    # Scaled, so that squares of tiny distances do not vanish; at most the largest, which rounding could exceed.
    rms = largest * float(np.sqrt(np.mean((error / largest) ** 2)))
    return Floor(largest, min(rms, largest))


def is_rounded(truth: Value) -> bool:
    """Whether every element of a float64 tensor is a float32, which a float64 computation hardly ever gives."""
    wide = truth.wide()
    if truth.dtype not in ("float64", "complex128") or wide.size < 16:
        return False
    narrow = np.dtype("complex64" if truth.dtype == "complex128" else "float32")
    with np.errstate(all="ignore"):
        return bool(np.all((wide.astype(narrow).astype(wide.dtype) == wide) | ~np.isfinite(wide)))
