"""The points of a model where tensors can be recorded: modules, and the operations and functions they call."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .names import Rules, near
from .places import caller
from .values import is_tensor

if TYPE_CHECKING:
    from .collector import Collector

# Operations that create or move elements without computing. Only `ops="all"` shows them.
STRUCTURAL = frozenset(
    """alias arange as_strided as_tensor astype asarray atleast_1d atleast_2d atleast_3d bfloat16 bool broadcast_arrays
    broadcast_tensors broadcast_to cat chunk clone concat concatenate contiguous copy cpu cuda data detach diagonal
    dim double dtype element_size empty empty_like eval expand expand_as expand_dims eye flatten flip float
    from_numpy full full_like get getitem half imag index_select int item long meshgrid moveaxis movedim narrow
    new_empty new_full new_ones new_tensor new_zeros numel numpy ones ones_like pad permute pin_memory rand
    rand_like randint randn randn_like real repeat repeat_interleave requires_grad reshape reshape_as resolve_conj
    resolve_neg roll select set setitem shape size slice split squeeze stack stop_gradient stride swapaxes swapdims
    t take take_along_axis tensor tensor_split tile to tolist transpose type type_as unbind unflatten unsqueeze
    unstack view view_as view_as_complex view_as_real where zeros zeros_like array linspace tril triu gather scatter
    index_put fill zero normal uniform kaiming_uniform xavier_uniform trunc_normal random bernoulli multinomial
    is_floating_point is_complex isfinite isnan any all argmax argmin eq ne lt le gt ge set_grad_enabled layout
    device ndim mT T H""".split()
)

_SAME = {"truediv": "div", "divide": "div", "rtruediv": "div", "itruediv": "div", "multiply": "mul", "subtract": "sub"}
_SAME |= {
    "rsub": "sub",
    "isub": "sub",
    "radd": "add",
    "iadd": "add",
    "rmul": "mul",
    "imul": "mul",
    "rpow": "pow",
    "power": "pow",
}
_SAME |= {"rmatmul": "matmul", "imatmul": "matmul", "negative": "neg"}


def operation_name(name: str) -> str:
    """Returns one name for all spellings of an operation: `add` for `__radd__`, `add_` and `add`."""
    plain = name.strip("_")
    return _SAME.get(plain, plain)


def leaves(thing: Any) -> list[tuple[str, Any]]:
    """Returns the tensors in a module's inputs or output, with suffixes `.0`, `.1`, `.key`; one alone has none."""
    found = list(_leaves(thing, ""))
    return [("", found[0][1])] if len(found) == 1 else found


def _leaves(thing: Any, path: str) -> Iterator[tuple[str, Any]]:
    if is_tensor(thing):
        yield path, thing
    elif isinstance(thing, Mapping):
        for key, part in thing.items():
            yield from _leaves(part, f"{path}.{key}")
    elif isinstance(thing, (tuple, list)):
        for index, part in enumerate(thing):
            yield from _leaves(part, f"{path}.{index}")
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        for part in dataclasses.fields(thing):
            yield from _leaves(getattr(thing, part.name), f"{path}.{part.name}")


@dataclass
class Frame:
    """A module call in progress, and the number of times each operation ran in it."""

    point: str
    is_layer: bool
    counts: dict[str, int] = field(default_factory=dict)

    def operation(self, name: str) -> str:
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return f"{self.point}.{name}" if count == 0 else f"{self.point}.{name}.{count}"


