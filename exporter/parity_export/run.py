"""Runs a reference that is written as a function: unchanged, in float64, and with other random draws."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import adapters, spread
from .collector import Kind
from .draws import numpy_in_float64, other_draws, seed_all
from .finish import finish
from .floor import distance, floor_of
from .names import near
from .recipe_run import WHY_UNSURE, drop_changing, float_constants, give_twins, settle
from .recorder import Recorder
from .settings import reference_block
from .values import Value

Reference = Callable[..., Any]


def run(
    reference: Reference,
    out_dir: str | os.PathLike[str],
    *,
    params: Mapping[str, Any] | None = None,
    source: str | None = None,
    script: str | os.PathLike[str] | None = None,
    floors: bool = True,
    seed: int = 0,
    threads: int = 1,
    **options: Any,
) -> dict[str, Any]:
    """Runs `reference(recorder, **params)`, replaces the set in `out_dir`, and returns the report.

    The reference runs at least three times with the same inputs and weights: unchanged, for the goldens; in float64,
    for their floors (unless `floors` is false); and with other random draws, which must not change a golden. An input
    that no operation used is changed in one more run, to see whether a golden changes. If recipes need floats of
    unknown origin, all inputs are changed in one more run, to see whether those depend on them. Raises `Refused` if
    the lint finds something the script does not accept.

    Parameters come from the spec (`PARITY_REFERENCE`), or else from `params` and the function's defaults. `threads` is
    for torch: with one thread, the bytes do not depend on the number of cores. Other options are those of `Recorder`.
    """
    if spread.variant() is not None:
        options["recipes"] = False
    native = _recorder(reference, out_dir, params, source, script, options)
    job = Job(reference, native, seed)
    with ExitStack() as stack:
        _settle(stack, threads)
        passes = job.all(floors)
        if native.settings.spread and spread.variant() is None:
            spread.measure(native, passes)
        return finish(native, passes)


def points(reference: Reference, **options: Any) -> list[tuple[str, str]]:
    """Returns every golden and every point that hooks can record, in call order, with dtype and shape."""
    return listed(reference, **options)[0].seen or []


def listed(reference: Reference, **options: Any) -> tuple[Recorder, dict[str, Any]]:
    """Runs the reference once and writes nothing. Returns the recorder, and the params with the function's defaults."""
    with one_run(reference, **options) as job:
        job.native.seen = []
        job.once(job.native)
        return job.native, job.params


@contextmanager
def one_run(
    reference: Reference,
    *,
    params: Mapping[str, Any] | None = None,
    source: str | None = None,
    script: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int = 1,
    floors: bool = True,
    **options: Any,
) -> Iterator[Job]:
    """Prepares a run that writes nothing: no set, no floors and no recipes."""
    native = _recorder(reference, "unused", params, source, script, {**options, "recipes": False})
    job = Job(reference, native, seed)
    with ExitStack() as stack:
        _settle(stack, threads)
        yield job


