"""The recorder's promises, on sets small enough to read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from parity_export import Floor, Recorder
from parity_export.manifest import canonical_json, made_by_key, tensor_sha256

REFERENCE = {"script": "x.py", "source": "numpy", "params": {"dim": 2, "b": [1, "é"]}}


def record(out: Path, scale: float = 1.0) -> dict:
    with Recorder(out, script=__file__, reference=REFERENCE) as recorder:
        x = recorder.input("x", np.arange(6, dtype=np.float32).reshape(2, 3))
        recorder.weights({"w": np.ones(3, dtype=np.float16)})
        truth = x.astype(np.float64) * scale / 3
        recorder.save("out", truth.astype(np.float32), floor=Floor.between(truth.astype(np.float32), truth))
        recorder.save("out", x.T)
    return json.loads((out / "manifest.json").read_text())


def test_a_set_holds_what_was_saved_and_says_so(tmp_path: Path) -> None:
    manifest = record(tmp_path / "set")
    goldens = load_file(tmp_path / "set" / "goldens.safetensors")
    entries = {(entry["role"], entry["name"]): entry for entry in manifest["tensors"]}
    assert list(entries) == [("input", "x"), ("weight", "w"), ("golden", "out"), ("golden", "out@1")]
    second = entries["golden", "out@1"]
    assert (second["sequence"], second["shape"], second["dtype"]) == (1, [3, 2], "float32")
    # A transposed view is stored as what it shows, not as the memory it was taken from.
    assert goldens["out@1"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert second["sha256"] == hashlib.sha256(goldens["out@1"].tobytes()).hexdigest()
    assert entries["weight", "w"]["dtype"] == "float16"
    assert manifest["made_by"]["params"] == REFERENCE["params"]


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b")
    for name in ("manifest.json", "goldens.safetensors", "inputs.safetensors", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_that_fails_leaves_the_old_set_whole(tmp_path: Path) -> None:
    before = record(tmp_path / "set")
    with pytest.raises(ZeroDivisionError):
        with Recorder(tmp_path / "set", script=__file__, reference=REFERENCE) as recorder:
            recorder.save("out", np.zeros(1))
            1 / 0
    assert json.loads((tmp_path / "set" / "manifest.json").read_text()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_new_set_replaces_the_old_one(tmp_path: Path) -> None:
    old = record(tmp_path / "set")
    new = record(tmp_path / "set", scale=2.0)
    assert old["tensors"][2]["sha256"] != new["tensors"][2]["sha256"]
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_the_key_changes_with_the_script_and_with_the_reference() -> None:
    key = made_by_key(REFERENCE, b"print()")
    assert key == made_by_key(canonical_json(REFERENCE), b"print()")
    assert key != made_by_key(REFERENCE, b"print(1)")
    assert key != made_by_key({**REFERENCE, "source": "torch"}, b"print()")
    # The text that is hashed is part of the format, so it is held to the letter.
    text = 'mlx-parity fixture 1\n{"params":{"b":[1,"é"],"dim":2},"script":"x.py","source":"numpy"}\nprint()'
    assert key == hashlib.sha256(text.encode()).hexdigest()


def test_numbers_are_written_as_rust_writes_them() -> None:
    # The other side of this is in harness/src/golden/key.rs.
    value = {"eps": 1e-5, "big": 1e16, "plain": [0.1, 1.0, -2.5e-10, 3, True, None]}
    assert canonical_json(value) == '{"big":1e16,"eps":1e-5,"plain":[1e-1,1e0,-2.5e-10,3,true,null]}'
    assert [canonical_json(x) for x in (0.0, -0.0, 120.0, 1.25e300)] == ["0e0", "-0e0", "1.2e2", "1.25e300"]
    with pytest.raises(ValueError, match="JSON has no number for nan"):
        canonical_json(float("nan"))
    assert made_by_key({"script": "x.py", "params": {}}, b"") == made_by_key({"script": "x.py"}, b"")


def test_a_set_inside_a_set_is_not_taken_along(tmp_path: Path) -> None:
    record(tmp_path / "set" / "inner")
    with pytest.raises(FileExistsError, match="has another set inside it"):
        record(tmp_path / "set")
    assert (tmp_path / "set" / "inner" / "manifest.json").exists()


def test_a_reference_from_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARITY_REFERENCE", '{"params":{"dim":1e-5},"script":"y.py"}')
    manifest = record(tmp_path / "set")
    assert manifest["made_by"]["script"] == "y.py"
    assert manifest["made_by"]["key"] == made_by_key('{"params":{"dim":1e-5},"script":"y.py"}', Path(__file__).read_bytes())


def test_what_cannot_be_a_tensor_is_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "set", script=__file__, reference=REFERENCE)
    with pytest.raises(TypeError, match="golden `x` is a list, expected a numpy array"):
        recorder.save("x", [1.0])  # type: ignore[arg-type]
    recorder.input("x", np.zeros(2))
    with pytest.raises(ValueError, match="input `x` was saved before"):
        recorder.input("x", np.zeros(2))


def test_a_floor_looks_only_at_what_can_be_measured() -> None:
    truth = np.array([1.0, np.inf, np.nan, 1e31, 3.0])
    golden = np.array([1.5, np.inf, np.nan, 2e31, 3.0], dtype=np.float32)
    assert Floor.between(golden, truth) == Floor(0.5, float(np.sqrt(0.125)))
    assert Floor.between(np.zeros(0, np.float32), np.zeros(0)) == Floor(0.0, 0.0)
    with pytest.raises(ValueError, match="float64 truth"):
        Floor.between(golden, golden)


def test_the_hash_of_a_tensor_ignores_its_byte_order() -> None:
    values = np.arange(4, dtype=">f4")
    assert tensor_sha256(values) == tensor_sha256(values.astype("<f4"))
