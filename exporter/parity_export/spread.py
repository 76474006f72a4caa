"""The spread of goldens: the distance between the results of different correct kernels of one library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import files
from .floor import Floor, distance
from .recorder import Recorder
from .values import Value

# Set only for the child processes that `measure` starts.
_VARIABLE = "PARITY_VARIANT"


def variant() -> dict[str, Any] | None:
    """Returns the kernel choice of this child process; none in an ordinary run."""
    text = os.environ.get(_VARIABLE)
    return json.loads(text) if text else None


def variants() -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """Returns the kernel choices by name: variables for the environment, and settings for torch."""
    many = max(2, os.cpu_count() or 2)
    threads = {name: str(many) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    found: dict[str, tuple[dict[str, str], dict[str, Any]]] = {"several threads": (threads, {"threads": many})}
    if "torch" in sys.modules:
        found["scalar kernels"] = ({"ATEN_CPU_CAPABILITY": "default"}, {})
        found["without oneDNN"] = ({}, {"mkldnn": False})
        found["plain attention"] = ({}, {"sdpa": "math"})
    return found


def apply(stack: ExitStack) -> None:
    """Makes torch use the kernels of this child process until `stack` closes."""
    chosen = variant() or {}
    import torch

    if "threads" in chosen:
        torch.set_num_threads(chosen["threads"])
    if chosen.get("mkldnn") is False:
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
    if chosen.get("sdpa") == "math":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        stack.enter_context(sdpa_kernel(SDPBackend.MATH))


def measure(recorder: Recorder, passes: list[str]) -> None:
    """Runs the script in a child process per kernel choice, and adds the largest distances to the goldens."""
    from .finish import write

    with tempfile.TemporaryDirectory(prefix="parity-spread-") as scratch:
        base = Path(scratch, "base")
        target, settings = recorder.out_dir, recorder.settings
        recorder.out_dir, recorder.settings = base, replace(settings, root=None)
        try:
            write(recorder, passes)
        finally:
            recorder.out_dir, recorder.settings = target, settings
        for index, (name, (environment, chosen)) in enumerate(variants().items()):
            out = Path(scratch, str(index))
            _child(recorder, name, base, out, environment, chosen)
            _compare(recorder, out)
            passes.append(name)


def _child(
    recorder: Recorder, name: str, base: Path, out: Path, environment: dict[str, str], chosen: dict[str, Any]
) -> None:
    own = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PARITY_SPREAD", "PARITY_REPORT", "PARITY_ROOT", "PARITY_NEW_INPUTS")
    }
    own |= environment
    own |= {_VARIABLE: json.dumps(chosen), "PARITY_REUSE": str(base), "PARITY_LINT": "report"}
    own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(recorder.script), str(out)], env=own, check=False, capture_output=True, text=True
    )
    if done.returncode:
        last = "; ".join(done.stderr.strip().splitlines()[-3:])
        raise RuntimeError(
            f"`{recorder.script}` fails with {name}: {last}; run it without `--spread`, or fix the cause"
        )


def _compare(recorder: Recorder, out: Path) -> None:
    entries = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["tensors"]
    held: dict[str, dict[str, Value]] = {}
    found: dict[str, Value] = {}
    for entry in entries:
        if entry["role"] == "golden":
            file = entry["file"]
            if file not in held:
                held[file] = files.read(out / file)
            found[entry["name"]] = held[file]["" if file.endswith(".npy") else entry["name"]]
    for name, golden in recorder.goldens.items():
        other = found.get(name)
        if other is None or other.shape != golden.value.shape or not golden.value.is_inexact:
            continue
        far, before = distance(golden.value, other), golden.spread or Floor(0.0, 0.0)
        golden.spread = Floor(max(far.max, before.max), max(far.rms, before.rms))
