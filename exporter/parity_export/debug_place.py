"""Where a paused reference is: its source lines, the calls that led there, and the loops and modules it is in."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from .places import is_own_frame

if TYPE_CHECKING:
    from .provenance import Sources

AROUND = 5
# A deep recursion has a thousand calls: only so many outer and inner ones are shown.
CALLS = 10


@dataclass
class Tap:
    """The tensor of a name that the reference passes."""

    name: str
    tensor: Any
    # The name of the point in the reference's own words, such as `model.layers.0.self_attn.q_proj`.
    point: str
    # Why the name is not recorded; none if it is.
    unrecorded: str | None


@dataclass
class Stop:
    """A place at which the reference stands: a name, or the start or the end, which have none."""

    why: dict[str, Any]
    tap: Tap | None = None
    scopes: list[str] = field(default_factory=list)
    frame: FrameType | None = None
    note: str | None = None

    @property
    def local(self) -> Mapping[str, Any]:
        return {} if self.frame is None else self.frame.f_locals

    @property
    def around(self) -> Mapping[str, Any]:
        return {} if self.frame is None else self.frame.f_globals


@dataclass
class Locator:
    """Turns frames into places, with file names that are the same on every machine."""

    sources: Sources
    outermost: Any
    _paths: dict[str, str] = field(default_factory=dict)

    def place(self, frame: FrameType) -> dict[str, Any]:
        """Returns file, line and function of a frame."""
        file = frame.f_code.co_filename
        if file not in self._paths:
            self._paths[file] = self.sources.path(file)
        qualified = str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))
        function = qualified.rsplit("<locals>.", 1)[-1]
        return {"file": self._paths[file], "line": frame.f_lineno, "function": function}

    def source(self, frame: FrameType | None) -> dict[str, Any] | None:
        """Returns the line of a frame, with five lines before and after it."""
        if frame is None:
            return None
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        first, last = max(1, frame.f_lineno - AROUND), min(len(lines), frame.f_lineno + AROUND)
        shown = [line.rstrip("\n")[:300] for line in lines[first - 1 : last]]
        return {"file": self.place(frame)["file"], "line": frame.f_lineno, "first": first, "lines": shown}

    def stack(self, frame: FrameType | None) -> tuple[list[dict[str, Any]], int]:
        """Returns the calls from the reference's function to a frame, without those inside frameworks.

        Of a deep recursion, returns the outermost and the innermost calls, and how many are left out between them.
        """
        found = []
        while frame is not None:
            if is_own_frame(frame):
                found.append(frame)
            if frame.f_code is self.outermost:
                break
            frame = frame.f_back
        found.reverse()
        left_out = max(0, len(found) - 2 * CALLS)
        shown = [*found[:CALLS], *found[-CALLS:]] if left_out else found
        return [self.place(frame) for frame in shown], left_out
