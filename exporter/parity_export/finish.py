"""The end of an export: the final lint, the report, the manifest, and the exchange of the old set for the new one."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from . import adapters, files
from .collector import Golden
from .folder import MANIFEST, replacing
from .lint import look_at_hits, look_at_values
from .manifest import FORMAT, made_by_key
from .pins import sharded
from .provenance import facts
from .recipe import FILE as RECIPES
from .recipe import MAX_BYTES, written
from .recipe_run import settle
from .recorder import Recorder
from .values import STORED, Value

_STEMS = {"golden": "goldens", "input": "inputs", "weight": "weights", "constant": "constants"}


class Refused(Exception):
    """The lint found something the script does not accept. The old set is untouched; `report` has the findings."""

    def __init__(self, report: dict[str, Any]):
        self.report = report
        super().__init__(words(report))


def finish(recorder: Recorder, passes: list[str]) -> dict[str, Any]:
    """Lints, writes the report, replaces the set unless a finding forbids it, and returns the report."""
    look(recorder)
    settle(recorder, {})
    report = _report(recorder, passes)
    refused = bool(recorder.lint.refused) and recorder.settings.refuse
    report["written"] = not refused
    if recorder.settings.report is not None:
        recorder.settings.report.parent.mkdir(parents=True, exist_ok=True)
        recorder.settings.report.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if refused:
        raise Refused(report)
    write(recorder, passes)
    for line in words(report).splitlines():
        print(line, file=sys.stderr)
    return report


def look(recorder: Recorder) -> None:
    """Runs the checks that need a finished reference."""
    lint, expected = recorder.lint, recorder.settings.expected
    goldens = {name: golden.value for name, golden in recorder.goldens.items()}
    look_at_values(lint, "input", {name: pin.value for name, pin in recorder.pins.inputs.items()})
    look_at_values(lint, "weight", {name: pin.value for name, pin in recorder.pins.weights.items()})
    look_at_values(lint, "golden", goldens, recorder.choices_met)
    look_at_hits(lint, recorder.taps, recorder.expected_hits, expected.goldens, recorder.left_out)
    for name, value in goldens.items():
        if value.dtype not in STORED:
            lint.add("dtype", name, f"golden `{name}` is {value.dtype}, but fixtures hold {', '.join(STORED)}")
    for name, dtype in expected.goldens.items():
        if name not in goldens:
            if expected.partial:
                continue
            lint.add("missing", name, f"the spec declares golden `{name}`, but the reference does not record it")
        elif dtype is not None and goldens[name].dtype != dtype:
            lint.add("dtype", name, f"golden `{name}` is {goldens[name].dtype}, but the spec declares {dtype}")
    for name in expected.inputs:
        if name not in recorder.pins.inputs:
            lint.add("missing", name, f"the spec declares input `{name}`, but the reference does not save it", "input")
    if not goldens and not expected.partial:
        lint.add("missing", "*", "the reference records no golden")
    lint.close(recorder.left_out)


def words(report: dict[str, Any]) -> str:
    """Returns the report as text: the findings, the notes, then one line of counts."""
    lines = []
    for finding, others in _grouped(report["findings"]):
        mark = f"accepted ({finding['accepted']})" if finding["accepted"] else "finding"
        more = f" (and {others} more like it)" if others else ""
        lines.append(f"{mark}: {finding['kind']}: {finding['message']}{more}")
        if not finding["accepted"]:
            lines.append(f'  next: {finding["advice"]}, or accept it with `rec.accept("{finding["kind"]}", …, why=…)`')
    lines += [f"note: {note}" for note in report["notes"]]
    counts = report["counts"]
    made = [_count(counts[f"{word}s"], word) for word in ("golden", "input", "weight")]
    parts = [", ".join(made), _count(counts["floors"], "floor"), f"{counts['reused']} reused"]
    if counts["recipes"] is not None:
        parts.insert(2, _count(counts["recipes"], "recipe"))
    lines.append("; ".join(parts))
    return "\n".join(lines)


def _grouped(findings: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Returns the first finding of each loop, with how many others differ from it only in the numbers of the name."""
    found: dict[tuple[str, ...], tuple[dict[str, Any], int]] = {}
    for finding in findings:
        loop = re.sub(r"\d+", "#", finding["name"])
        key = (finding["kind"], finding["role"], loop, finding["accepted"] or "")
        first, others = found.get(key, (finding, -1))
        found[key] = (first, others + 1)
    return list(found.values())


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _report(recorder: Recorder, passes: list[str]) -> dict[str, Any]:
    pins, goldens = recorder.pins, recorder.goldens.values()
    notes = list(pins.notes)
    if recorder.skipped:
        shown = ", ".join(f"`{name}` (same as `{twin}`)" for name, twin in list(recorder.skipped.items())[:5])
        more = " …" if len(recorder.skipped) > 5 else ""
        notes.append(f"skipped {_count(len(recorder.skipped), 'point')} with values recorded before: {shown}{more}")
    if recorder.left_out:
        first = next(iter(recorder.left_out))
        notes.append(
            f"left out {_count(len(recorder.left_out), 'golden')} that the spec does not declare, first `{first}`; "
            "`new-spec --missing` lists them"
        )
    missing = sorted({golden.no_floor for golden in goldens if golden.no_floor is not None})
    notes += [
        f"no floor for {_count(sum(golden.no_floor == why for golden in goldens), 'golden')}: {why}" for why in missing
    ]
    lacking = _without_recipe(recorder)
    reasons: dict[str, list[str]] = {}
    for name, why in (lacking or {}).items():
        reasons.setdefault(why.partition(": it is off")[0], []).append(name)
    notes += [
        f"no recipe for {_count(len(names), 'golden')}, first `{names[0]}`: {why}" for why, names in reasons.items()
    ]
    return {
        "format": 1,
        "out_dir": str(recorder.out_dir),
        "passes": passes,
        "counts": {
            "goldens": len(recorder.goldens),
            "floors": sum(golden.floor is not None for golden in goldens),
            "recipes": None if lacking is None else len(recorder.goldens) - len(lacking),
            "inputs": len(pins.inputs),
            "weights": len(pins.weights),
            "reused": pins.reused,
        },
        "skipped": recorder.skipped,
        "notes": notes,
        "findings": [finding.json() for finding in recorder.lint.findings],
    }


