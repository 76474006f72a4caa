"""The examples in the README work, and the README describes every call and every finding."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import Recorder
from parity_export.lint import KINDS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def reference_of(text: str) -> Any:
    space: dict[str, Any] = {"__name__": "readme", "np": np}
    exec(compile(text, str(Path(__file__)), "exec"), space)
    return space["reference"]


def test_every_example_is_python() -> None:
    assert len(BLOCKS) == 5
    for text in BLOCKS:
        compile(text, "README.md", "exec")


def test_the_numpy_example_writes_a_sound_set(export: Any) -> None:
    (text,) = [text for text in BLOCKS if "np.tanh" in text]
    assert list(export(reference_of(text), lint="refuse", script=__file__).goldens) == ["out"]


def test_the_first_example_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("transformers", reason="needs transformers: install the `torch` group of references/")
    made = export(reference_of(BLOCKS[0]), lint="refuse", script=__file__)
    assert {"blocks.0.attn.q", "blocks.1.attn.softmax", "blocks.1.mlp.wo"} <= set(made.goldens)


def test_the_recorder_by_itself_example_writes_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = [text for text in BLOCKS if "with Recorder(" in text]
    monkeypatch.chdir(tmp_path)
    space = {
        "Recorder": Recorder,
        "__file__": __file__,
        "latents": np.arange(4.0),
        "prompt": "",
        "pipeline": lambda _, latents: latents * 2,
    }
    exec(text, space)
    manifest = json.loads((tmp_path / "fixtures" / "flux" / "latents" / "manifest.json").read_text())
    assert [entry["name"] for entry in manifest["tensors"]] == ["latents", "image"]


def test_every_call_and_every_finding_is_described() -> None:
    public = [name for name, _ in inspect.getmembers(Recorder) if not name.startswith("_")]
    inner = {"again", "capture", "first_value", "full", "is_first", "passes", "running", "used"}
    assert [name for name in public if name not in inner and f"`{name}" not in README] == []
    assert [kind for kind in KINDS if f"`{kind}`" not in README] == []
