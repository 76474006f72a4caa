"""Which source files of the reference really ran, and how many of their functions were called."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from .provenance import Sources


class Executed:
    """Counts calls of functions in the packages that were hooked, from `start` to `stop`."""

    def __init__(self, sources: Sources):
        self._sources = sources
        self._calls: dict[str, int] = {}
        self._files: dict[str, bool] = {}
        self._tool: int | None = None
        self._on = False

    def start(self) -> None:
        monitoring: Any = getattr(sys, "monitoring", None)
        if self._on:
            # Another package was hooked: what was of no interest may be now.
            self._files.clear()
            if monitoring is not None:
                monitoring.restart_events()
            return
        self._on = True
        if monitoring is None:
            sys.setprofile(self._profile)
            return
        # One of the numbers that no debugger, coverage tool or profiler claims.
        self._tool = next((number for number in (3, 4) if monitoring.get_tool(number) is None), None)
        if self._tool is None:
            return
        monitoring.use_tool_id(self._tool, "parity_export")
        monitoring.register_callback(self._tool, monitoring.events.PY_START, self._begun)
        monitoring.set_events(self._tool, monitoring.events.PY_START)

    def stop(self) -> None:
        if not self._on:
            return
        self._on = False
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            sys.setprofile(None)
        elif self._tool is not None:
            monitoring.set_events(self._tool, 0)
            monitoring.register_callback(self._tool, monitoring.events.PY_START, None)
            monitoring.free_tool_id(self._tool)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._count(frame.f_code)

    def _begun(self, code: CodeType, _: int) -> Any:
        return None if self._count(code) else sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _count(self, code: CodeType) -> bool:
        file = code.co_filename
        wanted = self._files.get(file)
        if wanted is None:
            root = self._sources.path(file).split("/")[0] if not file.startswith("<") else ""
            wanted = self._files[file] = root in self._sources.packages
        # The body of a module or class runs when it is imported, which depends on what else was.
        if wanted and not code.co_name.startswith("<module"):
            self._calls[file] = self._calls.get(file, 0) + 1
        return wanted

    def json(self) -> dict[str, int]:
        """Calls by file, the files as the manifest names them."""
        found = {self._sources.path(file): count for file, count in self._calls.items()}
        return {name: found[name] for name in sorted(found)}