class Job:
    """All runs of one reference."""

    def __init__(self, reference: Reference, native: Recorder, seed: int):
        self.reference, self.native, self.seed = reference, native, seed
        self.truths: dict[str, Value] = {}
        self.params = bound_params(reference, native.params)
        native.reference = {**native.reference, "params": self.params} if native.canonical is None else native.reference

    def once(self, recorder: Recorder) -> None:
        seed_all(self.seed)
        with recorder.running():
            self.reference(recorder, **self.params)

    def all(self, floors: bool) -> list[str]:
        self.once(self.native)
        passes = ["native"]
        if spread.variant() is not None:
            return passes
        if self.native.blocks is not None:
            # The reference ran once, and must not have to run again.
            self.unused()
            return [*passes, "blocks in float64"]
        if floors:
            self.truth()
            passes.append("float64")
        self.draws()
        self.without_adapters()
        self.unused()
        self.recipes()
        return [*passes, "other draws"]

    def truth(self) -> None:
        """Measures the floors with a float64 run on the same inputs and weights."""
        native = self.native
        recorder = native.again("truth", traces=native.tracing is not None)

        def meets(name: str, value: Value) -> None:
            golden = native.goldens[name]
            if native.tracing is not None and recorder.distrusted is None and value.shape == golden.value.shape:
                self.truths[name] = value
            if golden.floor is not None:
                return
            if not golden.value.is_inexact:
                if not golden.value.same_as(value):
                    golden.no_floor = "the float64 run gives other integers"
            elif recorder.distrusted is not None:
                golden.no_floor = recorder.distrusted
            else:
                found = floor_of(native.lint, name, golden.value, value)
                if isinstance(found, str):
                    golden.no_floor = found
                else:
                    golden.floor = found

        recorder.meets = meets
        failed = None
        try:
            with numpy_in_float64():
                self.once(recorder)
        except Exception as error:
            failed = f"the float64 run failed: {type(error).__name__}: {error}"
            native.lint.add("no-truth", "*", failed)
        if native.tracing is not None and recorder.tracing is not None:
            give_twins(native.tracing.recipe, recorder.tracing.recipe)
        for golden in native.goldens.values():
            if golden.value.is_inexact and golden.floor is None and golden.no_floor is None:
                golden.no_floor = failed or "the float64 run does not reach this golden"
        for place, what in recorder.lowered.items():
            message = f"the float64 run passes {what} at {place}, a constant that was rounded before"
            native.lint.add("truth-rounded", place, message)

    def draws(self) -> None:
        """Finds goldens that change with other random draws, or without any change."""
        with other_draws():
            changed = self.changed("again")
        if not changed:
            return
        unstable = self.changed("repeat")
        for name, far in unstable.items():
            self.native.lint.add(
                "not-repeatable", name, f"golden `{name}` differs between two equal runs by up to {far:.3g}"
            )
        drawn = [name for name in changed if name not in unstable]
        if drawn:
            if len(drawn) == 1:
                subject = f"golden `{drawn[0]}` depends"
            else:
                subject = f"{len(drawn)} goldens, first `{drawn[0]}`, depend"
            message = f"{subject} on a random draw that is neither an input nor a weight"
            self.native.lint.add("unexported-draw", drawn[0], message)

    def without_adapters(self) -> None:
        """Measures how far the adapters move each golden, in a run in which all of them are zero."""
        native = self.native
        if not native.adapter_files:
            return
        recorder = native.again("repeat")
        recorder.is_bare = True
        adapters.measure(native, recorder)
        self.once(recorder)
        adapters.look(native)

    def unused(self) -> None:
        """Changes each input that no operation used, and reports it if no golden changes."""
        for name, pin in self.native.pins.inputs.items():
            if name in self.native.consumed:
                continue
            other = _another(pin.value)
            try:
                used = other is None or self.changed("repeat", {name: other})
            except Exception:
                used = True
            if not used:
                self.native.lint.add("unused-input", name, f"no golden depends on input `{name}`", "input")

    def recipes(self) -> None:
        """Checks the recipes. If they need constants of floats, one more run shows whether those depend on inputs."""
        tracing = self.native.tracing
        if tracing is None:
            return
        if float_constants(tracing.recipe):
            recorder = self.native.again("repeat", traces=True)
            others = {name: _another(pin.value) for name, pin in self.native.pins.inputs.items()}
            recorder.changed_inputs = {name: value for name, value in others.items() if value is not None}
            try:
                self.once(recorder)
            except Exception as error:
                why = f"{WHY_UNSURE}: {type(error).__name__}: {error}"
                drop_changing(tracing.recipe, None, why)
            else:
                assert recorder.tracing is not None
                drop_changing(tracing.recipe, recorder.tracing.recipe)
        settle(self.native, self.truths)

    def changed(self, kind: Kind, change: Mapping[str, Value] | None = None) -> dict[str, float]:
        """Returns the goldens whose bytes differ in another run, in order, with the largest distance each."""
        recorder = self.native.again(kind)
        recorder.changed_inputs = dict(change or {})
        found: dict[str, float] = {}
        met = set()

        def meets(name: str, value: Value) -> None:
            met.add(name)
            golden = self.native.goldens[name].value
            if not golden.same_as(value):
                alike = golden.shape == value.shape
                found[name] = distance(golden, value).max if alike else float("inf")

        recorder.meets = meets
        self.once(recorder)
        return found | {name: float("inf") for name in self.native.goldens if name not in met}


def _recorder(
    reference: Reference,
    out_dir: str | os.PathLike[str],
    params: Mapping[str, Any] | None,
    source: str | None,
    script: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> Recorder:
    file = Path(script or inspect.getsourcefile(reference) or "")
    block: dict[str, Any] = {"script": _relative(file)}
    if source is not None:
        block["source"] = source
    if reference_block(None)[0] is None:
        block["params"] = dict(params or {})
    return Recorder(out_dir, script=file, reference=block, **options)


def bound_params(reference: Reference, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of the spec, with the function's defaults for the others.

    Raises TypeError for a parameter that the function does not take, and for one that has no value.
    """
    own = list(inspect.signature(reference).parameters.values())[1:]
    known = {parameter.name: parameter.default for parameter in own if parameter.kind is not parameter.VAR_KEYWORD}
    takes_any = len(known) < len(own)
    for name in params:
        if name not in known and not takes_any:
            raise TypeError(f"`params` has `{name}`, which the reference does not take{near(name, known)}")
    missing = [name for name, default in known.items() if default is inspect.Parameter.empty and name not in params]
    if missing:
        raise TypeError(
            f"the reference takes `{missing[0]}`, which has no default and is not in `params`; add it to the spec"
        )
    return {**{name: default for name, default in known.items() if default is not inspect.Parameter.empty}, **params}


def _settle(stack: ExitStack, threads: int) -> None:
    """Sets torch's threads and algorithms so that a second run gives the same bytes."""
    if "torch" not in sys.modules:
        return
    import torch

    stack.callback(torch.set_num_threads, torch.get_num_threads())
    torch.set_num_threads(threads)
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    stack.callback(torch.use_deterministic_algorithms, deterministic[0], warn_only=deterministic[1])
    torch.use_deterministic_algorithms(True, warn_only=True)
    spread.apply(stack)


def _relative(script: Path) -> str:
    """Returns the script's path relative to the working directory, or else its name: never an absolute path."""
    try:
        return script.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return script.name


def _another(value: Value) -> Value | None:
    """Returns a tensor of the same kind with other plausible values; none if it is empty."""
    if value.bits.size == 0:
        return None
    rolled = np.roll(value.bits.reshape(-1), 1).reshape(value.shape)
    if np.array_equal(rolled, value.bits):
        rolled = ~rolled if value.dtype == "bool" else (rolled + 1).astype(value.bits.dtype)
    return Value(value.dtype, np.ascontiguousarray(rolled))
