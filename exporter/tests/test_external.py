"""External weights: the script reads them, recipes name them, the manifest records them, and no set holds them."""

from __future__ import annotations

import json
import subprocess
import sys
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import files
from parity_export.external import read
from parity_export.values import host

Shards = dict[str, dict[str, Any]]


def tell(folder: Path, shards: Shards, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Writes the shards and lists them as `regenerate-fixtures` does. Returns the list."""
    listed = []
    for name, tensors in shards.items():
        path = folder / name
        files.write(path, {key: host(tensor) for key, tensor in tensors.items()})
        listed.append({"name": name, "path": str(path), "size": path.stat().st_size, "sha256": "0" * 64})
    (folder / "external.json").write_text(json.dumps(listed))
    monkeypatch.setenv("PARITY_EXTERNAL", str(folder / "external.json"))
    return listed


def reference(rec: Any) -> None:
    w = rec.external_weights(rec.external_tensors())
    x = rec.input("x", np.arange(12, dtype=np.float32).reshape(3, 4) / 7)
    rec.save("hidden", x @ w["up.weight"].T)
    rec.save("out", x @ w["up.weight"].T @ w["down.weight"].T)


SCRIPT = """
import sys
from typing import Any
import numpy as np
from parity_export import run
{reference}
print(run(reference, sys.argv[1], script=__file__)["counts"]["recipes"])
"""
UP = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
DOWN = np.linspace(-2, 1, 10, dtype=np.float32).reshape(5, 2)
BOTH: Shards = {"a.safetensors": {"up.weight": UP}, "b.safetensors": {"down.weight": DOWN}}


def test_the_set_holds_no_weight(export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tell(tmp_path, BOTH, monkeypatch)
    made = export(reference)
    keys = ("name", "size", "sha256")
    assert made.manifest["external_weights"] == [{key: one[key] for key in keys} for one in listed]
    assert {entry["role"] for entry in made.manifest["tensors"]} == {"golden", "input"}
    assert all(entry["floor"]["max"] > 0 for entry in made.goldens.values()), "the float64 run gave the same numbers"


def test_recipes_name_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(tmp_path, BOTH, monkeypatch)
    script = tmp_path / "reference.py"
    script.write_text(SCRIPT.replace("{reference}", getsource(reference)))
    # In a process of its own, since NumPy is not traced beside torch and MLX.
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "set")], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    recipes = json.loads((tmp_path / "set" / "recipes.json").read_text())
    named = {node[2]["name"] for node in recipes["nodes"] if node[0] == "weight"}
    assert named == {"up.weight", "down.weight"}


def test_a_tensor_that_the_files_lack_is_no_leaf_and_is_reported(
    export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(tmp_path, BOTH, monkeypatch)

    def changed(rec: Any) -> None:
        w = rec.external_weights({**rec.external_tensors(), "made.weight": UP * 2})
        rec.save("out", rec.input("x", UP) @ w["made.weight"].T)

    made = export(changed)
    assert "1 of 3 external weights are not in the files, first `made.weight`" in made.report["notes"]


def test_names_that_the_files_do_not_have_are_refused(
    export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(tmp_path, BOTH, monkeypatch)

    def renamed(rec: Any) -> None:
        rec.external_weights({"weight": UP}, prefix="model.")

    with pytest.raises(ValueError, match=r"the first is `model.weight`, the files begin with `up.weight`"):
        export(renamed)


def test_without_a_list_a_script_is_told_how_to_run(export: Any) -> None:
    with pytest.raises(LookupError, match=r"no `weights\.external`, or the script was not started by"):
        export(reference)


def test_a_tensor_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(tmp_path, {"a.safetensors": {"up": UP, "down": DOWN, "empty": UP[:0]}}, monkeypatch)
    found = read()
    assert found is not None
    np.testing.assert_array_equal(found.value("down").bits, DOWN)
    assert found.value("empty").shape == (0, 4)


def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "[{}]", "3"):
        (tmp_path / "external.json").write_text(text)
        monkeypatch.setenv("PARITY_EXTERNAL", str(tmp_path / "external.json"))
        with pytest.raises(ValueError, match="PARITY_EXTERNAL names"):
            read()
