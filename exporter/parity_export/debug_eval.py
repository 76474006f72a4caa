"""Python that a person evaluates while the reference is paused, over its variables and every tensor recorded so far."""

from __future__ import annotations

import ast
import io
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from .collector import Collector
from .debug_breaks import CommandError, axes
from .debug_place import Stop
from .names import near
from .places import is_exporter
from .tensor_stats import elements, statistics
from .values import Value, framework_of, hand_back, host, is_tensor

_FILE = "<eval>"
# Longer texts are cut, and of larger tensors only this many numbers are in an answer.
_TEXT = 20_000
SHOWN = 1_000


class Taps(Mapping[str, Any]):
    """The tensors of a session by name. Each access returns a new copy, as a tensor of the reference's framework.

    Goldens have their own names, or `actual.NAME`. Inputs are `input.NAME` and weights `weight.NAME`; the short name
    is enough if no golden has it.
    """

    def __init__(self, recorder: Collector):
        self._recorder = recorder
        self._likes: dict[str, Any] = {}

    def note(self, name: str, tensor: Any) -> None:
        """Remembers the framework and the device of a golden."""
        self._likes[name] = like(tensor)

    def value(self, name: str) -> Value:
        """Returns the elements of a tensor. Raises CommandError for a name that is not recorded yet."""
        recorder = self._recorder
        goldens = {"": recorder.goldens, "actual.": recorder.goldens}
        inputs = {"": recorder.pins.inputs, "input.": recorder.pins.inputs}
        weights = {"": recorder.pins.weights, "weight.": recorder.pins.weights}
        for group in (goldens, inputs, weights):
            for prefix, held in group.items():
                if name.startswith(prefix) and name.removeprefix(prefix) in held:
                    return held[name.removeprefix(prefix)].value
        if not len(self):
            advice = "use `next` or `continue` first"
            raise CommandError(f"`{name}` is not recorded: the reference has recorded nothing so far", advice)
        advice = f"`vars` lists the recorded names; `until {name}` runs to it"
        raise CommandError(f"`{name}` is not recorded so far{near(name, self)}", advice)

    def kind(self, name: str) -> str:
        """Returns whether one of the names that `iter` gives is a tap, an input or a weight."""
        if name in self._recorder.goldens:
            return "tap"
        return "input" if name.startswith("input.") else "weight"

    def __getitem__(self, name: str) -> Any:
        try:
            value = self.value(name)
        except CommandError as error:
            raise KeyError(str(error)) from error
        return hand_back(value, self._likes.get(name.removeprefix("actual."), self._usual()))

    def __iter__(self) -> Iterator[str]:
        pins = self._recorder.pins
        inputs, weights = (f"input.{name}" for name in pins.inputs), (f"weight.{name}" for name in pins.weights)
        return iter([*inputs, *weights, *self._recorder.goldens])

    def __len__(self) -> int:
        pins = self._recorder.pins
        return len(pins.inputs) + len(pins.weights) + len(self._recorder.goldens)

    def _usual(self) -> Any:
        """Returns the framework of inputs and weights: that of the last golden, or of what the reference imports."""
        if self._likes:
            return list(self._likes.values())[-1]
        return next((name for name in ("torch", "mlx") if name in sys.modules), "numpy")


def like(tensor: Any) -> Any:
    """Returns what `hand_back` needs to make such a tensor, without keeping this one alive."""
    framework = framework_of(tensor) or "numpy"
    if framework == "torch":
        return sys.modules["torch"].empty(0, device=tensor.device)
    return "numpy" if framework == "dlpack" else tensor[:0] if framework == "jax" and tensor.ndim else framework