@dataclass
class Hooking:
    """One call of `Recorder.hook`."""

    recorder: Collector
    rules: Rules
    at: str
    ops: Any
    frames: list[Frame] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    sees_functions: bool = False
    called: dict[str, None] = field(default_factory=dict)

    @property
    def sees_inside(self) -> bool:
        """Whether the hook records operations or functions, and so needs to know the module that calls them."""
        return self.ops is not False or self.sees_functions

    def enter(
        self,
        point: str,
        is_layer: bool,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        place: str,
    ) -> None:
        """Handles the start of a module call. The framework's own layers are points, but their operations are not."""
        if self.recorder.hooks.is_quiet:
            return
        self.frames.append(Frame(point, is_layer))
        if self.at == "input":
            self._meet(point, _by_name(call, args, kwargs), place)

    def leave(self, point: str, output: Any, place: str) -> None:
        """Handles the end of a module call."""
        if self.recorder.hooks.is_quiet:
            return
        while self.frames and self.frames.pop().point != point:
            pass
        if self.at == "output":
            self._meet(point, output, place)

    def operation(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, is_function: bool = False
    ) -> None:
        """Handles an operation, or a function of the reference, that a module called."""
        if not self.frames or self.frames[-1].is_layer or self.recorder.hooks.is_quiet:
            return
        if not is_function:
            name = operation_name(name)
            if (
                self.ops is False
                or (self.ops is True and name in STRUCTURAL)
                or not (isinstance(self.ops, (bool, str)) or name in self.ops)
            ):
                return
        met = (args, dict(kwargs)) if self.at == "input" else output
        if not any(True for _ in _leaves(met, "")):
            return
        point = self.frames[-1].operation(name)
        if self.at == "input":
            met = {str(index): part for index, part in enumerate(args)} | dict(kwargs)
        self._meet(point, met, caller(self.recorder.sources))

    def _meet(self, point: str, thing: Any, place: str | None) -> None:
        self.called[point] = None
        recorder = self.recorder
        for suffix, tensor in leaves(thing):
            path = f".{self.at}{suffix}" if self.at == "input" else suffix
            leaf = point + path
            if recorder.seen is not None and recorder.kind == "native":
                recorder.seen.append((recorder.full(leaf), describe(tensor)))
            found = self.rules.resolve(point, leaf)
            if found is None:
                recorder.passes(recorder.full(leaf), recorder.full(leaf), tensor, "no hook records it")
                continue
            name, rule = found
            if self.at == "input" and isinstance(rule.target, str):
                # The script chose this name, so it needs no `.input`.
                name = name.removesuffix(path) + suffix if name.endswith(path) else name
            recorder.capture(recorder.full(leaf), recorder.full(name), tensor, place, sweeping=rule.is_sweeping)

    def unmatched(self) -> tuple[str, str] | None:
        """Returns the first name that recorded nothing, with a message; none if every name recorded something."""
        for rule in self.rules.rules:
            if rule.used or not rule.target:
                continue
            exists = [point for point in self.modules if rule.fits.fullmatch(point)]
            if exists:
                message = f"`{exists[0]}` matches `{rule.pattern}` but was never called{near(exists[0], self.called)}"
                return exists[0], message
            known = [*self.called, *self.modules]
            return rule.pattern, f"no point matches `{rule.pattern}`{near(rule.pattern, known)}"
        return None


