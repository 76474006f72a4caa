"""Counts function calls per source file of the reference, to prove which files ran."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from .provenance import Sources

# Python has this since 3.12. Earlier ones count with a profile function, which is slower.
_MONITORING: Any = getattr(sys, "monitoring", None)


class Executed:
    """Counts calls of functions in the hooked packages, from `start` to `stop`."""

    def __init__(self, sources: Sources):
        self._sources = sources
        self._calls: dict[str, int] = {}
        self._files: dict[str, bool] = {}
        self._tool: int | None = None
        self._on = False

    def start(self) -> None:
        if self._on:
            # Another package was hooked, so files that were ignored may count now.
            self._files.clear()
            if _MONITORING is not None:
                _MONITORING.restart_events()
            return
        self._on = True
        if _MONITORING is None:
            sys.setprofile(self._profile)
            return
        # Python reserves 0, 1, 2 and 5 for debuggers, coverage tools, profilers and optimisers.
        self._tool = next((number for number in (3, 4) if _MONITORING.get_tool(number) is None), None)
        if self._tool is None:
            return
        _MONITORING.use_tool_id(self._tool, "parity_export")
        _MONITORING.register_callback(self._tool, _MONITORING.events.PY_START, self._begun)
        _MONITORING.set_events(self._tool, _MONITORING.events.PY_START)

    def stop(self) -> None:
        if not self._on:
            return
        self._on = False
        if _MONITORING is None:
            sys.setprofile(None)
        elif self._tool is not None:
            _MONITORING.set_events(self._tool, 0)
            _MONITORING.register_callback(self._tool, _MONITORING.events.PY_START, None)
            _MONITORING.free_tool_id(self._tool)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Counts nothing inside the block."""
        was_on = self._on
        self.stop()
        try:
            yield
        finally:
            if was_on:
                self.start()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._count(frame.f_code)

    def _begun(self, code: CodeType, _: int) -> Any:
        return None if self._count(code) else _MONITORING.DISABLE

    def _count(self, code: CodeType) -> bool:
        file = code.co_filename
        wanted = self._files.get(file)
        if wanted is None:
            root = self._sources.path(file).split("/")[0] if not file.startswith("<") else ""
            wanted = self._files[file] = root in self._sources.packages
        # A module body runs on import, and earlier imports decide whether that happens here.
        if wanted and not code.co_name.startswith("<module"):
            self._calls[file] = self._calls.get(file, 0) + 1
        return wanted

    def json(self) -> dict[str, int]:
        """Returns the number of calls per file, under the file names of the manifest."""
        found = {self._sources.path(file): count for file, count in self._calls.items()}
        return {name: found[name] for name in sorted(found)}
