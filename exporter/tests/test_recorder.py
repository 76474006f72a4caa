"""The recorder's promises, on sets small enough to read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from parity_export import Floor, Recorder, Refused
from parity_export.manifest import canonical_json, made_by_key

REFERENCE = {"script": "x.py", "source": "numpy", "params": {"dim": 2, "b": [1, "é"]}}


def record(out: Path, scale: float = 1.0) -> dict[str, Any]:
    with Recorder(out, script=__file__, reference=REFERENCE) as rec:
        rec.hits("out", 2)
        x = rec.input("x", np.arange(6, dtype=np.float32).reshape(2, 3))
        rec.weights({"w": np.arange(3, dtype=np.float16)})
        truth = x.astype(np.float64) * scale / 3
        rec.save("out", truth.astype(np.float32), floor=Floor.between(truth.astype(np.float32), truth))
        rec.save("out", x.T)
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    return manifest


def test_a_set_and_its_manifest_hold_what_was_saved(out: Path) -> None:
    manifest = record(out)
    goldens = load_file(out / "goldens.safetensors")
    entries = {(entry["role"], entry["name"]): entry for entry in manifest["tensors"]}
    assert list(entries) == [("weight", "w"), ("input", "x"), ("golden", "out"), ("golden", "out@1")]
    second = entries["golden", "out@1"]
    assert (second["sequence"], second["shape"], second["dtype"]) == (1, [3, 2], "float32")
    # A transposed view is stored as what it shows, not as the memory it was taken from.
    assert goldens["out@1"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert second["sha256"] == hashlib.sha256(goldens["out@1"].tobytes()).hexdigest()
    assert entries["weight", "w"]["dtype"] == "float16"
    assert manifest["made_by"]["params"] == REFERENCE["params"]
    assert second["place"].startswith("x.py:record:")


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b")
    for name in ("manifest.json", "goldens.safetensors", "inputs.safetensors", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert str(tmp_path) not in (tmp_path / "a" / "manifest.json").read_text()


def test_a_run_that_fails_leaves_the_old_set_whole(tmp_path: Path) -> None:
    before = record(tmp_path / "set")

    def fail() -> None:
        with Recorder(tmp_path / "set", script=__file__, reference=REFERENCE) as rec:
            rec.save("out", np.arange(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
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
    # The hashed text is part of the format, so this test fixes it exactly.
    text = 'mlx-parity fixture 1\n{"params":{"b":[1,"é"],"dim":2},"script":"x.py","source":"numpy"}\nprint()'
    assert key == hashlib.sha256(text.encode()).hexdigest()


def test_numbers_are_written_as_rust_writes_them() -> None:
    # The other side of this is in harness/src/golden/key.rs.
    value = {"eps": 1e-5, "big": 1e16, "plain": [0.1, 1.0, -2.5e-10, 3, True, None]}
    assert canonical_json(value) == '{"big":1e16,"eps":1e-5,"plain":[1e-1,1e0,-2.5e-10,3,true,null]}'
    assert [canonical_json(x) for x in (0.0, -0.0, 120.0, 1.25e300)] == ["0e0", "-0e0", "1.2e2", "1.25e300"]
    with pytest.raises(ValueError, match="JSON has no number for nan"):
        canonical_json(float("nan"))
    how = {"script": "x.py", "env": ["HF_TOKEN"], "timeout": "2h"}
    assert made_by_key(how, b"") == made_by_key({"script": "x.py"}, b"")
    assert made_by_key({"script": "x.py", "params": {}}, b"") == made_by_key({"script": "x.py"}, b"")


def test_a_reference_from_the_environment_wins(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARITY_REFERENCE", '{"params":{"dim":1e-5},"script":"y.py"}')
    manifest = record(out)
    assert manifest["made_by"]["script"] == "y.py"
    assert manifest["made_by"]["key"] == made_by_key(
        '{"params":{"dim":1e-5},"script":"y.py"}', Path(__file__).read_bytes()
    )
    monkeypatch.setenv("PARITY_REFERENCE", "[1]")
    with pytest.raises(
        ValueError,
        match=r"PARITY_REFERENCE is `\[1\]`, which is not the `reference` block of a spec: expected a JSON object",
    ):
        record(out)


def test_what_cannot_be_a_tensor_or_a_name_is_refused(out: Path) -> None:
    rec = Recorder(out, script=__file__, reference=REFERENCE)
    with pytest.raises(TypeError, match="golden `x` is a list, expected an array of numpy, torch, mlx or jax"):
        rec.save("x", [1.0])
    with pytest.raises(TypeError, match=r"golden `x` is str.*, expected one of bool, uint8"):
        rec.save("x", np.array(["a"]))
    rec.input("x", np.zeros(2))
    with pytest.raises(ValueError, match="input `x` is saved twice; give the second one another name"):
        rec.input("x", np.zeros(2))
    for name, why in [
        ("a b", "letters, digits"),
        ("a..b", "no empty part"),
        ("-a", "at the start"),
        ("stats", "trials of every spec"),
    ]:
        with pytest.raises(ValueError, match=f"`{name}` cannot be the name of a golden: expected .*{why}"):
            rec.save(name, np.zeros(2))
    with pytest.raises(ValueError, match="`format` is `zip`, expected one of safetensors, npz, npy"):
        Recorder(out, script=__file__, format="zip")
    with pytest.raises(RuntimeError, match="`hook` was called outside a run; call it inside `with Recorder"):
        rec.hook(object())
    is_no_module = "`object` cannot be hooked, expected a torch or MLX module"
    with pytest.raises(TypeError, match=is_no_module), Recorder(out, script=__file__) as rec:
        rec.hook(object())
    with pytest.raises(
        TypeError, match=r"`rec\.weights` got a list, expected a mapping of names to tensors, or a torch or MLX module"
    ):
        rec.weights([1])


def test_scopes_and_axes_name_what_is_saved_as_the_port_does(out: Path) -> None:
    with Recorder(out, script=__file__) as rec:
        with rec.scope("model"):
            for i in rec.axis("blocks", 2):
                rec.save("norm", np.arange(2) + i)
            for t in rec.axis("step", range(0, 4, 2)):
                with rec.scope("blocks", 7):
                    rec.save("out", np.arange(3) + t)
        rec.save("out", np.arange(4))
    manifest = json.loads((out / "manifest.json").read_text())
    goldens = [entry["name"] for entry in manifest["tensors"]]
    assert goldens == [
        "model.blocks.0.norm",
        "model.blocks.1.norm",
        "model.step.0.blocks.7.out",
        "model.step.2.blocks.7.out",
        "out",
    ]
    assert manifest["provenance"]["axes"] == {"blocks": 8, "step": 3}


def test_a_stop_ends_the_reference_and_keeps_what_was_saved(out: Path) -> None:
    with Recorder(out, script=__file__) as rec:
        rec.save("early", np.arange(2), stop=True)
        raise AssertionError("the reference went on")
    with Recorder(out.with_name("b"), script=__file__) as rec:
        rec.stop_after("b")
        for name in "abc":
            rec.save(name, np.arange(3) + ord(name))
    names = [
        [entry["name"] for entry in json.loads((path / "manifest.json").read_text())["tensors"]]
        for path in (out, out.with_name("b"))
    ]
    assert names == [["early"], ["a", "b"]]


def test_load_finds_what_was_saved_and_what_is_committed(out: Path) -> None:
    record(out)
    with Recorder(out, script=__file__, reuse=out, lint="report") as rec:
        rec.save("y", np.arange(4.0))
        assert rec.load("y").tolist() == [0, 1, 2, 3]
        assert rec.load("x").shape == (2, 3)
        with pytest.raises(
            LookupError, match="neither this run nor the committed set has a tensor `yy`; similar names: `y`"
        ):
            rec.load("yy")
        with pytest.raises(LookupError, match="neither this run nor the committed set has a tensor `out`"):
            rec.load("out")  # A golden of another run is no golden of this one.
    assert ("input", "x") in {
        (entry["role"], entry["name"]) for entry in json.loads((out / "manifest.json").read_text())["tensors"]
    }


def test_weights_can_be_in_several_files(out: Path) -> None:
    with Recorder(out, script=__file__, shard_bytes=100) as rec:
        rec.weights({f"w{i}": np.arange(10, dtype=np.float32) + i for i in range(5)})
        rec.weights({"w": np.arange(3)}, prefix="text.", file="text.safetensors")
        rec.save("y", np.arange(2))
    entries = {entry["name"]: entry["file"] for entry in json.loads((out / "manifest.json").read_text())["tensors"]}
    assert [entries[f"w{i}"] for i in range(5)] == [f"weights-0000{at}-of-00003.safetensors" for at in (1, 1, 2, 2, 3)]
    assert entries["text.w"] == "text.safetensors"
    assert sorted(load_file(out / entries["w2"])) == ["w2", "w3"]


def test_a_floor_looks_only_at_what_can_be_measured() -> None:
    truth = np.array([1.0, np.inf, np.nan, 1e31, 3.0])
    golden = np.array([1.5, np.inf, np.nan, 2e31, 3.0], dtype=np.float32)
    floor = Floor.between(golden, truth)
    assert floor.max == 0.5
    assert floor.rms == pytest.approx(np.sqrt(0.125), rel=1e-15)
    assert Floor.between(np.zeros(0, np.float32), np.zeros(0)) == Floor(0.0, 0.0)
    assert Floor.between(np.array([3 + 4j], np.complex64), np.array([0j])) == Floor(5.0, 5.0)
    # Distances whose squares are too small for a float64 still count.
    assert Floor.between(np.full(4, 1e-200), np.zeros(4)).rms == pytest.approx(1e-200)
    with pytest.raises(ValueError, match="float64 truth"):
        Floor.between(golden, golden)


def test_a_refused_set_leaves_the_old_one_and_reports_why(out: Path, tmp_path: Path) -> None:
    before = record(out)
    report = tmp_path / "report.json"
    found = r"golden `y` is 0\.0 in all of its 4 elements"
    with pytest.raises(Refused, match=found), Recorder(out, script=__file__, report=report) as rec:
        rec.save("y", np.zeros(4))
    assert json.loads((out / "manifest.json").read_text()) == before
    written = json.loads(report.read_text())
    assert written["written"] is False
    assert [
        (finding["kind"], finding["role"], finding["name"], finding["accepted"]) for finding in written["findings"]
    ] == [("zero", "golden", "y", None)]


def test_what_is_pinned_in_a_loop_is_named_by_its_round(out: Path) -> None:
    with Recorder(out, script=__file__) as rec:
        for t in rec.axis("step", 2):
            noise = rec.pin("noise", np.arange(3) + t)
            assert rec.load("noise").tolist() == noise.tolist()
            rec.save("latents", noise * 2)
    names = [entry["name"] for entry in json.loads((out / "manifest.json").read_text())["tensors"]]
    assert names == ["step.0.noise", "step.1.noise", "step.0.latents", "step.1.latents"]
