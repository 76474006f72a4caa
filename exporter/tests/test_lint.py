"""The golden lint finds each planted mistake under its own kind, and a script can accept it with a reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import Recorder, Refused
from parity_export.finish import words
from parity_export.lint import KINDS

DRAW = np.random.default_rng(3)
X = DRAW.standard_normal((2, 3)).astype(np.float32)


def good(rec: Any) -> Any:
    return rec.input("x", X)


def constant(rec: Any) -> None:
    x = rec.save("z", good(rec) * 2)
    rec.save("y", x * 0 + 2)


def zero(rec: Any) -> None:
    x = rec.save("z", good(rec) * 2)
    rec.save("y", x * 0)


def not_finite(rec: Any) -> None:
    y = good(rec) * 2
    y[1, 2] = np.inf
    rec.save("y", y)


def same_bytes(rec: Any) -> None:
    rec.save("z", good(rec) * 2)
    rec.save("y", X * 2)


def captured_twice(rec: Any) -> None:
    x = good(rec)
    rec.save("y", x * 2)
    rec.save("y", x * 3)


def hits(rec: Any) -> None:
    rec.hits("y", 2)
    rec.save("y", good(rec) * 2)


def unused_input(rec: Any) -> None:
    rec.save("z", good(rec) * 2)
    rec.input("y", X + 1)


def unexported_draw(rec: Any) -> None:
    rec.save("y", good(rec) + np.random.standard_normal(3).astype(np.float32))


def unexported_seeded_draw(rec: Any) -> None:
    rec.save("y", good(rec) + np.random.default_rng(7).standard_normal(3).astype(np.float32))


def unexported_python_draw(rec: Any) -> None:
    rec.save("y", good(rec) + np.float32(random.random()))


COUNTER = [0]


def not_repeatable(rec: Any) -> None:
    COUNTER[0] += 1
    rec.save("y", good(rec) + np.float32(COUNTER[0]))


def truth_fails(rec: Any) -> None:
    x = good(rec)
    if rec.is_float64:
        raise NotImplementedError("no float64 here")
    rec.save("y", x * 2)


def truth_rounded(rec: Any) -> None:
    x = good(rec).reshape(-1).repeat(4)
    rec.save("y", (np.exp(x) if not rec.is_float64 else np.exp(x).astype("float32").astype("float64") * 2) + 0)


PLANTED: list[tuple[str, str, Callable[[Any], None]]] = [
    ("constant", "y", constant),
    ("zero", "y", zero),
    ("not-finite", "y", not_finite),
    ("same-bytes", "y", same_bytes),
    ("captured-twice", "y", captured_twice),
    ("hits", "y", hits),
    ("unused-input", "y", unused_input),
    ("unexported-draw", "y", unexported_draw),
    ("unexported-draw", "y", unexported_seeded_draw),
    ("unexported-draw", "y", unexported_python_draw),
    ("not-repeatable", "y", not_repeatable),
    ("no-truth", "*", truth_fails),
    ("truth-rounded", "y", truth_rounded),
]


@pytest.mark.parametrize(("kind", "name", "plant"), PLANTED, ids=[plant.__name__ for _, _, plant in PLANTED])
def test_a_planted_mistake_is_found_by_its_kind_and_can_be_accepted(
    export: Any, out: Path, kind: str, name: str, plant: Any
) -> None:
    assert export(plant).found() == [(kind, name)]

    def accepting(rec: Any) -> None:
        rec.accept(kind, name if name == "*" else "**", why="planted")
        plant(rec)

    made = export(accepting, lint="refuse")
    assert made.found() == []
    assert [(entry["kind"], entry["why"]) for entry in made.manifest["provenance"]["accepted"]] == [(kind, "planted")]
    with pytest.raises(Refused):
        export(plant, lint="refuse")


def test_a_sound_reference_has_no_findings(export: Any) -> None:
    made = export(lambda rec: rec.save("y", good(rec) * np.float32(1.1)), lint="refuse", script=__file__)
    assert made.report["findings"] == []


def test_goldens_and_inputs_are_compared_with_the_spec(
    export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(rec: Any) -> None:
        x = good(rec)
        rec.save("a", x * 2)
        rec.save("b", x * 3)
        rec.save("b", x * 4)

    expect = tmp_path / "expect.json"
    expect.write_text(
        '{"goldens": {"a": "bfloat16", "b": "float32", "b@1": null, "c": "float32"}, "inputs": ["x", "y"]}'
    )
    monkeypatch.setenv("PARITY_EXPECT", str(expect))
    assert export(reference).found() == [("dtype", "a"), ("missing", "c"), ("missing", "y")]
    expect.write_text('{"goldens": {"a": "float32"}}')
    made = export(reference)
    assert made.found() == []
    assert list(made.goldens) == ["a"]
    note = "left out 1 golden that the spec does not declare, first `b`; `new-spec --missing` lists them"
    assert made.report["notes"][0] == note
    expect.write_text("[]")
    with pytest.raises(
        ValueError, match=r'PARITY_EXPECT names `.*expect\.json`, expected JSON such as `{"goldens": {"norm"'
    ):
        export(reference)


def test_accepting_needs_a_kind_a_reason_and_a_cause(out: Path, export: Any) -> None:
    rec = Recorder(out, script=__file__)
    with pytest.raises(ValueError, match=r"`rec\.accept` names the finding `constnat`, expected one of zero, constant"):
        rec.accept("constnat", "y", why="x")
    with pytest.raises(ValueError, match=r'`rec\.accept\("constant", "y"\)` has an empty reason; state one in `why`'):
        rec.accept("constant", "y", why=" ")

    def reference(rec: Any) -> None:
        rec.accept("zero", "nowhere", why="it was once")
        rec.save("y", good(rec) * 2)

    assert export(reference).found() == [("unneeded", "nowhere")]


def test_a_recorder_by_itself_sees_draws_from_global_generators(out: Path) -> None:
    with Recorder(out, script=__file__) as rec:
        noise = rec.pin("noise", np.random.standard_normal((2, 3)))
        rec.save("fine", noise * 2)
    found = r"drew from `numpy\.random` before golden `y` and saved no input or weight since"
    with pytest.raises(Refused, match=found), Recorder(out, script=__file__) as rec:
        rec.save("y", np.random.standard_normal((2, 3)))


def test_every_kind_has_advice() -> None:
    elsewhere = {"dtype", "missing", "never-called", "no-effect", "no-gradient", "unneeded"}
    assert {kind for kind, _, _ in PLANTED} | elsewhere == set(KINDS)


def test_goldens_that_the_spec_does_not_declare_are_left_out(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = good(rec)
        rec.accept("zero", "mask", why="every token is visible")
        rec.hits("twice", 2)
        rec.save("mask", x * 0)
        rec.save("twice", x * 5)
        rec.save("twice", x * 6)
        # The same bytes as `twice`, which is not kept.
        rec.save("a", x * 5)
        rec.save("b", x * 10)

    made = export(reference, expect={"a": None, "b": None})
    assert made.found() == []
    assert list(made.goldens) == ["a", "b"]
    note = "left out 2 goldens that the spec does not declare, first `mask`; `new-spec --missing` lists them"
    assert made.report["notes"][0] == note
    everything = export(reference)
    assert list(everything.goldens) == ["mask", "twice", "twice@1", "a", "b"]
    assert everything.found() == [("same-bytes", "a")]

    def loads(rec: Any) -> None:
        x = good(rec)
        rec.save("a", x * 2)
        rec.save("b", rec.load("a") * 2)

    with pytest.raises(LookupError, match="golden `a` is left out, because the spec does not declare it"):
        export(loads, expect={"b": None})


def test_findings_of_a_loop_are_one_line(export: Any) -> None:
    def reference(rec: Any) -> None:
        rec.save("layers.0.out", good(rec) * 2)

    expect: dict[str, str | None] = {f"layers.{i}.out": "float32" for i in range(4)} | {"norm": None}
    report = export(reference, expect=expect).report
    assert len(report["findings"]) == 4
    lines = [line for line in words(report).splitlines() if line.startswith("finding")]
    text = "finding: missing: the spec declares golden `{}`, but the reference does not record it"
    assert lines == [text.format("layers.1.out") + " (and 2 more like it)", text.format("norm")]
