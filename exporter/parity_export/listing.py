"""What a reference would record: for `--list`, and for specs that `cargo parity new-spec --from` writes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .lint import Finding, look_at_values
from .recorder import Recorder
from .spec_params import params_of_script
from .values import Value


def listing(recorder: Recorder, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns everything that one run recorded, as JSON: params, points, goldens in call order, inputs and weights.

    `finding` is the kind of a finding of the lint that the script does not accept. `why` is its text. `unmatched` has
    the names that the script hooks and that recorded nothing.
    """
    goldens = {name: golden.value for name, golden in recorder.goldens.items()}
    inputs = {name: pin.value for name, pin in recorder.pins.inputs.items()}
    weights = {name: pin.value for name, pin in recorder.pins.weights.items()}
    look_at_values(recorder.lint, "golden", goldens, recorder.choices_met)
    findings = {finding.name: finding for finding in recorder.lint.refused if finding.role == "golden"}
    files = {name: pin.file for name, pin in recorder.pins.weights.items()}
    return {
        "format": 1,
        "params": {name: value for name, value in params.items() if is_json(value)},
        "points": [{"name": name, "kind": kind} for name, kind in recorder.seen or []],
        "goldens": [{**_entry(name, value), **_finding(findings.get(name))} for name, value in goldens.items()],
        "inputs": [_entry(name, value) for name, value in inputs.items()],
        "weights": [{**_entry(name, value), "file": files[name]} for name, value in weights.items()],
        "adapters": [found["file"] for found in recorder.adapter_files],
        "skipped": recorder.skipped,
        "unmatched": [finding.message for finding in recorder.lint.refused if finding.kind == "never-called"],
    }


def params(script: Path, spec: str | None, given: Iterable[str]) -> dict[str, Any]:
    """Returns the params of a listing that a person asked for: those of `--param`, over those of the spec."""
    found = params_of_script(script, None if spec is None else Path(spec))
    if found is None:
        print("note: no spec names this script, so the params are the function's defaults", file=sys.stderr)
    else:
        print(f"note: the params are those of `{found[0]}`", file=sys.stderr)
    values = {} if found is None else dict(found[1])
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"`--param {text}` is not NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def write(found: Mapping[str, Any], path: Path) -> None:
    """Writes a listing to a file."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def limit_memory() -> None:
    """Keeps this process below three quarters of the machine's memory, where the system enforces such a limit.

    A listing runs the model, and a model with its default size may be larger than the machine.
    """
    if sys.platform != "linux":
        return
    import resource

    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([most, *known]), hard))


def _entry(name: str, value: Value) -> dict[str, Any]:
    return {"name": name, "dtype": value.dtype, "shape": list(value.shape)}


def _finding(finding: Finding | None) -> dict[str, Any]:
    return {"finding": finding and finding.kind, "why": finding and finding.message}


def is_json(value: Any) -> bool:
    """Whether JSON can hold a value. It has no NaN and no infinity."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