def _without_recipe(recorder: Recorder) -> dict[str, str] | None:
    """Returns why goldens have no recipe from inputs and weights alone; none if recipes are switched off."""
    if recorder.tracing is None:
        return None
    recipe = recorder.tracing.recipe
    return {**recipe.missing, **recipe.blocked()}


def write(recorder: Recorder, passes: list[str]) -> None:
    """Writes the set beside the old one, then exchanges the two."""
    recipes, constants = _recipes(recorder)
    for name, pin in recorder.pins.weights.items():
        if pin.lent is not None and pin.value.sha256() != pin.lent:
            raise ValueError(
                f"the reference changed weight `{name}` after `rec.weights` saved it; with floors by block the set has "
                "no copy, so clone the weight before it changes, or leave `rec.floors` out"
            )
    entries = _entries(recorder, constants)
    held: dict[str, dict[str, Value]] = {}
    for entry, value in entries:
        held.setdefault(entry["file"], {})[entry["name"]] = value
    lowered = [file.lower() for file in held]
    if len(set(lowered)) != len(lowered):
        raise ValueError(
            "two tensor files have names that differ only in case, which some systems cannot hold; rename one tensor"
        )
    text = manifest_text(manifest(recorder, passes, [entry for entry, _ in entries], recipes))
    with replacing(recorder.out_dir, recorder.settings.root) as folder:
        for file, tensors in held.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            files.write(folder / file, tensors)
        if recipes is not None:
            (folder / RECIPES).write_bytes(recipes)
        (folder / MANIFEST).write_text(text, encoding="utf-8")


def manifest_text(found: dict[str, Any]) -> str:
    """Returns the text of a manifest. Each tensor has its own line, so a change of one tensor is one line of a diff."""
    lines = [json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in found["tensors"]]
    head = json.dumps({**found, "tensors": []}, indent=1, ensure_ascii=False, allow_nan=False)
    return head.removesuffix("[]\n}") + "[\n  " + ",\n  ".join(lines) + "\n ]\n}\n"


