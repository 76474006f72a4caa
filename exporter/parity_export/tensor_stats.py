"""Statistics of one tensor, by the rules of the port's side, and its elements as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .values import COMPLEX, Array, Value

# Elements at or above this magnitude are masks. They count in `min` and `max`, not in `mean` and `std`.
HUGE = 1e30
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Statistics:
    """Statistics of a tensor; for complex tensors, those of the moduli. They are NaN if no element counts."""

    min: float
    max: float
    absmax: float
    mean: float
    std: float
    nan: int
    positive_infinity: int
    negative_infinity: int
    huge: int

    @property
    def is_finite(self) -> bool:
        return self.nan + self.positive_infinity + self.negative_infinity == 0

    def json(self) -> dict[str, Any]:
        return {name: _json(number) for name, number in asdict(self).items()}


def statistics(value: Value) -> Statistics:
    """Returns the statistics of a tensor. Widens a part of the elements at a time, so it needs little memory.

    `min`, `max` and `absmax` are those of finite elements, `mean` and the population's `std` those below 1e30.
    """
    low, high = math.inf, -math.inf
    count, total, squares = 0, 0.0, 0.0
    finite_count = nan = positive = negative = 0
    flat = value.bits.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = _real(Value(value.dtype, flat[start : start + _CHUNK]))
        nan += int(np.count_nonzero(np.isnan(part)))
        positive, negative = positive + int(np.sum(part == np.inf)), negative + int(np.sum(part == -np.inf))
        finite = part[np.isfinite(part)]
        if not finite.size:
            continue
        finite_count += finite.size
        low, high = min(float(finite.min()), low), max(float(finite.max()), high)
        usual = finite[np.abs(finite) < HUGE]
        if not usual.size:
            continue
        # Chan's rule joins the parts: sums of squares around zero would lose the digits of a small deviation.
        mean = float(usual.mean())
        away = mean - (total / count if count else mean)
        squares += float(np.sum((usual - mean) ** 2)) + away * away * count * usual.size / (count + usual.size)
        count, total = count + usual.size, total + float(usual.sum())
    if not finite_count:
        low = high = math.nan
    mean, std = (total / count, math.sqrt(squares / count)) if count else (math.nan, math.nan)
    most = max(abs(low), abs(high))
    return Statistics(low, high, most, mean, std, nan, positive, negative, finite_count - count)


def _real(value: Value) -> Array:
    wide = value.wide()
    return np.abs(wide) if value.dtype in COMPLEX else wide.astype(np.dtype("float64"))


def elements(array: Array) -> Any:
    """Returns the elements as a list of JSON numbers: NaN and infinity as words, a complex number as its two parts."""
    flat = array.reshape(-1).tolist()
    return [_json(part) for one in flat for part in ((one.real, one.imag) if isinstance(one, complex) else (one,))]


def _json(number: Any) -> Any:
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
    return number
