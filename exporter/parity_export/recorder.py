"""One fixture set: inputs, weights and goldens of one reference run, and the manifest that vouches for them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Mapping

import numpy as np
from safetensors.numpy import save

from .manifest import FORMAT, made_by_key, tensor_sha256

FILES = {"golden": "goldens.safetensors", "input": "inputs.safetensors", "weight": "weights.safetensors"}


@dataclass(frozen=True)
class Floor:
    """How far a golden is from the same computation in true float64."""

    max: float
    rms: float

    @classmethod
    def between(cls, golden: np.ndarray, truth: np.ndarray) -> "Floor":
        """The floor of `golden`, over the elements of both that are finite and below 1e30."""
        if truth.dtype != np.float64 or golden.shape != truth.shape:
            raise ValueError(
                f"a floor needs a float64 truth of the golden's shape {golden.shape}, "
                f"but got {truth.dtype} {truth.shape}"
            )
        wide = golden.astype(np.float64)
        usable = (np.abs(wide) < 1e30) & (np.abs(truth) < 1e30)
        error = np.abs(wide[usable] - truth[usable])
        if error.size == 0:
            return cls(0.0, 0.0)
        return cls(float(error.max()), float(np.sqrt(np.mean(error**2))))


class Recorder:
    """Collects tensors and, when its `with` block ends without an error, replaces `out_dir` by the finished set.

    `reference` is the spec's own `reference` block. `cargo xtask` passes it in `PARITY_REFERENCE`, as canonical
    JSON, which wins over the argument: the manifest then names exactly what the spec says.
    """

    def __init__(self, out_dir: str | os.PathLike[str], *, script: str | os.PathLike[str], reference: Mapping[str, Any]):
        self._out_dir = Path(out_dir)
        self._script = Path(script).read_bytes()
        given = os.environ.get("PARITY_REFERENCE")
        self._reference: dict[str, Any] = json.loads(given) if given else dict(reference)
        self._canonical = given
        self._arrays: dict[str, dict[str, np.ndarray]] = {role: {} for role in FILES}
        self._entries: list[dict[str, Any]] = []
        self._hits: dict[str, int] = {}

    @property
    def params(self) -> dict[str, Any]:
        """The reference's parameters, which a script must compute with: they are what its manifest will claim."""
        return self._reference.get("params", {})

    def input(self, name: str, array: np.ndarray) -> np.ndarray:
        """Saves a tensor that the port is given, and hands it back."""
        self._add("input", name, array)
        return array

    def weights(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Saves the parameters that the port must load."""
        for name, array in arrays.items():
            self._add("weight", name, array)

    def save(self, name: str, array: np.ndarray, *, floor: Floor | None = None, place: str | None = None) -> None:
        """Saves the golden of a checkpoint; goldens are numbered in the order of these calls.

        A name that was saved before is the next hit of the same tap: `name@1`, `name@2` and so on.
        """
        hit = self._hits.get(name, 0)
        entry = self._add("golden", f"{name}@{hit}" if hit else name, array)
        entry["sequence"] = len(self._arrays["golden"]) - 1
        self._hits[name] = hit + 1
        if floor is not None:
            entry["floor"] = {"max": floor.max, "rms": floor.rms}
        if place is not None:
            entry["place"] = place

    def _add(self, role: str, name: str, array: np.ndarray) -> dict[str, Any]:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{role} `{name}` is a {type(array).__name__}, expected a numpy array")
        if name in self._arrays[role]:
            raise ValueError(f"{role} `{name}` was saved before")
        data = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C", copy=True)
        self._arrays[role][name] = data
        entry: dict[str, Any] = {
            "name": name,
            "role": role,
            "file": FILES[role],
            "dtype": data.dtype.name,
            "shape": list(data.shape),
            "sha256": tensor_sha256(data),
        }
        self._entries.append(entry)
        return entry

    def manifest(self) -> dict[str, Any]:
        """The manifest of what was saved so far."""
        packages = {name: metadata.version(name) for name in ("numpy", "safetensors")}
        return {
            "format": FORMAT,
            "made_by": {"key": made_by_key(self._canonical or self._reference, self._script), **self._reference},
            "provenance": {
                "python": platform.python_version(),
                "platform": f"{sys.platform} {platform.machine()}",
                "packages": packages,
            },
            "tensors": self._entries,
        }

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._write()

    def _write(self) -> None:
        nested = [path.parent for path in self._out_dir.glob("*/**/manifest.json")]
        if nested:
            raise FileExistsError(f"`{self._out_dir}` has another set inside it, `{nested[0]}`, and would take it along")
        self._out_dir.parent.mkdir(parents=True, exist_ok=True)
        # Made aside, on the same disk, so that a run that dies leaves the old set whole.
        aside = self._out_dir.with_name(f".{self._out_dir.name}-{os.getpid()}")
        old = aside.with_name(aside.name + ".old")
        aside.mkdir()
        try:
            for role, arrays in self._arrays.items():
                if arrays:
                    (aside / FILES[role]).write_bytes(save(arrays))
            text = json.dumps(self.manifest(), indent=1, ensure_ascii=False)
            (aside / "manifest.json").write_text(text + "\n", encoding="utf-8")
            if self._out_dir.exists():
                self._out_dir.rename(old)
            try:
                aside.rename(self._out_dir)
            except OSError:
                if old.exists():
                    old.rename(self._out_dir)
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
