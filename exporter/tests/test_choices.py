"""Choices: probabilities of which only the largest are stored, and ids that every run goes on with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parity_export.choices import top_rows


def golden(made: Any, name: str) -> Any:
    return made.tensor("golden", name).wide()


def drawn(rec: Any, vocabulary: int = 9, rows: int = 4) -> Any:
    x = np.random.default_rng(0).standard_normal((rows, vocabulary)).astype(np.float32)
    return rec.input("x", x)


def test_the_most_probable_ids_have_their_log_probabilities(export: Any) -> None:
    made = export(lambda rec: rec.distribution("logits", drawn(rec) * 2, top=3))
    found, logits = golden(made, "logits"), 2 * made.tensor("input", "x").wide()
    assert made.goldens["logits"]["dtype"] == "float64" and found.shape == (4, 4, 2)
    exact = np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))
    for row in range(4):
        ids = found[row, :3, 1].astype(int)
        assert list(ids) == list(np.argsort(-logits[row])[:3])
        assert np.allclose(found[row, :3, 0], exact[row, ids], atol=1e-12)
        assert found[row, 3, 1] == 9 and np.isclose(found[row, 3, 0], np.log(np.exp(logits[row]).sum()))


def test_every_run_measures_the_ids_of_the_first(export: Any) -> None:
    def reference(rec: Any) -> None:
        logits = drawn(rec) * np.float32(1)
        if rec.is_float64:
            # As if the float64 run had rounded two logits the other way.
            logits = logits[:, ::-1]
        rec.distribution("logits", logits, top=3)

    made = export(reference)
    logits = made.tensor("input", "x").wide()
    first, truth = top_rows(logits, 3), top_rows(logits[:, ::-1], 3, top_rows(logits, 3)[..., :-1, 1].astype(int))
    assert np.isclose(made.goldens["logits"]["floor"]["max"], np.abs(first - truth).max())
    assert made.goldens["logits"]["floor"]["max"] < 8, "an id is never compared with another id"


def test_a_choice_is_the_same_in_every_run(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = drawn(rec)
        ids = rec.choice("ids", x.argmax(-1) if not rec.is_float64 else x.argmin(-1))
        rec.save("chosen", np.take_along_axis(x, ids[:, None], -1) * np.float32(1 / 3))

    made = export(reference)
    assert list(made.goldens) == ["ids", "chosen"]
    assert made.goldens["chosen"]["floor"]["max"] < 1e-6, "the float64 run went on with the ids of the first"
    assert list(golden(made, "ids")) == list(made.tensor("input", "x").wide().argmax(-1))


def test_hits_and_scopes_have_choices_of_their_own(export: Any) -> None:
    def reference(rec: Any) -> None:
        x = drawn(rec, rows=2)
        rec.hits("step.*.id", 1)
        for step in rec.axis("step", 2):
            rec.distribution("logits", x[step], top=2)
            assert rec.choice("id", x[step].argmax()) == made_first.setdefault(step, x[step].argmax())

    made_first: dict[int, Any] = {}
    made = export(reference)
    assert list(made.goldens) == ["step.0.logits", "step.0.id", "step.1.logits", "step.1.id"]
    assert golden(made, "step.0.logits").shape == (3, 2)


def test_the_same_choice_twice_is_no_finding(export: Any) -> None:
    def reference(rec: Any) -> None:
        ids = drawn(rec).argmax(-1)
        rec.choice("first", ids)
        rec.choice("second", ids)

    assert list(export(reference).goldens) == ["first", "second"]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda rec, x: rec.distribution("a", x, top=1), "has `top=1`, expected 2 to 9"),
        (lambda rec, x: rec.distribution("a", x, top=10), "each row has 9 logits"),
        (lambda rec, x: rec.distribution("a", x.astype(int), top=2), "needs rows of floating-point logits"),
        (lambda rec, x: rec.choice("a", x), "`rec.choice` needs ids, which are integers"),
    ],
)
def test_what_is_no_choice_is_refused(export: Any, act: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        export(lambda rec: act(rec, drawn(rec)))


def test_without_top_the_logits_are_the_golden(export: Any) -> None:
    made = export(lambda rec: rec.distribution("logits", drawn(rec) * 3))
    assert golden(made, "logits").shape == (4, 9) and made.goldens["logits"]["dtype"] == "float32"
