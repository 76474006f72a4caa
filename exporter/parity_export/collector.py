"""What one run of a reference collects: goldens under their names, and what is seen on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Literal

from .draws import states
from .executed import Executed
from .floor import Floor
from .lint import Lint
from .names import Rule, check_name
from .pins import Pins
from .points import Hooks
from .provenance import Sources
from .settings import Settings
from .values import Value, framework_of, hand_back, host

# As it is; in float64; with other random draws; and once more, or with one input changed.
Kind = Literal["native", "truth", "again", "repeat"]


class Stopped(BaseException):
    """Raised by the recorder to end a reference early, once the tensor that was asked for is saved."""


@dataclass
class Golden:
    """A golden of the set, and what is known about it."""

    name: str
    value: Value
    place: str | None
    floor: Floor | None = None
    no_floor: str | None = None
    spread: Floor | None = None


class Collector:
    """One run: the first decides which goldens there are and what they are called, all others follow it."""

    out_dir: Path
    script: Path
    settings: Settings
    reference: dict[str, Any]

    def _start(self, kind: Kind, pins: Pins, first: "Collector | None") -> None:
        """Sets up what belongs to one run."""
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
        self.seen: list[tuple[str, str]] | None = first.seen if first else None
        self.expected_hits: list[tuple[Rule, int]] = []
        self.hooks = Hooks()
        self.meets: Callable[[str, Value], None] | None = None
        self.handed: dict[int, tuple[str, Any]] = {}
        self.consumed: set[str] = set()
        self.changed_input: tuple[str, Value] | None = None
        self.lowered: dict[str, str] = {}
        self.distrusted: str | None = None
        self._first = first
        self._decided: dict[tuple[str, int], str | None] = first._decided if first else {}
        self._attempts: dict[str, int] = {}
        self._by_bytes: dict[tuple[str, str], Golden] = {}
        self._scopes: list[str] = []
        self._stop_after: str | None = None
        self._states: dict[str, Any] | None = None

    @property
    def is_float64(self) -> bool:
        """Whether this is the float64 run that floors are measured by. Few references need to know."""
        return self.kind == "truth"

    def full(self, name: str) -> str:
        """A name inside the open scopes."""
        return ".".join([*self._scopes, name])

    def capture(self, point: str, name: str, tensor: Any, place: str | None, *, sweeping: bool) -> Golden | None:
        """Records the golden of a point. Which name it gets is decided in the first run, and kept in all others.

        A sweeping hook leaves out what was recorded before: a container that hands on what its last layer gave.
        """
        attempt = self._attempts.get(point, 0)
        self._attempts[point] = attempt + 1
        if self._first is not None:
            final = self._decided.get((point, attempt))
            if final is not None and place != self._first.goldens[final].place:
                # Another line has come by the same name, so this is not what the golden was.
                return None
            if final is not None and self.meets is not None:
                self.meets(final, self._host(tensor, f"golden `{final}`"))
            self._maybe_stop(final)
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
            return None
        check_name(name, "golden")
        hit = self.taps.get(name, 0)
        self.taps[name] = hit + 1
        final = f"{name}@{hit}" if hit else name
        if final in self.goldens:
            raise ValueError(f"golden `{final}` was saved before")
        golden = self.goldens[final] = Golden(final, value, place)
        self._by_bytes.setdefault(bytes_key, golden)
        self._decided[point, attempt] = final
        self._maybe_stop(final)
        return golden

    def _settle_draws(self, golden: str | None = None) -> None:
        """In a recorder that is used by itself: what was drawn must be saved as an input or a weight before a golden is.

        A reference that is run as a function is told more surely, by a run with other draws.
        """
        if self._states is None:
            return
        before, self._states = self._states, states()
        drawn = [name for name, state in self._states.items() if name in before and before[name] != state]
        if golden is not None and drawn:
            message = f"`{drawn[0]}` was drawn from before golden `{golden}` was saved, and no input or weight came of it"
            self.lint.add("unexported-draw", golden, message)

    def _host(self, tensor: Any, what: str) -> Value:
        self.hooks.is_copying = True
        try:
            return host(tensor, what)
        finally:
            self.hooks.is_copying = False

    def _maybe_stop(self, final: str | None) -> None:
        if final is not None and final == self._stop_after:
            raise Stopped(final)

    def _hand(self, name: str, value: Value, like: Any) -> Any:
        given = hand_back(value.widened() if self.is_float64 and value.is_inexact else value, like)
        # Kept alive with its identity, so that whoever uses it can be seen to.
        self.handed[id(given)] = (name, given)
        return given

    def used(self, thing: Any) -> None:
        """Notes that an operation was given this object."""
        found = self.handed.get(id(thing))
        if found is not None:
            self.consumed.add(found[0])