class Hooks:
    """All hooks of a run, and the frameworks that report to them."""

    def __init__(self) -> None:
        self.active: list[Hooking] = []
        # Whether operations are the exporter's, or a person's at a stop, and not the reference's.
        self.is_quiet = False
        self._stack: ExitStack | None = None

    def add(self, hooking: Hooking, model: Any, functions: Iterable[Any]) -> None:
        if self._stack is None:
            raise RuntimeError(
                "`hook` was called outside a run; call it inside `with Recorder(…)`, or in a function given to `main`"
            )
        side = side_of(model)
        if side is None:
            raise TypeError(f"`{type(model).__name__}` cannot be hooked, expected a torch or MLX module")
        functions = list(functions)
        hooking.modules = side.module_names(model)
        hooking.sees_functions = bool(functions)
        for rule in hooking.rules.rules:
            # An immediate error if no module, and no leaf of a module, can have this name.
            known = any(rule.fits.fullmatch(point) for point in hooking.modules)
            if (
                rule.target
                and not hooking.sees_inside
                and not known
                and not any(hooking.rules.wants(point) for point in hooking.modules)
            ):
                raise LookupError(f"no module matches `{rule.pattern}`{near(rule.pattern, hooking.modules)}")
        side.attach(hooking, model, self._stack)
        for function in functions:
            self._see(function, hooking)
        self.active.append(hooking)

    def open(self, stack: ExitStack, recorder: Collector) -> None:
        self._stack = stack
        stack.callback(self._close)
        for name in ("torch", "mlx.core"):
            if name in sys.modules:
                _side(name).watch(recorder, stack)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Ignores what runs in the block: copies to the host, and what a person evaluates in a debug session."""
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    @property
    def sees_inside(self) -> bool:
        return not self.is_quiet and any(hooking.sees_inside for hooking in self.active)

    def _close(self) -> None:
        self._stack = None

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if self.is_quiet:
            return
        for hooking in self.active:
            hooking.operation(name, args, kwargs, output)

    def finish(self, recorder: Collector) -> None:
        """Reports hooks that recorded nothing. A run that stopped early is exempt: it may not have reached them."""
        if recorder.kind != "native" or recorder._stop_after is not None:
            return
        for hooking in self.active:
            found = hooking.unmatched()
            if found is not None:
                recorder.lint.add("never-called", *found)

    def _see(self, function: Any, hooking: Hooking) -> None:
        """Replaces a function of the reference in every module of its package, so that its calls are recorded."""
        if isinstance(function, str):
            home, _, name = function.partition(":")
            module = importlib.import_module(home)
            if not callable(getattr(module, name, None)):
                raise LookupError(f"`{home}` has no function `{name}`{near(name, vars(module))}")
            function = getattr(module, name)
        hooking.recorder.sources.add(function)

        @functools.wraps(function)
        def shown(*args: Any, **kwargs: Any) -> Any:
            output = function(*args, **kwargs)
            hooking.operation(function.__name__, args, kwargs, output, is_function=True)
            return output

        package = function.__module__.split(".")[0]
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] != package or module is None:
                continue
            for key, held in list(vars(module).items()):
                if held is function:
                    setattr(module, key, shown)
                    assert self._stack is not None
                    self._stack.callback(setattr, module, key, held)


# The frameworks whose modules can be hooked, by the import that creates such modules.
_SIDES = {"torch": "torch_side", "mlx.nn": "mlx_side", "mlx.core": "mlx_side"}


def _side(name: str) -> Any:
    return importlib.import_module(f".{_SIDES[name]}", __package__)


def side_of(model: Any) -> Any:
    """Returns `torch_side` or `mlx_side` for a module of torch or MLX, and none for anything else."""
    for name, base in (("torch", "torch.nn"), ("mlx.nn", "mlx.nn")):
        if name in sys.modules and isinstance(model, sys.modules[base].Module):
            return _side(name)
    return None


def place_of(point: str, kinds: Mapping[str, type], sources: Any) -> str:
    """Returns the place of a module: the nearest class above it that is the reference's own, and the path below."""
    parts = [] if point == "root" else point.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        kind = kinds.get(".".join(parts[:depth]) or "root")
        if kind is not None and not is_layer(kind):
            return ".".join([f"{sources.file_of(kind)}:{kind.__qualname__}", *parts[depth:]])
    kind = kinds[point]
    return f"{sources.file_of(kind)}:{kind.__qualname__}"


def is_layer(kind: type) -> bool:
    """Whether a module's class belongs to the framework, such as a linear layer or a list of modules."""
    return kind.__module__.split(".")[0] in ("torch", "mlx")


def _by_name(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(call).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {str(index): part for index, part in enumerate(args)} | dict(kwargs)
    parts: dict[str, Any] = {}
    for name, part in bound.items():
        if name == "kwargs" and isinstance(part, dict):
            parts.update(part)
        else:
            parts[name] = part
    return parts


def describe(tensor: Any) -> str:
    """Returns dtype and shape of a tensor, as `--list` prints them."""
    dtype = str(tensor.dtype).rsplit(".", 1)[-1]
    return f"{dtype} {list(tensor.shape)}"
