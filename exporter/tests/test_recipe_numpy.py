"""Recipes of NumPy references."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import numpy_replay
from parity_export.numpy_trace import NumpyTracer, TracedArray
from parity_export.places import Places
from parity_export.provenance import Sources
from parity_export.recipe import Recipe
from parity_export.values import host

X = np.random.default_rng(0).standard_normal((2, 3, 4))
Y = np.random.default_rng(1).standard_normal((2, 3, 4))
IDS = np.array([[1, 0, 2], [2, 2, 1]])


class Traced:
    def __init__(self, call: Any, *inputs: Any):
        self.recipe, self.inputs = Recipe(), inputs
        tracer = NumpyTracer(self.recipe, Places(Sources(Path(__file__), "script.py")))
        given = [tracer.bind(x.copy(), self.recipe.leaf("input", str(at))) for at, x in enumerate(inputs)]
        self.output = call(*given)
        self.recipe.goldens = {"out": tracer.node_of(self.output)}

    @property
    def ops(self) -> list[str]:
        needed = (self.recipe.nodes[number].op for number in self.recipe.needed())
        return [op for op in needed if op not in ("input", "constant")]

    def check(self) -> None:
        values: dict[int, Any] = {}
        for number in self.recipe.needed():
            node = self.recipe.nodes[number]
            if node.op == "input":
                values[number] = numpy_replay.tensor_of(host(self.inputs[int(node.attributes["name"])]))
            elif node.op == "constant":
                values[number] = numpy_replay.tensor_of(self.recipe.constants[number].value)
            else:
                inputs = [values[one] if isinstance(one, int) else one for one in node.inputs]
                values[number] = numpy_replay.replay(node.op, inputs, node.attributes)
        np.testing.assert_allclose(values[self.recipe.goldens["out"]], self.output, rtol=1e-12, atol=1e-14)


def _assigned(x: Any, y: Any) -> Any:
    x = x.copy()
    x[:, 1] = y[:, 1] * 2
    x[0, 0] = 7
    x += 1
    return x


CASES: dict[str, tuple[Any, list[Any], str]] = {
    "operators": (lambda x, y: (1 - x) * y / 2 + 0.1, [X, Y], "sub mul div add"),
    "functions": (lambda x: np.tanh(np.exp(-np.abs(x))), [X], "abs neg exp tanh"),
    "comparisons": (lambda x, y: np.where(np.logical_and(x > y, x != 0), x, 0.0), [X, Y], "gt ne and where"),
    "sum": (lambda x: x.sum(axis=(0, -1)), [X], "sum"),
    "mean": (lambda x: np.mean(x * x, axis=-1, keepdims=True), [X], "mul mean"),
    "reduce": (np.maximum.reduce, [X], "max"),
    "a single number": (lambda x: x / x.max(), [X], "max div"),
    "var": (lambda x: x.var(axis=-1, ddof=1), [X], "var"),
    "argmax": (lambda x: x.argmax(axis=1), [X], "argmax"),
    "matmul": (lambda x, y: x @ y.swapaxes(1, 2), [X, Y], "permute matmul"),
    "dot": (lambda x, y: np.dot(x[0], y[0].T), [X, Y], "slice reshape slice reshape permute matmul"),
    "einsum": (lambda x, y: np.einsum("bij,bkj", x, y), [X, Y], "einsum"),
    "forms": (lambda x: x.reshape(6, 4).T[None].squeeze(), [X], "reshape permute reshape reshape"),
    "joins": (lambda x, y: np.stack([np.concatenate([x, y], -1)] * 2), [X, Y], "cat stack"),
    "split": (lambda x: np.split(x, 2, axis=-1)[1], [X], "slice"),
    "indices": (lambda x, i: x.take(i, axis=1), [X, IDS], "take"),
    "rows": (lambda x, i: x[i], [X, IDS % 2], "take"),
    "casts": (lambda x: (x * 3).astype(np.int64), [X], "mul cast"),
    "clip": (lambda x: np.clip(x, -0.5, None), [X], "clamp"),
    "cumsum": (lambda x: np.cumsum(x, axis=1), [X], "cumsum"),
    "a constant": (lambda x: x * np.array([0.1, 0.2, 0.3, 0.4]), [X], "mul"),
    "assignment": (_assigned, [X, Y], "slice reshape mul reshape put_slices put_slices add"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_becomes_its_operations(name: str) -> None:
    call, inputs, ops = CASES[name]
    traced = Traced(call, *inputs)
    assert traced.ops == ops.split()
    traced.check()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda x: np.linalg.norm(x, axis=-1), "uses `numpy.norm`, which recipes do not know"),
        (np.arcsin, "uses `numpy.arcsin`, which recipes do not know"),
        (lambda x: x[::-1], "counts backwards in an index"),
        (lambda x: np.add(x, 1, where=x > 0, out=np.zeros_like(x)), "uses `numpy.add`, which recipes do not know"),
        (lambda x: x.byteswap(), "uses a method of NumPy that recipes do not know"),
        (lambda x: x.view(np.int64), "uses a method of NumPy that recipes do not know"),
    ],
)
def test_what_recipes_cannot_describe_is_unknown(call: Any, why: str) -> None:
    with np.errstate(all="ignore"):
        assert Traced(call, X).recipe.blocked()["out"].startswith(why)


def test_a_narrow_number_means_its_shortest_digits() -> None:
    assert Traced(lambda x: x + np.float32(0.1), X).recipe.nodes[-1].inputs == [0, [0.1]]


def test_a_change_through_a_view_makes_the_others_unknown() -> None:
    def call(x: Any) -> Any:
        first = x[0]
        first *= 2
        return x

    assert list(Traced(call, X).recipe.blocked().values()) == ["was changed in place in a way that recipes do not know"]


def test_traced_arrays_compute_what_ordinary_ones_do() -> None:
    for call, inputs, _ in CASES.values():
        narrow = [x.astype(np.float32) if x.dtype == np.float64 else x for x in inputs]
        found, expected = Traced(call, *narrow).output, call(*(x.copy() for x in narrow))
        assert host(found).same_as(host(expected))
        assert isinstance(found, (TracedArray, np.generic))


REFERENCE = """
import sys
import numpy as np
from parity_export import run

def reference(rec):
    w = rec.weights({"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 7})
    x = rec.input("x", np.arange(8, dtype=np.float32).reshape(2, 4) / 3)
    rec.save("y", np.tanh(x @ w["w"].T))
    rec.save("lost", np.asarray(x) * np.float32(0.3))

print(run(reference, sys.argv[1], script=__file__)["counts"]["recipes"])
"""


def test_an_export_has_recipes_and_an_array_that_lost_its_history_is_no_constant(tmp_path: Path) -> None:
    script = tmp_path / "reference.py"
    script.write_text(REFERENCE)
    # In a process of its own, since NumPy is not traced beside torch and MLX.
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "set")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    found = json.loads((tmp_path / "set" / "recipes.json").read_text())
    assert [node[0] for node in found["nodes"]] == ["weight", "permute", "input", "matmul", "tanh", "unknown"]
    assert found["nodes"][4] == ["tanh", [3], {}, 0, 9]
    assert found["sources"] == ["reference.py"]
    assert found["nodes"][5][2]["why"] == "comes from an input by operations that are not traced"
