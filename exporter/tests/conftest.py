"""Shared fixtures: an environment without `PARITY_*` variables, and an export of a reference written in a test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parity_export


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PARITY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "sets" / "set"


@pytest.fixture
def export(out: Path) -> Callable[..., Made]:
    """Returns a function that exports a reference and returns the set, whatever the lint finds."""

    def made(reference: Callable[..., Any], folder: Path = out, **options: Any) -> Made:
        options.setdefault("lint", "report")
        return Made(folder, parity_export.run(reference, folder, **options))

    return made


class Made:
    """A written set and its report."""

    def __init__(self, folder: Path, report: dict[str, Any]):
        self.folder, self.report = folder, report
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.entries = {(entry["role"], entry["name"]): entry for entry in self.manifest["tensors"]}
        self.goldens = {name: entry for (role, name), entry in self.entries.items() if role == "golden"}

    def tensor(self, role: str, name: str) -> Any:
        from parity_export import files

        entry = self.entries[role, name]
        return files.read(self.folder / entry["file"])["" if entry["file"].endswith(".npy") else name]

    def found(self) -> list[tuple[str, str]]:
        """Returns kind and name of the findings that the script does not accept."""
        return [(finding["kind"], finding["name"]) for finding in self.report["findings"] if not finding["accepted"]]

    def bytes(self) -> dict[str, bytes]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}
