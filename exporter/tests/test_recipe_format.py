"""The graph of recipes and its file: what is stored, in which order, and what a check makes of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from parity_export import numpy_replay
from parity_export.einsum import explicit
from parity_export.floor import Floor
from parity_export.recipe import Recipe, Unknown, from_number, number_of, written
from parity_export.recipe_check import Wanted, check
from parity_export.recipe_run import WHY_CHANGES, drop_changing, give_twins
from parity_export.values import Value, host
from parity_export.views import Geometry, View, relate

X = np.array([[1.0, -2.0, 3.0]])


def small() -> Recipe:
    recipe = Recipe()
    place = ("pkg/model.py", 7)
    x, unused = recipe.leaf("input", "x"), recipe.leaf("weight", "unused")
    table = recipe.constant(host(np.array([0.1, 0.2, 0.3])), place)
    recipe.add("neg", [unused], {}, place)
    scaled = recipe.add("mul", [x, table], {}, place)
    recipe.goldens["out"] = recipe.add("clamp", [scaled], {"min": "-inf", "max": None}, ("script.py", 3))
    recipe.goldens["again"] = recipe.goldens["out"]
    recipe.missing["other"] = "why"
    return recipe


def test_the_file_has_a_node_per_line_and_only_what_goldens_need() -> None:
    text, constants = written(small())
    assert text == (
        '{\n "format": 1,\n "sources": ["pkg/model.py","script.py"],\n "nodes": [\n'
        '  ["input",[],{"name":"x"}],\n'
        '  ["constant",[],{"name":"constant.0"},0,7],\n'
        '  ["mul",[0,1],{},0,7],\n'
        '  ["clamp",[2],{"min":"-inf","max":null},1,3]\n'
        ' ],\n "goldens": {\n  "out": 3,\n  "again": 3\n },\n "missing": {\n  "other": "why"\n }\n}\n'
    )
    assert {name: value.wide().tolist() for name, value in constants.items()} == {"constant.0": [0.1, 0.2, 0.3]}
    assert json.loads(text)["goldens"] == {"out": 3, "again": 3}


def test_an_empty_recipe_is_a_file_too() -> None:
    found = json.loads(written(Recipe(missing={"x": "why"}))[0])
    assert found == {"format": 1, "sources": [], "nodes": [], "goldens": {}, "missing": {"x": "why"}}


def test_equal_constants_are_stored_once_and_whole_numbers_as_full() -> None:
    recipe = Recipe()
    table = host(np.array([0.1, 0.2]))
    first, second = recipe.constant(table, None), recipe.constant(table, None)
    whole = recipe.constant(host(np.full((2, 3), -np.inf)), None)
    recipe.goldens = {"a": recipe.add("add", [first, second], {}), "b": whole}
    text, constants = written(recipe)
    assert list(constants) == ["constant.0"]
    assert json.loads(text)["nodes"][0] == ["full", [], {"shape": [2, 3], "value": "-inf"}]


@pytest.mark.parametrize(
    ("number", "kept"),
    [(True, 1), (np.int64(3), 3), (0.1, 0.1), (np.float32(0.5), 0.5), (float("inf"), "inf"), (float("nan"), "nan")],
)
def test_every_number_survives(number: Any, kept: Any) -> None:
    assert number_of(number) == kept
    assert from_number(kept) == pytest.approx(float(number), nan_ok=True)


def test_a_number_of_another_kind_is_unknown() -> None:
    with pytest.raises(Unknown, match="`complex`"):
        number_of(1j)


@pytest.mark.parametrize(
    ("equation", "ranks", "full"),
    [
        ("bij, jk -> bik", [3, 2], "bij,jk->bik"),
        ("ij,jk", [2, 2], "ij,jk->ik"),
        ("ba", [2], "ba->ab"),
        ("...j,jk->...k", [3, 2], "ABj,jk->ABk"),
        ("...ij,...jk", [4, 3], "ABij,Bjk->ABik"),
        ("...,...->", [1, 1], "A,A->"),
    ],
)
def test_equations_are_written_in_full(equation: str, ranks: list[int], full: str) -> None:
    assert explicit(equation, ranks) == full


def checked(recipe: Recipe, wanted: dict[str, Wanted]) -> Recipe:
    check(recipe, {("input", "x"): host(X), ("weight", "unused"): host(X)}, wanted, numpy_replay)
    return recipe


def right() -> Value:
    return host(X * np.array([0.1, 0.2, 0.3]))


def test_a_recipe_that_reproduces_its_golden_stays() -> None:
    wanted = dict.fromkeys(("out", "again"), Wanted(right(), right(), None))
    assert list(checked(small(), wanted).goldens) == ["out", "again"]


@pytest.mark.parametrize(("far", "stays"), [(1e-12, True), (1e-8, False)])
def test_a_recipe_that_differs_from_the_float64_run_goes(far: float, stays: bool) -> None:
    off = host(right().wide() * (1 + far))
    recipe = checked(small(), dict.fromkeys(("out", "again"), Wanted(off, off, None)))
    assert ("out" in recipe.goldens) is stays
    if not stays:
        assert recipe.missing["out"].startswith("the recipe does not reproduce the float64 run: it is off by 1.0e-08")
        assert json.loads(written(recipe)[0])["nodes"] == []


@pytest.mark.parametrize(("far", "floor", "stays"), [(5e-4, None, True), (2e-3, None, False), (0.1, 1.0, True)])
def test_without_a_float64_run_the_golden_counts(far: float, floor: float | None, stays: bool) -> None:
    off = host(right().wide() * (1 + far))
    wanted = Wanted(off, None, None if floor is None else Floor(floor, floor))
    assert ("out" in checked(small(), dict.fromkeys(("out", "again"), wanted)).goldens) is stays


def test_a_golden_behind_an_unknown_value_is_a_start_for_others() -> None:
    recipe = Recipe()
    start = recipe.add("exp", [recipe.add("unknown", [], {"why": "uses magic"})], {})
    recipe.goldens = {"start": start, "good": recipe.add("neg", [start], {}), "bad": recipe.add("abs", [start], {})}
    wanted = {name: Wanted(host(value), host(value), None) for name, value in [("start", X), ("good", -X), ("bad", X)]}
    checked(recipe, wanted)
    assert list(recipe.goldens) == ["start", "good"]
    assert list(recipe.missing) == ["bad"]
    assert recipe.blocked() == {"start": "uses magic", "good": "uses magic"}


def test_masks_beyond_any_number_are_compared_by_their_place() -> None:
    huge = np.array([1.0, -3.4e38, -np.inf])
    assert Wanted(host(huge), host(huge), None).problem(np.array([1.0, -1.8e308, -np.inf])) is None
    assert Wanted(host(huge), host(huge), None).problem(np.array([1.0, -3.4e38, 5.0])) is not None


def test_integers_must_be_the_same() -> None:
    whole = host(np.array([1, 2]))
    assert Wanted(whole, whole, None).problem(np.array([1.0, 2.0])) is None
    assert Wanted(whole, whole, None).problem(np.array([1.0, 3.0])) is not None


def test_constants_get_their_float64_twins_and_those_that_change_with_inputs_go() -> None:
    def with_table(numbers: Any) -> Recipe:
        recipe = Recipe()
        recipe.goldens["out"] = recipe.constant(host(numbers), ("pkg/model.py", 7))
        return recipe

    exact = np.array([1 / 3, 2 / 3])
    recipe = with_table(exact.astype(np.float32))
    give_twins(recipe, with_table(exact))
    (constant,) = recipe.constants.values()
    assert constant.truth is not None and constant.truth.wide().tolist() == exact.tolist()
    drop_changing(recipe, with_table(exact.astype(np.float32)))
    assert recipe.blocked() == {}
    drop_changing(recipe, with_table(2 * exact.astype(np.float32)))
    assert recipe.blocked() == {"out": WHY_CHANGES}


def test_literals_that_were_rounded_get_their_float64_numbers() -> None:
    def scaled(*numbers: float) -> Recipe:
        recipe = Recipe()
        node = recipe.leaf("input", "x")
        for number in numbers:
            node = recipe.add("mul", [node, [number]], {}, ("pkg/model.py", 7))
        recipe.goldens["out"] = node
        return recipe

    recipe = scaled(float(np.float32(0.001)), 2.0, 5.0)
    give_twins(recipe, scaled(0.001, 2.0, 5.1))
    assert [node.inputs[1] for node in recipe.nodes[1:]] == [[0.001], [2.0], [5.0]]


def geometry(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Geometry:
    return Geometry(offset, shape, strides, "float32")


@pytest.mark.parametrize(
    ("view", "slices", "axes"),
    [
        (geometry(0, (2, 3, 4), (12, 4, 1)), (), (0, 1, 2)),
        (geometry(4, (2, 4), (12, 1)), ((1, 1, 2, 1),), (0, 1, 2)),
        (geometry(1, (2, 3, 2), (12, 4, 2)), ((2, 1, 4, 2),), (0, 1, 2)),
        (geometry(0, (4, 3), (1, 4)), ((0, 0, 1, 1),), (2, 1, 0)),
    ],
)
def test_views_are_found_by_their_strides(view: Geometry, slices: Any, axes: Any) -> None:
    found = relate(geometry(0, (2, 3, 4), (12, 4, 1)), view)
    assert found == View((2, 3, 4), slices, axes, view.shape, view.shape)


def test_windows_that_overlap_are_no_views_that_recipes_know() -> None:
    assert relate(geometry(0, (2, 3, 4), (12, 4, 1)), geometry(0, (3, 2), (2, 1))) is None
    assert relate(geometry(0, (3, 2), (1, 1)), geometry(1, (2,), (1,))) is None
