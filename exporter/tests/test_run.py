"""References in NumPy: the unchanged run, the float64 run and the run with other draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parity_export
from parity_export.run import bound_params, points

EXPORTER = Path(__file__).parent.parent


def mlp(rec: Any, dim: int = 16, tokens: int = 5, eps: float = 1e-6) -> None:
    draw = np.random.default_rng(0)
    w = rec.weights(
        {"up": draw.standard_normal((dim, dim)).astype(np.float32), "norm": draw.random(dim).astype(np.float32)}
    )
    x = rec.input("x", draw.standard_normal((tokens, dim)).astype(np.float32))
    norm = rec.save("norm", x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(eps)) * w["norm"])
    # The cast would hide in a float64 run if the name did not mean float64 there.
    up = (norm @ w["up"]).astype(np.float32)
    rec.save("out", x + up / (1 + np.exp(-up)))


def exact(made: Any) -> dict[str, Any]:
    """Returns the goldens in float64, computed by hand."""
    x, up, scale = (
        made.tensor(role, name).wide() for role, name in (("input", "x"), ("weight", "up"), ("weight", "norm"))
    )
    norm = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * scale
    y = norm @ up
    return {"norm": norm, "out": x + y / (1 + np.exp(-y))}


def test_floors_are_distances_from_true_float64(export: Any) -> None:
    made = export(mlp, lint="refuse")
    for name, truth in exact(made).items():
        error = np.abs(made.tensor("golden", name).wide() - truth)
        floor = made.goldens[name]["floor"]
        assert floor["max"] == pytest.approx(error.max(), rel=1e-6)
        assert floor["max"] > 0
        assert floor["rms"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-6)
    assert made.manifest["provenance"]["passes"] == ["native", "float64", "other draws"]
    assert np.float32 is np.dtype("float32").type, "the patches of NumPy are removed"


def test_committed_inputs_and_weights_are_reused(export: Any, tmp_path: Path) -> None:
    first = export(mlp, tmp_path / "a")
    # Another machine would draw other numbers: here, with another seed.
    other = tmp_path / "other.py"
    other.write_text(Path(__file__).read_text().replace("default_rng(0)", "default_rng(1)"))
    space: dict[str, Any] = {"__file__": str(other), "__name__": "other"}
    exec(compile(other.read_text(), str(other), "exec"), space)
    again = export(space["mlp"], tmp_path / "b", reuse=tmp_path / "a", script=__file__)
    assert again.report["counts"]["reused"] == 3
    assert again.bytes()["goldens.safetensors"] == first.bytes()["goldens.safetensors"]
    new = export(space["mlp"], tmp_path / "c", reuse=tmp_path / "a", new_inputs=True, script=__file__)
    assert new.bytes()["goldens.safetensors"] != first.bytes()["goldens.safetensors"]
    # An input whose shape no longer matches is new, and a note reports it.
    fewer = export(mlp, tmp_path / "d", reuse=tmp_path / "a", params={"tokens": 3})
    assert fewer.report["counts"]["reused"] == 2
    note = "input `x` is new: the committed one is float32 [5, 16], the reference now gives float32 [3, 16]"
    assert fewer.report["notes"][0] == note


def test_a_set_whose_bytes_do_not_match_its_manifest_is_not_reused(export: Any, tmp_path: Path) -> None:
    export(mlp, tmp_path / "a")
    path = tmp_path / "a" / "inputs.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(
        OSError, match=r"input `x` in `.*` does not match its SHA-256 in manifest\.json; restore the file"
    ):
        export(mlp, tmp_path / "b", reuse=tmp_path / "a")


def test_parameters_come_from_the_spec_and_are_checked(export: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound_params(mlp, {"tokens": 2}) == {"dim": 16, "tokens": 2, "eps": 1e-6}
    with pytest.raises(
        TypeError, match="`params` has `token`, which the reference does not take; similar names: `tokens`"
    ):
        bound_params(mlp, {"token": 2})
    with pytest.raises(TypeError, match="the reference takes `dim`, which has no default and is not in `params`"):
        bound_params(lambda rec, dim: None, {})
    assert export(mlp).manifest["made_by"]["params"] == {"dim": 16, "tokens": 5, "eps": 1e-6}
    monkeypatch.setenv("PARITY_REFERENCE", '{"params":{"tokens":3},"script":"a/b.py","source":"numpy"}')
    made = export(mlp)
    assert made.entries["input", "x"]["shape"] == [3, 16]
    # The manifest repeats the spec's block exactly, without the script's defaults.
    assert {key: value for key, value in made.manifest["made_by"].items() if key != "key"} == {
        "script": "a/b.py",
        "source": "numpy",
        "params": {"tokens": 3},
    }


def test_integers_have_no_floor_and_a_flipped_choice_is_reported(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = rec.input("x", np.array([1, 2**25, 3], dtype=np.float32))
        rec.save("same", np.argsort(x))
        # In float32 the two are equal, so the first is chosen.
        rec.save("flips", np.argmax(np.stack([x, x + np.float32(1)]), axis=0))

    made = export(reference)
    assert "floor" not in made.goldens["same"]
    assert "no_floor" not in made.goldens["same"]
    assert made.goldens["flips"]["no_floor"] == "the float64 run gives other integers"


def test_a_run_without_true_float64_gives_no_floor(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = rec.input("x", np.arange(6, dtype=np.float32) / 7)
        rec.save("hidden", np.exp(x).astype("float32"))
        rec.save("other_shape", np.exp(x)[: 3 if rec.is_float64 else 4] * np.float32(2))
        if not rec.is_float64:
            rec.save("skipped", np.exp(x) * np.float32(3))

    made = export(reference)
    reasons = {name: entry.get("no_floor") for name, entry in made.goldens.items()}
    assert reasons == {
        "hidden": "the float64 run gives float32",
        "other_shape": "the float64 run gives shape [3]",
        "skipped": "the float64 run does not reach this golden",
    }


def test_stopping_early_stops_every_run(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = rec.input("x", np.arange(4, dtype=np.float32) / 3)
        rec.save("y", np.exp(x), stop=True)
        raise AssertionError("the reference went on")

    assert export(reference, lint="refuse").goldens["y"]["floor"]["max"] > 0


SCRIPT = '''
import numpy as np
from parity_export import main

def reference(rec, dim=4):
    """Goldens of nothing much."""
    x = rec.input("x", np.random.default_rng(0).standard_normal((3, dim)).astype(np.float32))
    rec.save("y", x @ x.T * np.float32({scale}))

if __name__ == "__main__":
    main(reference)
'''


def script(tmp_path: Path, *arguments: str, scale: str = "0.5", **environment: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "reference.py"
    path.write_text(SCRIPT.replace("{scale}", scale))
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPORTER), *sys.path]), **environment}
    return subprocess.run(
        [sys.executable, str(path), *arguments], check=False, env=own, capture_output=True, text=True, cwd=tmp_path
    )


@pytest.mark.slow
def test_the_exit_status_shows_whether_the_set_was_written(tmp_path: Path) -> None:
    done = script(tmp_path, "out", PARITY_REPORT=str(tmp_path / "report.json"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == "1 golden, 1 input, 0 weights; 1 floor; 1 recipe; 0 reused"
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    refused = script(tmp_path, "out", scale="0", PARITY_REPORT=str(tmp_path / "report.json"))
    assert refused.returncode == 3
    assert refused.stderr.endswith("the lint refuses the set: nothing was written\n")
    assert json.loads((tmp_path / "report.json").read_text())["findings"][-1]["kind"] == "zero"
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    assert script(tmp_path, "out", scale="0", PARITY_LINT="report").returncode == 0
    assert script(tmp_path, "out", scale="broken").returncode == 1
    assert script(tmp_path).returncode == 2
    wrong = script(tmp_path, "out", PARITY_LINT="no")
    assert wrong.returncode == 1
    assert "PARITY_LINT is `no`, expected `refuse` or `report`" in wrong.stderr


@pytest.mark.slow
def test_two_processes_give_the_same_bytes_and_the_spread_is_measured(tmp_path: Path) -> None:
    assert [script(tmp_path, name).returncode for name in ("a", "b")] == [0, 0]
    for file in ("manifest.json", "goldens.safetensors", "inputs.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert str(tmp_path) not in (tmp_path / "a" / "manifest.json").read_text()
    assert script(tmp_path, "c", "--spread").returncode == 0
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["provenance"]["passes"][-1] == "several threads"
    assert manifest["tensors"][-1]["spread"]["max"] >= 0


def test_saved_goldens_are_points() -> None:
    assert dict(points(mlp))["norm"] == "float32 [5, 16]"


def test_the_bundled_reference_gives_its_committed_goldens(tmp_path: Path) -> None:
    committed = EXPORTER.parent / "fixtures" / "gated_mlp" / "block"
    manifest = json.loads((committed / "manifest.json").read_text())
    made_by = {key: value for key, value in manifest["made_by"].items() if key != "key"}
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPORTER), *sys.path]), "PARITY_REUSE": str(committed)}
    own["PARITY_REFERENCE"] = parity_export.manifest.canonical_json(made_by)
    done = subprocess.run(
        [sys.executable, str(EXPORTER.parent / made_by["script"]), str(tmp_path / "set")],
        check=False,
        env=own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert again["made_by"] == manifest["made_by"]
    kept = [entry for entry in again["tensors"] if entry["role"] != "golden"]
    assert {entry["name"]: entry["sha256"] for entry in kept}.items() <= {
        entry["name"]: entry["sha256"] for entry in manifest["tensors"]
    }.items()
    # Another CPU may round differently, within the floors.
    files = parity_export.files
    old, new = (files.read(folder / "goldens.safetensors") for folder in (committed, tmp_path / "set"))
    for entry in (entry for entry in manifest["tensors"] if entry["role"] == "golden"):
        far = np.abs(old[entry["name"]].wide() - new[entry["name"]].wide()).max()
        assert far <= 8 * max(entry["floor"]["max"], 1.2e-7 * np.abs(old[entry["name"]].wide()).max())
