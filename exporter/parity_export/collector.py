"""One run of a reference: the goldens it records, and the facts the lint and the manifest need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .draws import states
from .executed import Executed
from .floor import Floor
from .lint import Lint
from .names import Rule, check_name
from .pins import Pins
from .places import Places
from .points import Hooks
from .provenance import Sources
from .settings import Settings
from .tracing import Tracing
from .training import Training
from .values import Value, framework_of, hand_back, host

if TYPE_CHECKING:
    from .blocks import Blocks
    from .debug_session import Session

# The unchanged run, the float64 run, the run with other random draws, and a repeat, which may change one input.
Kind = Literal["native", "truth", "again", "repeat"]


class Stopped(BaseException):
    """Raised by the recorder to end a reference early, after the requested tensor is saved."""


@dataclass
class Golden:
    """One golden of the set, with its floor, its spread and its place in the source."""

    name: str
    value: Value
    place: str | None
    floor: Floor | None = None
    # The block that a local floor was measured in.
    floor_block: str | None = None
    no_floor: str | None = None
    spread: Floor | None = None
    # How far the adapters move it.
    change: Floor | None = None
    # How a step of an optimiser made it.
    step: dict[str, Any] | None = None


class Collector:
    """One run. The first run decides which goldens exist and names them; later runs reuse those names."""

    out_dir: Path
    script: Path
    settings: Settings
    reference: dict[str, Any]

    def _start(self, kind: Kind, pins: Pins, first: Collector | None, traces: bool) -> None:
        """Resets the state of one run. Runs after the first share its lint, sources and names."""
        self.kind: Kind = kind
        self.pins = pins
        self.lint: Lint = first.lint if first else Lint()
        self.sources: Sources = first.sources if first else Sources(self.script, self.reference["script"])
        self.executed = Executed(self.sources) if first is None else None
        self.goldens: dict[str, Golden] = {}
        self.taps: dict[str, int] = {}
        self.axes: dict[str, int] = {}
        self.devices: set[str] = set()
        self.skipped: dict[str, str] = {}
        self.left_out: dict[str, None] = {}
        self.seen: list[tuple[str, str]] | None = first.seen if first else None
        self.expected_hits: list[tuple[Rule, int]] = []
        self.hooks = Hooks()
        self.meets: Callable[[str, Value], None] | None = None
        self.handed: dict[int, tuple[str, Any]] = {}
        self.consumed: set[str] = set()
        # The ids that the first run chose, by name and hit, and how often this run has chosen.
        self.chosen: dict[tuple[str, int], Value] = first.chosen if first else {}
        self.choices_met: dict[str, int] = {}
        self.changed_inputs: dict[str, Value] = {}
        self.lowered: dict[str, str] = {}
        self.distrusted: str | None = None
        self.blocks: Blocks | None = None
        self.tracing = Tracing(Places(self.sources)) if traces else None
        self.session: Session | None = None
        self.training = Training()
        # The weights that are adapters, by name and by module, their files, and whether this run leaves them out.
        self.adapted: set[str] = set()
        self.adapted_in: list[tuple[Any, set[str]]] = []
        self.adapter_files: list[dict[str, Any]] = []
        self.is_bare = False
        # Names that the reference saved in this run, recorded or not.
        self.met: set[str] = set()
        self._first = first
        self._decided: dict[tuple[str, int], str | None] = first._decided if first else {}
        self._attempts: dict[str, int] = {}
        self._by_bytes: dict[tuple[str, str], Golden] = {}
        self._scopes: list[str] = []
        self._stop_after: str | None = None
        self._states: dict[str, Any] | None = None

    @property
    def is_float64(self) -> bool:
        """Whether this is a float64 run, which measures floors. Few references need to know."""
        return self.kind == "truth" or self._in_block

    @property
    def is_first(self) -> bool:
        """Whether this is the run whose tensors become the goldens."""
        return self._first is None and not self._in_block

    @property
    def _in_block(self) -> bool:
        """Whether a block runs alone in float64. What it meets is compared with the goldens, as in a later run."""
        return self.blocks is not None and self.blocks.is_running

    def first_value(self, point: str) -> Value | None:
        """Returns the first run's golden of a point that this run is about to save; none if nothing was recorded."""
        final = self._decided.get((point, self._attempts.get(point, 0)))
        golden = None if self.is_first or final is None else (self._first or self).goldens.get(final)
        return None if golden is None else golden.value

    def full(self, name: str) -> str:
        """Returns the name with the open scopes in front."""
        return ".".join([*self._scopes, name])

    def capture(self, point: str, name: str, tensor: Any, place: str | None, *, sweeping: bool) -> Golden | None:
        """Records the golden of a point and returns it; none if nothing was recorded.

        The first run chooses the name, and later runs look it up. A sweeping hook skips a tensor whose bytes were
        recorded before, such as the output of a container, which is the output of its last layer. With a spec, only
        goldens that it declares are kept: recipes, floors and the lint then treat the others as never recorded.
        """
        if self.hooks.is_quiet:
            return None
        attempt = self._attempts.get(point, 0)
        self._attempts[point] = attempt + 1
        if not self.is_first:
            self._meet_again(self._decided.get((point, attempt)), tensor, place)
            return None
        if self.settings.expected.known and name not in self.settings.expected.goldens:
            self.left_out[name] = None
            self._decided[point, attempt] = None
            self.passes(name, point, tensor, "the spec does not declare it")
            self._maybe_stop(name)
            return None
        self._settle_draws(name)
        value = self._host(tensor, f"golden `{name}`")
        device = getattr(tensor, "device", None)
        self.devices.add(str(getattr(device, "type", device)) if device is not None else framework_of(tensor) or "")
        bytes_key = (value.kind(), value.sha256())
        twin = self._by_bytes.get(bytes_key)
        if sweeping and twin is not None and value.bits.size > 1:
            self.skipped[name] = twin.name
            self._decided[point, attempt] = None
            self.passes(name, point, tensor, f"it has the same elements as `{twin.name}`")
            return None
        check_name(name, "golden")
        hit = self.taps.get(name, 0)
        self.taps[name] = hit + 1
        final = f"{name}@{hit}" if hit else name
        if final in self.goldens:
            raise ValueError(f"golden `{final}` is saved twice; give the second one another name")
        golden = self.goldens[final] = Golden(final, value, place)
        self._by_bytes.setdefault(bytes_key, golden)
        self._decided[point, attempt] = final
        if self.tracing is not None:
            self.tracing.golden(final, tensor)
        if self.blocks is not None:
            self.blocks.met(golden, tensor)
        self.passes(final, point, tensor, None)
        self._maybe_stop(final)
        return golden

    def _meet_again(self, final: str | None, tensor: Any, place: str | None) -> None:
        """Compares a tensor of a later run, or of a block that runs again, with the golden of that name."""
        if self._in_block and self.blocks is not None and self.blocks.passes_on(final, tensor):
            return
        if final is not None and place != (self._first or self).goldens[final].place:
            # Another source line reached this name, so this tensor is not the counterpart of the golden.
            return
        if final is not None and self.meets is not None:
            self.meets(final, self._host(tensor, f"golden `{final}`"))
        self._maybe_stop(final)

    def passes(self, name: str, point: str, tensor: Any, unrecorded: str | None) -> None:
        """Lets a debug session stop at a name. `unrecorded` is the reason why no golden has it."""
        if self.session is not None:
            with self.hooks.quiet():
                self.session.meets(name, point, tensor, unrecorded)

    def _settle_draws(self, golden: str | None = None) -> None:
        """Reports random draws that were not saved as an input or a weight before this golden.

        Only a recorder used without `run` needs this check. `run` repeats the reference with other draws instead,
        which is more reliable.
        """
        if self._states is None:
            return
        before, self._states = self._states, states()
        drawn = [name for name, state in self._states.items() if name in before and before[name] != state]
        if golden is not None and drawn:
            message = (
                f"the reference drew from `{drawn[0]}` before golden `{golden}` and saved no input or weight since"
            )
            self.lint.add("unexported-draw", golden, message)

    def _host(self, tensor: Any, what: str) -> Value:
        with self.hooks.quiet():
            return host(tensor, what)

    def _maybe_stop(self, final: str | None) -> None:
        if final is not None and final == self._stop_after:
            raise Stopped(final)

    def _hand(self, name: str, value: Value, like: Any) -> Any:
        given = hand_back(value.widened() if self.is_float64 and value.is_inexact else value, like)
        if self.tracing is not None:
            given = self.tracing.leaf("input", name, given)
        # The reference keeps the object alive, so its `id` stays unique and `used` can recognise it.
        self.handed[id(given)] = (name, given)
        return given

    def used(self, thing: Any) -> None:
        """Notes that an operation received this object."""
        found = self.handed.get(id(thing))
        if found is not None:
            self.consumed.add(found[0])
