"""The provenance of a set: packages, files, revisions, and the files that ran."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import provenance

MODULE = """
from .ops import double

class Layer:
    def __call__(self, x):
        return double(x)

def unused():
    pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields a package in a git checkout, as in an editable install."""
    home = tmp_path / "checkout" / "src" / "refpkg"
    (home / "models").mkdir(parents=True)
    for folder in (home, home / "models"):
        (folder / "__init__.py").write_text("")
    (home / "models" / "layer.py").write_text(MODULE)
    (home / "models" / "ops.py").write_text("def double(x):\n    return x + x\n")
    monkeypatch.syspath_prepend(str(home.parent))
    provenance._revision.cache_clear()
    yield home
    for name in [name for name in sys.modules if name.split(".")[0] == "refpkg"]:
        del sys.modules[name]
    provenance._revision.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def reference(rec: Any) -> None:
    from refpkg.models.layer import Layer  # type: ignore[import-not-found]

    layer = Layer()
    rec.watch(layer)
    x = rec.input("x", np.arange(4, dtype=np.float32) / 3)
    for _ in rec.axis("round", 3):
        x = rec.save("y", layer(x) * np.float32(0.3))


def test_files_that_ran_are_counted_by_their_place_in_the_package(export: Any, package: Path, tmp_path: Path) -> None:
    made = export(reference, lint="refuse")
    found = made.manifest["provenance"]
    assert found["executed"] == {"refpkg/models/layer.py": 3, "refpkg/models/ops.py": 3}
    assert list(found["sources"]) == ["refpkg/models/layer.py"]
    assert found["sources"]["refpkg/models/layer.py"]["hooked"] == ["Layer"]
    assert found["sources"]["refpkg/models/layer.py"]["revision"] is None
    assert str(tmp_path) not in (made.folder / "manifest.json").read_text()


def test_a_checkout_gives_its_revision_and_whether_it_was_changed(export: Any, package: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    git(checkout, "init", "-q")
    # An untracked file, as in an environment inside a repository, has no revision.
    (checkout / "other").write_text("")
    git(checkout, "add", "other")
    git(checkout, "commit", "-qm", "other")
    assert export(reference).manifest["provenance"]["sources"]["refpkg/models/layer.py"]["revision"] is None

    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "all")
    provenance._revision.cache_clear()
    facts = export(reference).manifest["provenance"]["sources"]["refpkg/models/layer.py"]
    assert (facts["revision"], facts["dirty"]) == (git(checkout, "rev-parse", "HEAD"), False)
    # A change in any file of the package makes it dirty, hooked or not.
    (package / "models" / "ops.py").write_text("def double(x):\n    return x + x  # changed\n")
    provenance._revision.cache_clear()
    assert export(reference).manifest["provenance"]["sources"]["refpkg/models/layer.py"]["dirty"] is True


def test_settings_that_change_numbers_are_named(export: Any, monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("XLA_FLAGS", "--of-a-library-that-is-not-there")
    found = export(reference).manifest["provenance"]
    assert found["environment"]["MKL_CBWR"] == "COMPATIBLE"
    assert "XLA_FLAGS" not in found["environment"]
    assert found["packages"]["numpy"] == np.__version__
    assert found["axes"] == {"round": 3}
    assert found["devices"] == ["cpu"]
