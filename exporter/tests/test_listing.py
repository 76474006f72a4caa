"""`python SCRIPT --list`: names with dtypes and shapes, with the params of the spec, and a listing as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parity_export.spec_params import params_of_script

EXPORTER = Path(__file__).parent.parent

SCRIPT = """
import numpy as np
from parity_export import main

def reference(rec, dim, layers=2, name="plain", scale=(1, 2)):
    draw = np.random.default_rng(0)
    w = rec.weights({"up": draw.standard_normal((dim, dim)).astype(np.float32)})
    x = rec.input("x", draw.standard_normal((3, dim)).astype(np.float32))
    for i in rec.axis("layers", layers):
        x = rec.save("out", np.tanh(x @ w["up"]))
    rec.save("mask", x > 5)
    rec.save("ids", np.argmax(x, -1))

if __name__ == "__main__":
    main(reference)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "exporter").mkdir()
    (tmp_path / "exporter" / "reference.py").write_text(SCRIPT)
    (tmp_path / "parity-specs" / "m").mkdir(parents=True)
    return tmp_path


def spec(project: Path, reference: str, name: str = "part") -> None:
    text = f"version: 1\nport: m::part\n{reference}\ninputs: [x]\ncheckpoints: []\n"
    (project / "parity-specs" / "m" / f"{name}.yaml").write_text(text)


def listed(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPORTER), *sys.path]), **environment}
    command = [sys.executable, "exporter/reference.py", "--list", *arguments]
    return subprocess.run(command, check=False, env=own, capture_output=True, text=True, cwd=project)


def test_a_listing_has_the_params_of_the_spec(project: Path) -> None:
    spec(project, "reference:\n  script: exporter/reference.py   # here\n  params: {dim: 4, layers: 3}")
    done = listed(project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2] == "layers.2.out  float32 [3, 4]"
    assert "m/part.yaml`" in done.stderr
    # An argument wins over the spec, and `cargo parity` over both.
    assert listed(project, "--param", "dim=5").stdout.splitlines()[0] == "layers.0.out  float32 [3, 5]"
    block = json.dumps({"script": "exporter/reference.py", "params": {"dim": 6}})
    assert listed(project, PARITY_REFERENCE=block).stdout.splitlines()[0] == "layers.0.out  float32 [3, 6]"


def test_a_listing_can_be_read_by_a_program(project: Path) -> None:
    done = listed(project, "--param", "dim=4", "--param", "name=a b", "--report", "listing.json")
    assert "no spec names this script" in done.stderr
    found = json.loads((project / "listing.json").read_text())
    assert found["params"] == {"dim": 4, "layers": 2, "name": "a b", "scale": [1, 2]}
    out = {"name": "layers.0.out", "dtype": "float32", "shape": [3, 4], "finding": None, "why": None}
    assert found["goldens"][0] == out
    assert found["goldens"][2]["why"].startswith("golden `mask` is False in all of its ")
    assert [(golden["name"], golden["finding"]) for golden in found["goldens"][2:]] == [("mask", "zero"), ("ids", None)]
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3, 4]}]
    assert found["weights"] == [{"name": "up", "dtype": "float32", "shape": [4, 4], "file": None}]
    assert not (project / "unused").exists()


def test_a_listing_names_hooks_that_recorded_nothing(project: Path) -> None:
    script = project / "exporter" / "reference.py"
    hook = 'rec.lint.add("never-called", "attn", "no point matches `attn`")'
    script.write_text(SCRIPT.replace('rec.save("mask", x > 5)', hook))
    listed(project, "--param", "dim=4", "--report", "listing.json")
    assert json.loads((project / "listing.json").read_text())["unmatched"] == ["no point matches `attn`"]


@pytest.mark.slow
def test_wrong_arguments_of_a_listing(project: Path) -> None:
    assert "`--param dim` is not NAME=VALUE" in listed(project, "--param", "dim").stderr
    assert "the reference takes `dim`, which has no default" in listed(project).stderr
    spec(project, "reference: {script: exporter/reference.py, params: {dim: 4}}")
    spec(project, "reference: {script: exporter/reference.py, params: {dim: 8}}", "other")
    done = listed(project)
    assert done.returncode == 2
    assert "with different params; name one of them with `--spec`" in done.stderr
    chosen = listed(project, "--spec", "parity-specs/m/part.yaml")
    assert chosen.stdout.splitlines()[0] == "layers.0.out  float32 [3, 4]"


@pytest.mark.slow
def test_a_reference_that_fails_shows_where(project: Path) -> None:
    script = project / "exporter" / "reference.py"
    script.write_text(SCRIPT.replace('rec.save("mask", x > 5)', 'raise ValueError("no such luck")'))
    done = listed(project, "--param", "dim=4")
    assert done.returncode == 1
    assert "in reference\n    raise ValueError" in done.stderr and "usage:" not in done.stderr


PARAMS = "reference:\n  script: exporter/reference.py\n  params:\n"


