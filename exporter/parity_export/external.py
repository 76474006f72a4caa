"""External weights: files that the reference reads and the set does not hold.

`cargo xtask regenerate-fixtures` finds and verifies the files of a spec's `weights.external`, and lists them in the
file that `PARITY_EXTERNAL` names. The manifest records their names, sizes and checksums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .files import SAFETENSORS
from .values import STORED, Value

_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class Place:
    """Where a tensor is in a file."""

    path: Path
    start: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ExternalFiles:
    """The files of one spec's external weights."""

    paths: tuple[Path, ...]
    # The entry of each file in the manifest: `name`, `size` and `sha256`.
    records: tuple[dict[str, Any], ...]

    @cached_property
    def places(self) -> dict[str, Place]:
        """Where each tensor is, from the headers alone. Tensors of other dtypes than ours are left out."""
        found: dict[str, Place] = {}
        for path in self.paths:
            with open(path, "rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > _LONGEST_HEADER:
                    raise ValueError(f"`{path}` is no safetensors file: its header has {length} bytes")
                header = json.loads(file.read(length))
            for name, entry in header.items():
                dtype = SAFETENSORS.get(entry.get("dtype", ""))
                if name != "__metadata__" and dtype is not None:
                    found[name] = Place(path, 8 + length + entry["data_offsets"][0], dtype, tuple(entry["shape"]))
        return found

    def value(self, name: str) -> Value:
        """Returns a tensor. Only its own bytes are read."""
        place = self.places[name]
        stored = STORED[place.dtype].newbyteorder("<")
        count = int(np.prod(place.shape, dtype=np.int64))
        bits = np.fromfile(place.path, dtype=stored, count=count, offset=place.start)
        return Value(place.dtype, bits.reshape(place.shape))


def read() -> ExternalFiles | None:
    """Returns the files that `PARITY_EXTERNAL` lists, or none if it is not set."""
    listed = os.environ.get("PARITY_EXTERNAL")
    if not listed:
        return None
    try:
        found = json.loads(Path(listed).read_text(encoding="utf-8"))
        paths = tuple(Path(one["path"]) for one in found)
        records = tuple({key: one[key] for key in ("name", "size", "sha256")} for one in found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        wanted = '[{"name": "model.safetensors", "path": "/…", "size": 8, "sha256": "…"}]'
        raise ValueError(
            f"PARITY_EXTERNAL names `{listed}`, expected JSON such as `{wanted}` there: {error}"
        ) from error
    return ExternalFiles(paths, records)


def required(files: ExternalFiles | None) -> ExternalFiles:
    """Returns the files, or raises LookupError if the script was not told any."""
    if files is None:
        raise LookupError(
            "the spec of this script has no `weights.external`, or the script was not started by "
            "`cargo parity regenerate-fixtures`; set PARITY_EXTERNAL to run it by hand"
        )
    return files


def known(files: ExternalFiles, tensors: Mapping[str, Any], prefix: str) -> set[str]:
    """Returns the names of the tensors that the files hold with the same shape."""
    own = {name for name, tensor in tensors.items() if _shape(files, prefix + name) == tuple(tensor.shape)}
    if tensors and not own:
        first, other = next(iter(tensors)), next(iter(files.places), "nothing")
        raise ValueError(
            f"no tensor of `rec.external_weights` is in the external files: the first is `{prefix}{first}`, the files "
            f"begin with `{other}`; pass the `prefix` that the files have"
        )
    return own


def _shape(files: ExternalFiles, name: str) -> tuple[int, ...] | None:
    place = files.places.get(name)
    return None if place is None else place.shape
