"""The recorder that a reference calls, and the fixture set it makes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import adapters as adapting
from . import choices, external, training
from . import pins as pinning
from .blocks import Blocks
from .collector import Collector, Kind, Stopped
from .draws import states
from .floor import Floor
from .names import Names, Rule, Rules, check_name, near
from .pins import Pins
from .places import caller
from .points import Hooking, describe, side_of
from .settings import Settings, reference_block
from .values import Value, hand_back, host

T = TypeVar("T")
_NOT_BY_BLOCK = (
    '`{}` needs more than one run of the whole reference, which `rec.floors("by-block")` avoids; leave one of them out'
)


class Recorder(Collector):
    """Collects the tensors of one run of a reference.

    When its `with` block ends without an error, the new set replaces `out_dir`. The set is stale when the bytes of
    `script` change. `reference` is the spec's `reference` block. `PARITY_REFERENCE`, which `cargo xtask` sets, wins
    over it. To measure floors as well, write the reference as a function and pass it to `main` or `run`. `recipes` are
    traced unless it is false.
    """

    def __init__(
        self,
        out_dir: str | os.PathLike[str],
        *,
        script: str | os.PathLike[str],
        reference: Mapping[str, Any] | None = None,
        format: str = "safetensors",
        shard_bytes: int | None = None,
        reuse: str | os.PathLike[str] | None = None,
        new_inputs: bool | None = None,
        report: str | os.PathLike[str] | None = None,
        root: str | os.PathLike[str] | None = None,
        lint: str | None = None,
        expect: Mapping[str, str | None] | None = None,
        spread: bool | None = None,
        recipes: bool = True,
    ):
        from .files import FORMATS

        if format not in FORMATS:
            raise ValueError(f"`format` is `{format}`, expected one of {', '.join(FORMATS)}")
        self.out_dir = Path(out_dir)
        self.script = Path(script).resolve()
        self.format = format
        self.shard_bytes = shard_bytes
        self.settings = Settings.read(
            reuse=reuse, new_inputs=new_inputs, report=report, root=root, lint=lint, expect=expect, spread=spread
        )
        block, self.canonical = reference_block(reference)
        self.reference: dict[str, Any] = block if block is not None else {"script": self.script.name}
        old = None if self.settings.new_inputs else self.settings.reuse
        self._open: ExitStack | None = None
        self._start("native", Pins.reading(old), None, recipes)

    def again(self, kind: Kind, traces: bool = False) -> Recorder:
        """Returns a recorder for another run of the same reference, with the same inputs and weights."""
        other = object.__new__(Recorder)
        other.out_dir, other.script, other.format, other.shard_bytes = self.out_dir, self.script, self.format, None
        other.settings, other.reference, other.canonical = self.settings, self.reference, self.canonical
        other._open = None
        other._start(kind, self.pins, self, traces)
        return other

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the spec. The manifest records them, so the script must compute with them."""
        return dict(self.reference.get("params", {}))

    def input(self, name: str, tensor: T) -> T:
        """Saves an input of the port and returns the tensor that the reference must continue with.

        That is the committed tensor if it has the same name, dtype and shape, and it is float64 in a float64 run. Open
        scopes come in front of the name, as with goldens.
        """
        name = self.full(name)
        value = host(tensor, f"input `{name}`")
        self._settle_draws()
        if self.is_first:
            value = self.pins.take("input", name, value, None, caller(self.sources))
        else:
            pin = self.pins.inputs.get(name)
            if pin is None:
                raise ValueError(
                    f"input `{name}` is missing in the first run; a reference must save the same inputs in every run"
                )
            value = pin.value
        value = self.changed_inputs.get(name, value)
        given: T = self._hand(name, value, tensor)
        return given

    def pin(self, name: str, tensor: T) -> T:
        """The same as `input`, for latents and noise drawn during the run. Continue with the returned tensor."""
        return self.input(name, tensor)

    def load(self, name: str, like: Any = "numpy") -> Any:
        """Returns a tensor by name: of this run, or an input or a weight of the committed set.

        A committed input or weight that is loaded becomes one of the new set. The committed set of a second reference
        is the set that the first one made. `like` is `numpy`, `torch`, `mlx`, or a tensor. An unknown name raises
        LookupError.
        """
        pinned = {**self.pins.weights, **self.pins.inputs}
        known = {key: pin.value for key, pin in pinned.items()} | {
            key: golden.value for key, golden in self.goldens.items()
        }
        name = self.full(name) if self.full(name) in known else name
        if name in known:
            value = self.changed_inputs.get(name, known[name])
            loaded = hand_back(value.widened() if self.is_float64 and value.is_inexact else value, like)
            if self.tracing is None:
                return loaded
            if name in self.goldens:
                return self.tracing.again(name, loaded)
            return self.tracing.leaf("input" if name in self.pins.inputs else "weight", name, loaded)
        role, old = self.pins.old_tensor(name) if self.is_first else ("input", None)
        if old is None and name in self.left_out:
            raise LookupError(f"golden `{name}` is left out, because the spec does not declare it")
        if old is None:
            raise LookupError(f"neither this run nor the committed set has a tensor `{name}`{near(name, known)}")
        taken = self.pins.take(role, name, old, None, caller(self.sources))
        if role == "input":
            return self._hand(name, taken, like)
        loaded = hand_back(taken.widened() if self.is_float64 and taken.is_inexact else taken, like)
        return loaded if self.tracing is None else self.tracing.leaf("weight", name, loaded)

    def weights(self, state: Any, *, prefix: str = "", file: str | None = None, vary: float | None = None) -> Any:
        """Saves the parameters that the port must load, and returns those that the reference must continue with.

        `state` is a mapping of names to tensors, and a mapping is returned; or a torch or MLX module, whose parameters
        are set in place. `vary` adds noise of that size to constant parameters. Several calls with different `prefix`
        or `file` combine the weights of several models.
        """
        tensors = pinning.as_tensors(state)
        taken = {name for held, names in self.adapted_in if held is state for name in names}
        own = {name: tensor for name, tensor in tensors.items() if name not in taken}
        back = self._keep(own, prefix, file, vary, caller(self.sources))
        side = side_of(state)
        if side is None:
            return back
        self.training.modules.append((state, prefix))
        if self.blocks is not None:
            self.blocks.attach(state, side)
        return side.load_into(state, back, self.is_float64)

    @property
    def external_files(self) -> list[Path]:
        """The files of the spec's `weights.external`, for example to find a config beside them."""
        return list(external.required(self.settings.external).paths)

    def external_tensors(self, like: Any = "numpy") -> dict[str, Any]:
        """Returns the tensors of the spec's `weights.external` by name, as `load` does.

        Loaders of other libraries do not work in a float64 run, where they make float64 tensors of float32 bytes.
        """
        files = external.required(self.settings.external)
        values = {name: files.value(name) for name in files.places}
        if self.is_float64:
            values = {name: value.widened() if value.is_inexact else value for name, value in values.items()}
        return {name: hand_back(value, like) for name, value in values.items()}

    def external_weights(self, state: Any, *, prefix: str = "") -> Any:
        """Returns external weights to continue with. They are not saved: the port reads the same files.

        `state` is as in `weights`, after the script has loaded the files into it. `prefix` comes before the names of
        its tensors in the files. Recipes refer to the tensors whose name and shape the files have.
        """
        tensors = pinning.as_tensors(state)
        files = self.settings.external
        own = set(tensors) if files is None else external.known(files, tensors, prefix)
        others = [name for name in tensors if name not in own]
        if others and self._first is None:
            first = f"{prefix}{others[0]}"
            self.pins.notes.append(
                f"{len(others)} of {len(tensors)} external weights are not in the files, first `{first}`"
            )
        back = dict(tensors)
        if self.is_float64:
            values = {name: host(tensor, f"weight `{prefix}{name}`") for name, tensor in back.items()}
            back = {
                name: hand_back(value.widened(), tensors[name]) if value.is_inexact else tensors[name]
                for name, value in values.items()
            }
        if self.tracing is not None:
            traced = {name: self.tracing.leaf("weight", prefix + name, back[name]) for name in own}
            back = {name: traced.get(name, tensor) for name, tensor in back.items()}
        side = side_of(state)
        if side is None:
            return back
        self.training.modules.append((state, prefix))
        return side.load_into(state, back, self.is_float64)

    def adapters(
        self,
        state: Any,
        names: str | Iterable[str] = adapting.NAMES,
        *,
        alpha: float | None = None,
        prefix: str = "",
        file: str | None = None,
    ) -> Any:
        """Saves the tensors of adapters, such as LoRA, and returns those that the reference must continue with.

        `state` is a mapping, and a mapping is returned; or a torch or MLX module, whose parameters that match `names`
        are set in place. Call it before `weights`, which then leaves these parameters out. The tensors go to
        `adapters.safetensors`, or to `file`. `alpha` is divided by the rank to give the factor of a product, and helps
        to name a mistake. `run` measures how far the adapters move each golden: in one more run, all are zero.
        """
        if self.format == "npy":
            raise ValueError("adapters need their own file, which the format `npy` does not have; use `safetensors`")
        if self.blocks is not None:
            raise RuntimeError(_NOT_BY_BLOCK.format("rec.adapters"))
        tensors = adapting.chosen(state, names)
        file = file or f"adapters.{self.format}"
        back = self._keep(tensors, prefix, file, None, caller(self.sources))
        self.adapted.update(prefix + name for name in tensors)
        self.adapted_in.append((state, set(tensors)))
        self.adapter_files.append(adapting.describe(file, tensors, alpha))
        side = side_of(state)
        return back if side is None else side.load_into(state, back, self.is_float64)

    def _keep(
        self, tensors: Mapping[str, Any], prefix: str, file: str | None, vary: float | None, place: str | None
    ) -> dict[str, Any]:
        """Saves weights in the first run, and returns those to continue with."""
        self._settle_draws()
        values: dict[str, Value] = {}
        if self.is_first:
            for name, tensor in tensors.items():
                value = host(tensor, f"weight `{prefix}{name}`", copy=self.blocks is None)
                value = pinning.varied({name: value}, vary)[name] if vary else value
                values[name] = self.pins.take("weight", prefix + name, value, file, place)
                if self.blocks is not None:
                    self.pins.weights[prefix + name].lent = values[name].sha256()
        else:
            unknown = [name for name in tensors if prefix + name not in self.pins.weights]
            if unknown:
                raise ValueError(
                    f"weight `{prefix}{unknown[0]}` is missing in the first run; "
                    "a reference must save the same weights in every run"
                )
            values = {name: self.pins.weights[prefix + name].value for name in tensors}
            if self.is_bare and self._first is not None:
                adapted = self._first.adapted
                values = {
                    name: adapting.zeros(value) if prefix + name in adapted else value for name, value in values.items()
                }
        if self.is_float64:
            values = {name: value.widened() if value.is_inexact else value for name, value in values.items()}
        # With floors by block, the set has the elements of the tensors that the reference continues with, and no copy.
        lends = self.blocks is not None and self.is_first
        back = {
            name: tensors[name] if lends and value.shares(tensors[name]) else hand_back(value, tensors[name], not lends)
            for name, value in values.items()
        }
        if self.tracing is not None:
            back = {name: self.tracing.leaf("weight", prefix + name, tensor) for name, tensor in back.items()}
        return back

    def save(
        self, name: str, tensor: T, *, stop: bool = False, floor: Floor | None = None, place: str | None = None
    ) -> T:
        """Saves the golden of a checkpoint and returns the tensor. Goldens are numbered in call order.

        A repeated name is the next hit of the same tap: `name@1`, `name@2` and so on. `stop` ends the reference here.
        `floor` is for scripts that compute the floor themselves.
        """
        place = place or caller(self.sources)
        if self.seen is not None and self.kind == "native":
            self.seen.append((self.full(name), describe(tensor)))
        saved = self.capture(self.full(name), self.full(name), tensor, place, sweeping=False)
        self.met.add(self.full(name))
        if saved is not None and floor is not None:
            saved.floor = floor
        if stop:
            raise Stopped(name)
        return tensor

    def floors(self, how: Literal["by-block"], *, blocks: str | Iterable[str] | None = None) -> None:
        """Measures floors by block: each block runs once more, alone, in float64, on the tensors that it received.

        Call it first in the reference. The reference then runs once, and needs no second model in memory. `blocks` are
        patterns of torch modules; by default, they are the items of the outermost lists of modules, and the modules
        beside these lists. Such a floor leaves out the errors of earlier blocks; the manifest names its block. No
        recipes are traced.
        """
        if how != "by-block":
            raise ValueError(f'`rec.floors` got `{how}`, expected "by-block"')
        if self.pins.inputs or self.pins.weights or self.goldens or self.hooks.active or self.blocks is not None:
            raise RuntimeError(
                "`rec.floors` was not the first call of the recorder; call it once, as the first thing in the reference"
            )
        from .spread import variant

        patterns = Blocks.of(self, blocks)
        # A listing, a debug session and a run that repeats the first one measure nothing.
        if self._first is None and self.seen is None and self.session is None and variant() is None:
            self.blocks = patterns
            self.tracing = None
            self._states = states()

    def distribution(self, name: str, logits: T, *, top: int | None = None) -> T:
        """Saves logits for `compare: distribution`, and returns them.

        With `top`, the golden has the log-probabilities and ids of the most probable tokens of each row, and the
        log-sum-exp, so that the file stays small. The spec then declares the same `top`.
        """
        kept: T = choices.distribution(self, name, logits, top)
        return kept

    def choice(self, name: str, ids: T) -> T:
        """Saves ids that the reference chose, and returns **the tensor to continue with**.

        That is the choice of the first run in every run: where two scores are nearly equal, the float64 run may choose
        otherwise, and the floors after it would be those of another text or of other experts.
        """
        chosen: T = choices.choice(self, name, ids)
        return chosen

    def gradients(self, loss: Any, model: Any, name: str = "grad") -> Any:
        """Differentiates the loss, saves `loss` and `grad.<parameter>` per trainable parameter, and returns gradients.

        `loss` is a torch tensor, or a function without arguments that returns the loss, which MLX needs. Parameters
        have the names of `rec.weights`, with the spec's `rename`. The gradients are those of torch by name, or the tree
        that MLX returns. A loss that was saved before is not saved again.
        """
        if self.blocks is not None:
            raise RuntimeError(_NOT_BY_BLOCK.format("rec.gradients"))
        return training.gradients(self, loss, model, name)

    def save_each(self, name: str, tensors: Mapping[str, Any]) -> None:
        """Saves `name.<key>` per tensor, such as clipped gradients, with the spec's `rename`, the last key first."""
        training.save_each(self, name, tensors)

    def step(self, optimizer: Any, gradients: Any = None) -> None:
        """Applies a step of a torch or MLX optimiser. Saves its state and the parameters: `step.1.param.<parameter>`.

        The state of a parameter is `step.1.state.<parameter>.<slot>`, with the optimiser's own word for the slot, such
        as `exp_avg`. The next step is `step.2`. `gradients` are for MLX, if they differ from those of `gradients`.
        """
        if self.blocks is not None:
            raise RuntimeError(_NOT_BY_BLOCK.format("rec.step"))
        training.step(self, optimizer, gradients)

    def stop_after(self, name: str) -> None:
        """Ends the reference after `save` or a hook records the golden of that name."""
        self._stop_after = name

    @contextmanager
    def scope(self, name: str, index: int | None = None) -> Iterator[None]:
        """Puts `name.index.`, or `name.` without an index, in front of names inside the block. Scopes nest."""
        part = name if index is None else f"{name}.{index}"
        check_name(part, "scope")
        self._scopes.append(part)
        if index is not None:
            self.axes[name] = max(self.axes.get(name, 0), index + 1)
        try:
            yield
        finally:
            self._scopes.pop()

    def axis(self, name: str, rounds: int | Iterable[int]) -> Iterator[int]:
        """Loops with a scope per round: `for t in rec.axis("step", 4): rec.save("v", v)` saves `step.0.v` and so on."""
        for index in range(rounds) if isinstance(rounds, int) else rounds:
            with self.scope(name, index):
                yield index

    def hook(
        self,
        model: Any,
        names: Names = "**",
        *,
        at: Literal["input", "output"] = "output",
        ops: bool | Literal["all"] | Iterable[str] = False,
        functions: Iterable[Any] = (),
        rename: Mapping[str, str] | None = None,
    ) -> None:
        """Records inputs or outputs of a torch or MLX model's modules, by qualified name, until the run ends.

        `names` is a pattern (`*` within a part, `**` over parts), a list of patterns, or a mapping from patterns to a
        new name (its wildcards are filled in order), True (keep) or None (drop). The first match decides. `rename`
        replaces whole parts in names that are kept. The model itself is `root`.

        `ops` also records operations, as `<module>.<operation>`, and the second in one call as
        `<module>.<operation>.1`: True for all that compute, a list of names, or `"all"`. `functions` are functions of
        the reference's source, or `module:name`, recorded in the same way.
        """
        if at not in ("input", "output"):
            raise ValueError(f"`at` is `{at}`, expected `input` or `output`")
        wanted = frozenset(ops) if not isinstance(ops, (bool, str)) else ops
        hooking = Hooking(self, Rules(names, rename), at, wanted)
        self.hooks.add(hooking, model, functions)
        if self.blocks is not None:
            self.blocks.attach(model, side_of(model))
        self.sources.add(type(model))
        if self.executed is not None:
            self.executed.start()

    def watch(self, *things: Any) -> None:
        """Adds objects, classes or functions to the provenance, and counts calls in their packages."""
        for thing in things:
            self.sources.add(
                thing if isinstance(thing, type) or (callable(thing) and hasattr(thing, "__code__")) else type(thing)
            )
        if self.executed is not None:
            self.executed.start()

    def hits(self, name: str, count: int) -> None:
        """Declares how often a tap, or each tap that matches a pattern, is reached."""
        self.expected_hits.append((Rule(name, True), count))

    def accept(self, kind: str, name: str, why: str) -> None:
        """Accepts a finding of the lint for a name or a pattern, with the reason."""
        if self._first is None:
            self.lint.accept(kind, name, why)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watches the frameworks while the reference runs. A requested stop ends the block without an error."""
        with ExitStack() as stack:
            self.hooks.open(stack, self)
            if self.executed is not None:
                stack.callback(self.executed.stop)
            with suppress(Stopped):
                yield
            if self.blocks is not None:
                self.blocks.finish()
                self.blocks.check()
            self.hooks.finish(self)

    def __enter__(self) -> Recorder:
        self._open = ExitStack()
        self._open.enter_context(self.running())
        self._states = states()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._open is not None
        quiet = bool(self._open.__exit__(kind, error, trace))
        if kind is None or quiet:
            from .finish import finish

            finish(self, passes=["native"])
        return quiet
