"""Floors by block: the reference runs once, and each block again, alone, in float64."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

F = torch.nn.functional
Module: Any = torch.nn.Module


class Layer(Module):
    """Casts to float32 inside, writes to its input, and counts its calls, as real layers do."""

    def __init__(self, dim: int):
        super().__init__()
        self.up = torch.nn.Linear(dim, 2 * dim)
        self.down = torch.nn.Linear(2 * dim, dim)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("total", torch.zeros(dim), persistent=False)
        self.history: list[Any] = []

    def forward(self, x: Any, scale: float = 1.0, cache: Any = None) -> Any:
        self.calls.add_(1)
        hidden = F.silu(self.up(x).float())
        if cache is not None:
            cache.keys.append(hidden)
            hidden = torch.stack(cache.keys).sum(0)
        x.add_(self.down(hidden) * scale)
        self.total.add_(x.mean((0, 1)))
        self.history.append(x.sum())
        return x + self.total / self.calls + self.history[-1] / 1e3


class Model(Module):
    def __init__(self, dim: int = 8, layers: int = 3):
        super().__init__()
        self.embed = torch.nn.Embedding(20, dim)
        self.layers = torch.nn.ModuleList(Layer(dim) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(dim)
        self.head = torch.nn.Linear(dim, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, scale=0.5)
        x = self.layers[0](x)
        return self.head(self.norm(x)) * 2


def reference(rec: Any, mode: str | None = "by-block", blocks: Any = None) -> None:
    if mode is not None:
        rec.floors(mode, blocks=blocks)
    model = rec.weights(Model().eval(), vary=0.1)
    ids = rec.input("ids", torch.randint(0, 20, (1, 5)))
    rec.hook(model, {"root": "logits", "**": True})
    rec.hits("layers.0.*", 2)
    rec.hits("layers.0", 2)
    model(ids)


def test_a_floor_is_the_distance_from_the_block_alone_on_golden_inputs(export: Any) -> None:
    made = export(reference, script=__file__)
    assert made.manifest["provenance"]["passes"] == ["native", "blocks in float64"]
    goldens = made.goldens
    assert {goldens[f"layers.{i}.up"]["floor_block"] for i in (0, 1, 2)} == {"layers.0", "layers.1", "layers.2"}
    # The layer writes to its input, so the golden of the layer before is what it received.
    x, weight = made.tensor("golden", "layers.0").wide(), made.tensor("weight", "layers.1.up.weight").wide()
    truth = x @ weight.T + made.tensor("weight", "layers.1.up.bias").wide()
    error = np.abs(made.tensor("golden", "layers.1.up").wide() - truth)
    assert goldens["layers.1.up"]["floor"]["max"] == pytest.approx(error.max(), rel=1e-6)
    assert goldens["layers.1.up"]["floor"]["max"] > 0


def test_the_goldens_are_those_of_an_ordinary_export(export: Any, tmp_path: Any) -> None:
    made = export(reference, script=__file__)
    whole = export(lambda rec: reference(rec, None), tmp_path / "whole", script=__file__, recipes=False)
    assert [entry["sha256"] for entry in made.entries.values()] == [entry["sha256"] for entry in whole.entries.values()]
    # Ids are an input of the set, so nothing was computed before the first module: its floor is that of the whole.
    first, other = made.goldens["embed"], whole.goldens["embed"]
    assert (first["floor"], first.get("floor_block")) == (other["floor"], None)
    local, accumulated = made.goldens["norm"]["floor"]["rms"], whole.goldens["norm"]["floor"]["rms"]
    assert 0 < local < accumulated
    assert not any("floor_block" in entry for entry in whole.goldens.values())


def test_the_model_as_one_block_gives_the_floors_of_the_whole(export: Any, tmp_path: Any) -> None:
    made = export(lambda rec: reference(rec, blocks="root"), script=__file__)
    whole = export(lambda rec: reference(rec, None), tmp_path / "whole", script=__file__, recipes=False)
    assert len(made.goldens) == len(whole.goldens) > 10
    for name, entry in whole.goldens.items():
        # Weights are widened where they are used, so float64 sums may run in another order.
        assert made.goldens[name]["floor"]["rms"] == pytest.approx(entry["floor"]["rms"], rel=1e-3), name
        assert "floor_block" not in made.goldens[name]


def test_the_reference_runs_once(export: Any) -> None:
    runs = []

    def counted(rec: Any) -> None:
        runs.append(rec.is_float64)
        reference(rec)

    export(counted, script=__file__)
    assert runs == [False]


def test_what_no_block_computes_has_no_floor_and_a_reason(export: Any) -> None:
    made = export(reference, script=__file__)
    assert made.goldens["logits"]["no_floor"].startswith("it is computed outside all blocks; name its module")
    assert made.goldens["head"]["floor_block"] == "head"


def test_a_tensor_that_a_block_returned_has_the_floor_of_the_block(export: Any) -> None:
    def saving(rec: Any) -> None:
        rec.floors("by-block")
        layer = rec.weights(torch.nn.Linear(8, 8))
        x = rec.input("x", torch.randn(3, 8))
        out = rec.save("out", layer(x))
        rec.save("twice", out * 2)
        out += 1
        rec.save("changed", out)

    made = export(saving)
    truth = (
        made.tensor("input", "x").wide() @ made.tensor("weight", "weight").wide().T
        + made.tensor("weight", "bias").wide()
    )
    error = np.abs(made.tensor("golden", "out").wide() - truth)
    assert made.goldens["out"]["floor"]["max"] == pytest.approx(error.max(), rel=1e-6)
    assert "floor_block" not in made.goldens["out"]
    assert {name for name, entry in made.goldens.items() if "no_floor" in entry} == {"twice", "changed"}


class InPlace(Module):
    def forward(self, x: Any) -> Any:
        return x.mul_(1 / 3)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_block_may_return_the_tensor_that_it_received(export: Any, mode: str) -> None:
    def chain(rec: Any) -> None:
        rec.floors("by-block")
        model = torch.nn.ModuleList([torch.nn.Linear(8, 8), InPlace(), torch.nn.Identity()])
        rec.weights(model)
        rec.hook(model, ["0", "1"])
        rec.hook(model, {"2": "received"}, at="input")
        x = rec.input("x", torch.randn(3, 8))
        with getattr(torch, mode)():
            for part in model:
                x = part(x)

    made = export(chain)
    third = made.goldens["1"]
    assert third["floor_block"] == "1"
    assert 0 < third["floor"]["max"] < 1e-6
    if mode == "no_grad":
        # It is what block 1 returned.
        assert (made.goldens["received"]["floor"], made.goldens["received"]["floor_block"]) == (third["floor"], "1")


def test_a_copy_of_a_model_is_no_block(export: Any) -> None:
    def copied(rec: Any) -> None:
        rec.floors("by-block")
        model = rec.weights(torch.nn.Linear(8, 8))
        other = copy.deepcopy(model)
        other.weight.mul_(2)
        x = rec.input("x", torch.randn(3, 8))
        rec.save("out", model(x))
        rec.save("other", other(x))

    made = export(copied)
    assert "floor" in made.goldens["out"]
    assert "no_floor" in made.goldens["other"]


class Cache:
    def __init__(self) -> None:
        self.keys: list[Any] = []


def test_objects_that_a_block_changes_are_copied_for_its_float64_run(export: Any, tmp_path: Any) -> None:
    def cached(rec: Any, mode: str | None = "by-block") -> None:
        if mode is not None:
            rec.floors("by-block")
        layer, cache = rec.weights(Layer(8).eval(), vary=0.1), Cache()
        rec.hook(layer, {"root": "out"})
        rec.hits("out", 2)
        x = rec.input("x", torch.randn(1, 3, 8))
        layer(layer(x.clone(), cache=cache), 1.0, cache)
        assert len(cache.keys) == 2

    made = export(cached)
    whole = export(lambda rec: cached(rec, None), tmp_path / "whole")
    assert made.tensor("golden", "out@1").same_as(whole.tensor("golden", "out@1"))
    # The cache holds what was computed before, so even the first call is not that of inputs alone.
    assert [made.goldens[name]["floor_block"] for name in ("out", "out@1")] == ["root", "root"]
    assert 0 < made.goldens["out@1"]["floor"]["rms"] < 8 * whole.goldens["out@1"]["floor"]["rms"]


def test_a_block_that_draws_has_no_floor(export: Any) -> None:
    def dropping(rec: Any) -> None:
        rec.floors("by-block")
        model = rec.weights(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)))
        rec.hook(model, ["0", "1"])
        model(rec.input("x", torch.randn(3, 8)))

    made = export(dropping)
    why = made.goldens["0"]["no_floor"]
    assert why.startswith(
        "block `root` draws random numbers, so its float64 run computes something else; call `.eval()`"
    )
    # The golden itself depends on a draw, which the lint still reports.
    assert ("unexported-draw", "1") in made.found()


def test_choices_and_inputs_inside_a_block_are_those_of_the_reference(export: Any) -> None:
    class Router(Module):
        def __init__(self, rec: Any):
            super().__init__()
            self.rec, self.scores = rec, torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            scores = self.scores(x)
            ids = self.rec.choice("ids", scores.argmax(-1))
            shift = self.rec.pin("shift", torch.full((3,), 0.25) + torch.arange(3) / 7)
            return scores.gather(-1, ids[:, None])[:, 0] + shift

    def routed(rec: Any) -> None:
        rec.floors("by-block")
        model = rec.weights(Router(rec))
        rec.hook(model, {"root": "out"})
        model(rec.input("x", torch.randn(3, 4)))

    made = export(routed)
    assert 0 < made.goldens["out"]["floor"]["rms"] < 1e-6
    assert "no_floor" not in made.goldens["ids"]


def test_a_reference_that_stops_inside_a_block_has_floors_until_there(export: Any) -> None:
    def stopping(rec: Any) -> None:
        rec.floors("by-block")
        model = rec.weights(Model().eval())
        rec.hook(model, {"layers.1.up": True, "layers.1.down": True})
        rec.stop_after("layers.1.up")
        model(rec.input("ids", torch.randint(0, 20, (1, 5))))

    made = export(stopping)
    assert list(made.goldens) == ["layers.1.up"]
    assert made.goldens["layers.1.up"]["floor"]["rms"] > 0


class Narrow(Module):
    """Only accepts float32, as a kernel that was written for it."""

    def forward(self, x: Any) -> Any:
        if x.dtype != torch.float32:
            raise TypeError("expected float32")
        return x * 2


def test_a_block_that_fails_in_float64_is_a_finding(export: Any) -> None:
    def narrow(rec: Any) -> None:
        rec.floors("by-block")
        model = Narrow()
        rec.hook(model, {"root": "out"})
        model(rec.input("x", torch.randn(3)))

    made = export(narrow)
    assert made.found() == [("no-truth", "root")]
    why = "the float64 run of block `root` failed: TypeError: expected float32"
    assert made.goldens["out"]["no_floor"] == why


@pytest.mark.parametrize(("blocks", "names"), [(None, ["layers.0", "layers.1"]), (["**.up", "layers.1"], ["layers.1"])])
def test_a_block_inside_another_is_part_of_the_outer_one(export: Any, blocks: Any, names: list[str]) -> None:
    made = export(lambda rec: reference(rec, blocks=blocks), script=__file__)
    for name in names:
        assert made.goldens[f"{name}.up"]["floor_block"] == name
    if blocks is not None:
        assert made.goldens["layers.0.up"]["floor_block"] == "layers.0.up"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda rec, model, x: rec.floors("by-layer"), ValueError, '`rec.floors` got `by-layer`, expected "by-block"'),
        (lambda rec, model, x: rec.floors("by-block", blocks=[]), ValueError, "empty list of `blocks`"),
        (
            lambda rec, model, x: [rec.input("x", x), rec.floors("by-block")],
            RuntimeError,
            "call it once, as the first thing in the reference",
        ),
        (
            lambda rec, model, x: [rec.floors("by-block"), rec.save("x", x)],
            ValueError,
            "found no torch module; pass the model to `rec.weights` or `rec.hook`",
        ),
        (
            lambda rec, model, x: [rec.floors("by-block", blocks="layres.*"), rec.weights(model)],
            LookupError,
            "no module matches `layres.*` of `rec.floors`",
        ),
        (
            lambda rec, model, x: [rec.floors("by-block"), rec.adapters({"a": x})],
            RuntimeError,
            "`rec.adapters` needs more than one run of the whole reference",
        ),
        (
            lambda rec, model, x: [rec.floors("by-block"), rec.gradients(None, model)],
            RuntimeError,
            "`rec.gradients` needs more than one run of the whole reference",
        ),
        (
            lambda rec, model, x: [rec.floors("by-block"), rec.weights({"w": x}), rec.save("y", x.add_(1))],
            ValueError,
            "found no torch module",
        ),
    ],
)
def test_what_cannot_be_measured_by_block_is_refused(export: Any, call: Any, error: Any, words: str) -> None:
    with pytest.raises(error) as found:
        export(lambda rec: call(rec, Model(), torch.randn(4)), script=__file__)
    assert words in str(found.value)


def test_a_weight_that_changes_later_is_refused(export: Any) -> None:
    def changing(rec: Any) -> None:
        rec.floors("by-block")
        model = rec.weights(torch.nn.Linear(4, 4))
        rec.save("out", model(rec.input("x", torch.randn(3, 4))))
        model.weight.add_(1)

    with pytest.raises(ValueError, match="changed weight `weight` after"):
        export(changing)


def test_weights_are_not_copied(export: Any) -> None:
    def kept(rec: Any) -> None:
        rec.floors("by-block")
        model = torch.nn.Linear(64, 64)
        place = model.weight.data_ptr()
        rec.weights(model)
        # Committed weights replace the new ones.
        assert (model.weight.data_ptr() == place) == (rec.pins.reused == 0)
        assert rec.pins.weights["weight"].value.bits.ctypes.data == model.weight.data_ptr()
        rec.save("out", model(rec.input("x", torch.randn(3, 64))))

    made = export(kept)
    # A second export reads the committed weights from their file.
    assert export(kept, reuse=made.folder).report["counts"]["reused"] == 3
    assert export(kept, reuse=made.folder).bytes() == made.bytes()


def test_a_recorder_without_run_has_floors_too(out: Any) -> None:
    from parity_export import Recorder

    with Recorder(out, script=__file__, lint="report") as rec:
        rec.floors("by-block")
        model = rec.weights(Model().eval())
        rec.hook(model, "layers.*")
        rec.hits("layers.0", 2)
        model(rec.input("ids", torch.randint(0, 20, (1, 5))))
    entries = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["tensors"]
    floors = {entry["name"]: entry["floor_block"] for entry in entries if entry["role"] == "golden"}
    assert floors == {"layers.0": "layers.0", "layers.0@1": "layers.0", "layers.1": "layers.1", "layers.2": "layers.2"}