@dataclass
class Evaluator:
    """Evaluates Python at a stop. Variables that a text sets are kept for the texts after it."""

    taps: Taps
    variables: dict[str, Any] = field(default_factory=dict)

    def session_names(self, stop: Stop) -> dict[str, Any]:
        """Returns the names that the session itself has at a stop."""
        found: dict[str, Any] = {"taps": self.taps, "numpy": np, "np": np}
        for module, names in (("torch", ("torch",)), ("mlx.core", ("mx",)), ("jax", ("jax",))):
            if module in sys.modules:
                found |= dict.fromkeys(names, sys.modules[module])
        if stop.tap is not None:
            found |= {"actual": stop.tap.tensor, "value": stop.tap.tensor}
        return {**found, "local": dict(stop.local)}

    def _reference_names(self, stop: Stop) -> dict[str, Any]:
        """Returns the reference's own variables, and the loops of the name, such as `step` in `step.2.out`."""
        return {**stop.around, **({} if stop.tap is None else axes(stop.tap.name)), **stop.local}

    def condition(self, code: CodeType, stop: Stop, numbers: Mapping[str, int]) -> Any:
        """Evaluates the condition of a breakpoint, with the variables that `run` has and the numbers of its pattern."""
        own = {**numbers, **self.session_names(stop)}
        return eval(code, {**self._reference_names(stop), **self.variables, **own})

    def run(self, text: str, stop: Stop) -> tuple[Any, str, list[str]]:
        """Runs statements. Returns the value of the last one if it is an expression, what was printed, and notes."""
        tree = _parsed(text)
        own = self.session_names(stop)
        notes = _notes(tree, own, stop.local)
        space = {**self._reference_names(stop), **self.variables, **own, "__name__": "__eval__"}
        before = dict(space)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        linecache.cache[_FILE] = (len(text), None, text.splitlines(keepends=True), _FILE)
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(tree, _FILE, "exec"), space)
                result = None
                if isinstance(last, ast.Expr):
                    result = eval(compile(ast.Expression(last.value), _FILE, "eval"), space)
        except SystemExit as error:
            raise CommandError("the expression asks Python to exit", "`terminate` ends the session") from error
        except KeyboardInterrupt as error:
            raise CommandError("the evaluation was interrupted", "the reference is still paused here") from error
        except Exception as error:
            raise EvalError(error, printed.getvalue(), stop) from error
        finally:
            changed = {key: held for key, held in space.items() if before.get(key, _NOTHING) is not held}
            self.variables |= {key: held for key, held in changed.items() if key not in own and key != "__builtins__"}
            for key in before.keys() - space.keys():
                self.variables.pop(key, None)
        return result, _cut(printed.getvalue()), notes


_NOTHING = object()


class EvalError(CommandError):
    """Python that raised: its message, the lines of the text that led there, and what it printed before."""

    def __init__(self, error: Exception, printed: str, stop: Stop):
        shown = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        super().__init__(f"{type(error).__name__}: {shown}".rstrip(": "), _advice(error, stop))
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_exporter(frame.filename)]
        self.traceback = "".join(traceback.format_list(frames))
        self.printed = _cut(printed)


def _advice(error: Exception, stop: Stop) -> str:
    """Returns what to do after Python raised. A reference without a frame has no variables, so no name is misspelt."""
    if isinstance(error, NameError) and stop.frame is None:
        if stop.why["reason"] == "start":
            return "the reference has not started; use `next` or `continue` first"
        return 'the reference is over, and its variables are gone; what it recorded is `taps["NAME"]`'
    return "correct the expression, and evaluate again"


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text, _FILE)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        at = f" in line {error.lineno}, column {error.offset}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise CommandError(f"this is not Python: {what}{at}", "correct the expression, and evaluate again") from error


def _notes(tree: ast.Module, own: Mapping[str, Any], local: Mapping[str, Any]) -> list[str]:
    """Returns notes about names that the text uses and that have two meanings. Raises CommandError if it sets one."""
    used = {node.id: type(node.ctx) for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for name in taken:
        if name in own:
            raise CommandError(f"`{name}` is a name of the session and cannot be set", "choose another name")
    hidden = [name for name in used if name in own and name in local and local[name] is not own[name]]
    return [
        f"`{name}` is the session's own name here; the reference's variable is `local[\"{name}\"]`" for name in hidden
    ]


def described(source: str, thing: Any) -> dict[str, Any]:
    """Returns the value of an expression as JSON. `values` is absent if it is neither a tensor nor a number."""
    found: dict[str, Any] = {"source": source, "type": type(thing).__name__}
    if is_tensor(thing):
        try:
            value = host(thing)
        except TypeError:
            return {**found, "text": _cut(repr(thing))}
        return {**found, "dtype": value.dtype, **tensor_value(value), "stats": statistics(value).json()}
    try:
        text = repr(thing)
    except Exception as error:
        text = f"<{type(thing).__name__} without a text: {type(error).__name__}: {error}>"
    if isinstance(thing, (bool, int, float, complex)) and len(text) <= 1000:
        found |= {"shape": [], "values": elements(np.array(thing, dtype=object)), "left_out": 0}
    return {**found, "text": _cut(text)}


def tensor_value(value: Value) -> dict[str, Any]:
    """Returns shape, NumPy's text, and the first thousand numbers in row-major order."""
    # Only bfloat16 needs another type to be printed. Widening a large tensor would take much memory.
    plain = value.wide().astype(np.dtype("float32")) if value.dtype == "bfloat16" else value.bits
    text = np.array2string(plain, threshold=200, edgeitems=3, max_line_width=110, precision=6)
    shown = elements(plain.reshape(-1)[:SHOWN])
    left_out = max(0, plain.size - SHOWN)
    text = text if plain.ndim else str(plain[()])
    return {"shape": list(value.shape), "values": shown, "left_out": left_out, "text": text}


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… ({len(text)} characters)"
