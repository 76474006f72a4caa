"""Floors by block: the reference runs once as it is, and each block runs once more, alone, in float64.

A block starts from the tensors that the reference handed it, so memory holds no second model. A floor measured in this
way leaves out the errors of earlier blocks. The manifest names the block of such a floor: the floor is *local*.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .draws import kept_draws, numpy_in_float64, states
from .floor import Floor, floor_of
from .names import Rule, near
from .points import leaves
from .values import Value, host

if TYPE_CHECKING:
    from .collector import Collector, Golden

NO_BLOCK = "it is computed outside all blocks; name its module in `rec.floors(…, blocks=…)`"


@dataclass
class Call:
    """One call of a block: what it needs to run again, as it was before the reference ran it."""

    name: str
    module: Any
    # The copies that the float64 run gets, and the module's own state.
    args: Any
    kwargs: Any
    state: Any
    # Whether a tensor that the block gets was computed, and is not an input of the set.
    is_local: bool
    attempts: dict[str, int]
    choices: dict[str, int]
    # Why the block cannot run again.
    problem: str | None
    # The exception that was being handled when the call began.
    error: BaseException | None
    # The goldens that the reference recorded during the call.
    goldens: list[str] = field(default_factory=list)
    # Calls of this module inside itself.
    depth: int = 0


@dataclass
class _Output:
    """A tensor that a block returned, and the same in float64. Its version changes when the reference writes to it."""

    alive: Any
    version: int
    truth: Any
    block: str | None


@dataclass
class Blocks:
    """The blocks of a run, and the floors that their float64 runs give."""

    recorder: Collector
    patterns: list[Rule] | None
    is_running: bool = False
    attached: dict[int, str] = field(default_factory=dict)
    models: list[Any] = field(default_factory=list)
    handles: list[Any] = field(default_factory=list)
    active: Call | None = None
    called: set[int] = field(default_factory=set)
    side: Any = None
    outputs: dict[int, _Output] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    # Of the run in progress: the floors so far, and the tensors that the block received.
    found: dict[str, Floor | str | None] = field(default_factory=dict)
    given: dict[int, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, recorder: Collector, names: str | Iterable[str] | None) -> Blocks:
        patterns = None
        if names is not None:
            patterns = [Rule(name, True) for name in ([names] if isinstance(names, str) else names)]
            if not patterns:
                raise ValueError("`rec.floors` has an empty list of `blocks`, expected patterns of module names")
        return cls(recorder, patterns)

    def attach(self, model: Any, side: Any) -> None:
        """Watches the blocks of a model. A module that is a block already keeps its name."""
        if not hasattr(side, "block_names"):
            raise TypeError(
                f'`rec.floors("by-block")` needs torch modules, but this reference has a `{type(model).__name__}`; '
                "leave `rec.floors` out, so that a float64 run of the whole reference measures the floors"
            )
        self.side = side
        if any(model is part for known in self.models for _, part in side.named_modules(known)):
            side.watch_blocks(self)
            return
        self.models.append(model)
        modules = dict(side.named_modules(model))
        if self.patterns is None:
            names = side.block_names(model)
        else:
            names = [name for name in modules if any(rule.fits.fullmatch(name) for rule in self.patterns)]
            for rule in self.patterns:
                rule.used += sum(rule.fits.fullmatch(name) is not None for name in modules)
        for name in names:
            self.attached.setdefault(id(modules[name]), name)
        side.watch_blocks(self)

    def check(self) -> None:
        """Raises if the run had no block at all, or if a pattern names none."""
        if not self.models:
            raise ValueError(
                '`rec.floors("by-block")` found no torch module; pass the model to `rec.weights` or `rec.hook`, or '
                "leave `rec.floors` out, so that a float64 run of the whole reference measures the floors"
            )
        for rule in self.patterns or ():
            if not rule.used:
                known = [name for model in self.models for name in _names_of(model)]
                raise LookupError(f"no module matches `{rule.pattern}` of `rec.floors`{near(rule.pattern, known)}")

    def measure(self, call: Call, output: Any) -> None:
        """Runs a block in float64, and gives its goldens their floors. `output` is that of the reference's own call."""
        recorder = self.recorder
        before, truth, problem = states(), None, call.problem
        with self._alone(call), kept_draws(), numpy_in_float64():
            if problem is None:
                try:
                    truth = self.side.run_block(call)
                except Exception as error:
                    problem = f"the float64 run of block `{call.name}` failed: {type(error).__name__}: {error}"
            if problem is not None:
                recorder.lint.add("no-truth", call.name, problem)
            elif states() != before:
                problem = (
                    f"block `{call.name}` draws random numbers, so its float64 run computes something else; call "
                    "`.eval()`, or draw them outside"
                )
        block = call.name if call.is_local else None
        for name, floor in self.found.items():
            golden = recorder.goldens[name]
            if golden.floor is not None or floor is None:
                continue
            if problem is not None or isinstance(floor, str):
                self.reasons[name] = problem or str(floor)
            else:
                golden.floor, golden.floor_block = floor, block
        for name in call.goldens:
            if name not in self.found and recorder.goldens[name].value.is_inexact:
                self.reasons[name] = problem or f"the float64 run of block `{call.name}` does not reach this golden"
        if problem is None and truth is not None and output is not None:
            self._keep(output, truth, block)

    @contextmanager
    def _alone(self, call: Call) -> Iterator[None]:
        """Makes the recorder compare what it meets with the goldens, as in a later run, from the start of the call."""
        recorder = self.recorder
        self.found = {}
        self.given = {id(tensor): self.side.version_of(tensor) for _, tensor in leaves((call.args, call.kwargs))}
        frames = [(hooking, len(hooking.frames)) for hooking in recorder.hooks.active]
        with ExitStack() as stack:
            for name, value in (
                ("_attempts", dict(call.attempts)),
                ("choices_met", dict(call.choices)),
                ("meets", self._meets),
                ("_states", None),
            ):
                stack.callback(setattr, recorder, name, getattr(recorder, name))
                setattr(recorder, name, value)
            if recorder.executed is not None:
                stack.enter_context(recorder.executed.paused())
            self.is_running = True
            try:
                yield
            finally:
                self.is_running = False
                for hooking, length in frames:
                    del hooking.frames[length:]

    def _meets(self, name: str, value: Value) -> None:
        golden = self.recorder.goldens[name].value
        if not golden.is_inexact:
            is_same = golden.same_as(value)
            self.found[name] = None if is_same else "the float64 run of its block gives other integers"
            return
        self.found[name] = floor_of(self.recorder.lint, name, golden, value)

    def passes_on(self, name: str | None, tensor: Any) -> bool:
        """Whether a tensor is one that the running block received and left as it was. Its golden then has no floor."""
        version = self.given.get(id(tensor))
        if version is None or self.side.version_of(tensor) != version:
            return False
        if name is not None:
            self.found[name] = "its block receives it and does not compute it"
        return True

    def _keep(self, output: Any, truth: Any, block: str | None) -> None:
        """Keeps the float64 outputs of a block as long as the reference keeps its own."""
        exact = dict(leaves(truth))
        for suffix, tensor in leaves(output):
            other = exact.get(suffix)
            version = self.side.version_of(tensor)
            if other is not None and version is not None and tuple(other.shape) == tuple(tensor.shape):
                key = id(tensor)
                alive = weakref.ref(tensor, functools.partial(self._forget, key))
                self.outputs[key] = _Output(alive, version, other, block)

    def _forget(self, key: int, _: Any) -> None:
        self.outputs.pop(key, None)

    def met(self, golden: Golden, tensor: Any) -> None:
        """Notes a golden of the reference's own run, and gives it a floor if a block returned this very tensor."""
        if self.active is not None:
            self.active.goldens.append(golden.name)
        held = self.outputs.get(id(tensor))
        if held is None or held.alive() is not tensor or held.version != self.side.version_of(tensor):
            return
        if golden.value.is_inexact:
            floor = floor_of(self.recorder.lint, golden.name, golden.value, host(held.truth, golden.name))
            if isinstance(floor, str):
                self.reasons[golden.name] = floor
            else:
                golden.floor, golden.floor_block = floor, held.block

    def finish(self) -> None:
        """Gives each golden without a floor the reason, once the reference has ended."""
        if self.active is not None:
            # The reference was stopped inside this block.
            call, self.active = self.active, None
            self.measure(call, None)
        for golden in self.recorder.goldens.values():
            if golden.floor is None and golden.no_floor is None:
                reason = self.reasons.get(golden.name)
                if golden.value.is_inexact or reason is not None:
                    golden.no_floor = reason or NO_BLOCK
        self.outputs.clear()


def _names_of(model: Any) -> list[str]:
    return [name or "root" for name, _ in model.named_modules()]