@pytest.mark.parametrize(
    ("block", "params"),
    [
        ("reference: {script: exporter/reference.py}", {}),
        ("reference:\n  script: exporter/reference.py\n  params:\n    eps: 1e-6\n    theta: 1e6\n    on: true\n",
         {"eps": 1e-6, "theta": 1e6, "on": True}),
        ("reference:\n  params: {a: [1, 2.5, 'x, y'], b: {c: null}, \"d e\": no}\n  script: exporter/reference.py",
         {"a": [1, 2.5, "x, y"], "b": {"c": None}, "d e": "no"}),
        ("reference:\n  script: 'exporter/reference.py'\n  params: {a: 1,   # first\n    b: -2}\n", {"a": 1, "b": -2}),
        ("reference:\n    script: exporter/reference.py\n    params:\n        names:\n          - a\n          - b c\n",
         {"names": ["a", "b c"]}),
        (PARAMS + "    cases:\n      - a: 1\n        b: {c: 2}\n      - a: 3\n",
         {"cases": [{"a": 1, "b": {"c": 2}}, {"a": 3}]}),
        (PARAMS + "    {a: 1,\n     b: [2, 3]}\n", {"a": 1, "b": [2, 3]}),
        (PARAMS + "    texts:\n      - a boat\n        at dawn\n      - [1,\n        2]\n",
         {"texts": ["a boat at dawn", [1, 2]]}),
    ],
)  # fmt: skip
def test_the_forms_in_which_specs_write_params(project: Path, block: str, params: dict[str, Any]) -> None:
    spec(project, block)
    found = params_of_script(project / "exporter" / "reference.py")
    assert found is not None
    assert found[1] == params


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ("{a: &b 1}", "`&b 1}`"),
        ("|\n    text", "`| text`"),
        ("{a: 1", "it ends early"),
        ("{a: 1} 2", "`2` follows a value"),
        ("{a}", "`a` is not followed by `: `"),
        ("{a:1}", "`a` is not followed by `: `"),
        ("{a: 1, a: 2}", "a key is given twice"),
        ("{a: 0x10}", "`0x10`, which YAML readers take differently"),
        ("{a: 010}", "`010`"),
        ("{a: 1_000}", "`1_000`"),
        ("{a: .inf}", "`.inf`"),
        ("{a: True}", "`True`"),
        ("[1, 2]", "`params` is no mapping"),
        ("{a: 'it''s'}", "follows a value"),
        ('{a: "\\t"}', "a backslash in quotes"),
        ("\n    a: 1\n    a: 2", "a key is given twice"),
        ("\n    <<: *base", "`*base`"),
        ("\n    &b a: 1", "`&b a: 1` is not `key: value`"),
        ("\n    a:\n      - b: 1\n       c: 2", "`: 2` follows a value"),
        ("\n    a:\n      - [1,\n        2", "it ends early"),
        ("\n    a:\n      - 1\n      b: 2", "`b: 2` is not `- value`"),
        ("\n    a:\n      - - 1", "`- - 1` is not `- value`"),
        ("\n\ta: 1", "not indented with spaces"),
    ],
)
def test_other_forms_are_refused(project: Path, params: str, what: str) -> None:
    spec(project, f"reference:\n  script: exporter/reference.py\n  params: {params}")
    with pytest.raises(ValueError, match="run `cargo parity regenerate-fixtures --list` with the name of") as refused:
        params_of_script(project / "exporter" / "reference.py")
    assert what in str(refused.value)


@pytest.mark.parametrize(
    "block",
    [
        '"reference": {script: exporter/reference.py, params: {dim: 4}}',
        "reference : {script: exporter/reference.py, params: {dim: 4}}",
        "? reference\n: {script: exporter/reference.py, params: {dim: 4}}",
        "reference: exporter/reference.py",
    ],
)
def test_params_in_another_form_never_become_the_defaults(project: Path, block: str) -> None:
    spec(project, block)
    with pytest.raises(ValueError, match="cannot be read here"):
        params_of_script(project / "exporter" / "reference.py")


def test_the_params_of_the_bundled_specs_are_read_as_the_commands_read_them() -> None:
    root = EXPORTER.parent
    refused = {}
    for path in sorted((root / "parity-specs").rglob("*.yaml")):
        manifest = root / "fixtures" / path.relative_to(root / "parity-specs").with_suffix("") / "manifest.json"
        if not manifest.is_file():
            continue
        known = json.loads(manifest.read_text())["made_by"]
        try:
            found = params_of_script(root / known["script"], path)
        except ValueError as error:
            refused[path.name] = str(error)
            continue
        assert found is not None
        assert found[1] == known["params"], path
    # Text in blocks is for the commands.
    assert list(refused) == ["t5.yaml", "chat.yaml"]
    assert "`>- an oil" in refused["t5.yaml"] and "`|- {%- if" in refused["chat.yaml"]
