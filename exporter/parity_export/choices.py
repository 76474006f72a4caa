"""Choices of a reference: probabilities of which only the largest are stored, and ids that every run goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .places import caller
from .values import FLOATS, Array, Value, hand_back, host

if TYPE_CHECKING:
    from .recorder import Recorder

# More ids would make a golden that is no smaller than the logits of most models.
MOST = 65_536


def distribution(recorder: Recorder, name: str, logits: Any, top: int | None) -> Any:
    """Saves logits as a golden, or with `top` the log-probabilities of the most probable ids. Returns the logits."""
    place = caller(recorder.sources)
    if top is None:
        return recorder.save(name, logits, place=place)
    with recorder.hooks.quiet():
        value = host(logits, f"golden `{name}`")
    if value.dtype not in FLOATS or not value.shape:
        raise ValueError(
            f"golden `{name}` is {value.kind()}, but `rec.distribution` needs rows of floating-point logits"
        )
    if not 2 <= top <= min(MOST, value.shape[-1]):
        most = min(MOST, value.shape[-1])
        raise ValueError(
            f"golden `{name}` has `top={top}`, expected 2 to {most}: each row has {value.shape[-1]} logits"
        )
    first = recorder.first_value(recorder.full(name))
    # Other runs measure the same ids. Two nearly equal logits may be in another order there.
    ids = None if first is None else first.bits[..., :-1, 1].astype(np.dtype("int64"))
    if ids is not None and ids.shape != (*value.shape[:-1], top):
        ids = None
    recorder.save(name, top_rows(value.wide(), top, ids), place=place)
    return logits


def top_rows(logits: Array, top: int, ids: Array | None = None) -> Array:
    """Returns `[..., top + 1, 2]`: pairs of log-probability and id, then the log-sum-exp and the number of all ids."""
    with np.errstate(all="ignore"):
        largest = logits.max(axis=-1, keepdims=True)
        total = largest + np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
    if ids is None:
        ids = np.argsort(-logits, axis=-1, kind="stable")[..., :top]
    scores = np.take_along_axis(logits, ids, axis=-1) - total
    pairs = np.stack([scores, ids.astype(np.dtype("float64"))], axis=-1)
    last = np.stack([total, np.full_like(total, logits.shape[-1])], axis=-1)
    return np.asarray(np.concatenate([pairs, last], axis=-2), dtype=np.dtype("float64"))


def choice(recorder: Recorder, name: str, ids: Any) -> Any:
    """Saves ids that were chosen, and returns those to go on with: those of the first run, in every run."""
    recorder.save(name, ids, place=caller(recorder.sources))
    with recorder.hooks.quiet():
        value = host(ids, f"golden `{name}`")
    if value.is_inexact or value.dtype == "bool":
        raise ValueError(f"golden `{name}` is {value.kind()}, but `rec.choice` needs ids, which are integers")
    full = recorder.full(name)
    key = full, recorder.choices_met.get(full, 0)
    recorder.choices_met[full] = key[1] + 1
    if recorder.is_first:
        recorder.chosen[key] = value
    # With another input, the reference may choose otherwise.
    chosen: Value | None = None if recorder.is_first or recorder.changed_inputs else recorder.chosen.get(key)
    return ids if chosen is None or chosen.shape != value.shape else hand_back(chosen, ids)