def _recipes(recorder: Recorder) -> tuple[bytes | None, dict[str, Value]]:
    """Returns the bytes of the recipes and their constants; none if they are switched off, or too long to be read."""
    if recorder.tracing is None:
        return None, {}
    text, constants = written(recorder.tracing.recipe)
    data = text.encode()
    return (data, constants) if len(data) <= MAX_BYTES else (None, {})


def manifest(
    recorder: Recorder, passes: list[str], entries: list[dict[str, Any]], recipes: bytes | None = None
) -> dict[str, Any]:
    """Returns the manifest: what made the set, in which environment, its recipes, and an entry per tensor."""
    provenance: dict[str, Any] = facts(recorder.sources.packages)
    provenance["devices"] = sorted(recorder.devices - {""})
    provenance["dtypes"] = sorted({golden.value.dtype for golden in recorder.goldens.values()})
    provenance["passes"] = passes
    if recorder.axes:
        provenance["axes"] = recorder.axes
    if recorder.sources.files:
        provenance["sources"] = recorder.sources.json()
    executed = recorder.executed.json() if recorder.executed is not None else {}
    if executed:
        provenance["executed"] = executed
    accepted = [finding for finding in recorder.lint.findings if finding.accepted]
    if accepted:
        provenance["accepted"] = [
            {"kind": finding.kind, "role": finding.role, "name": finding.name, "why": finding.accepted}
            for finding in accepted
        ]
    key = made_by_key(recorder.canonical or recorder.reference, recorder.script.read_bytes())
    found: dict[str, Any] = {
        "format": FORMAT,
        "made_by": {"key": key, **recorder.reference},
        "provenance": provenance,
    }
    adapted = adapters.facts(recorder)
    if adapted is not None:
        found["adapters"] = adapted
    if recorder.settings.external is not None:
        found["external_weights"] = list(recorder.settings.external.records)
    if recipes is not None:
        found["recipes"] = {"file": RECIPES, "sha256": hashlib.sha256(recipes).hexdigest()}
    return {**found, "tensors": entries}


def _entries(recorder: Recorder, constants: Mapping[str, Value]) -> list[tuple[dict[str, Any], Value]]:
    suffix = f".{recorder.format}"
    found = []
    shards: dict[str, str] = {}
    if recorder.shard_bytes is not None and recorder.format != "npy":
        plain = {name: pin for name, pin in recorder.pins.weights.items() if pin.file is None}
        shards = sharded(plain, recorder.shard_bytes, "weights", suffix)

    def entry(role: str, name: str, value: Value, file: str | None) -> dict[str, Any]:
        if recorder.format == "npy":
            file = f"{_STEMS[role]}/{name}.npy"
        return {
            "name": name,
            "role": role,
            "file": file or f"{_STEMS[role]}{suffix}",
            "dtype": value.dtype,
            "shape": list(value.shape),
            "sha256": value.sha256(),
        }

    for role, pins in (("weight", recorder.pins.weights), ("input", recorder.pins.inputs)):
        for name, pin in pins.items():
            file = pin.file or (shards.get(name) if role == "weight" else None)
            found.append((entry(role, name, pin.value, file), pin.value))
    for sequence, golden in enumerate(recorder.goldens.values()):
        made = entry("golden", golden.name, golden.value, None)
        found.append((made | _measured(golden, sequence), golden.value))
    found += [(entry("constant", name, value, None), value) for name, value in constants.items()]
    return found


def _measured(golden: Golden, sequence: int) -> dict[str, Any]:
    found: dict[str, Any] = {"sequence": sequence}
    if golden.floor is not None:
        found["floor"] = golden.floor.json()
        if golden.floor_block is not None:
            found["floor_block"] = golden.floor_block
    elif golden.no_floor is not None:
        found["no_floor"] = golden.no_floor
    if golden.spread is not None:
        found["spread"] = golden.spread.json()
    if golden.place is not None:
        found["place"] = golden.place
    if golden.step is not None:
        found["step"] = golden.step
    return found
