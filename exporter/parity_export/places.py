"""Places in a reference's source, as paths that are the same on every machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .provenance import Sources

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMEWORKS = ("torch", "mlx", "numpy", "jax", "contextlib", "functools")


def caller(sources: Sources) -> str:
    """Returns the nearest frame outside this package and the frameworks, as `file.py:function:line`."""
    frame = own_frame()
    if frame is None:
        return "unknown"
    qualified = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return f"{sources.path(frame.f_code.co_filename)}:{qualified.rsplit('<locals>.', 1)[-1]}:{frame.f_lineno}"


def own_frame() -> FrameType | None:
    """Returns the nearest frame of the reference itself: outside this package and the frameworks."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_own_frame(frame):
        frame = frame.f_back
    return frame


def is_own_frame(frame: FrameType) -> bool:
    """Whether a frame belongs to the reference itself: neither to this package nor to a framework."""
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return not is_exporter(file) and not file.startswith("<") and module not in _FRAMEWORKS


def is_exporter(file: str) -> bool:
    """Whether a source file belongs to this package."""
    return file.startswith(_OWN)


def package_path(file: str) -> str | None:
    """Returns a source file's path from the folder of its top package; none if it belongs to no package."""
    path = Path(file)
    top = path.parent
    if not (top / "__init__.py").exists():
        # A top-level module in a folder on Python's path.
        return path.name if str(top) in sys.path else None
    while (top.parent / "__init__.py").exists():
        top = top.parent
    return path.relative_to(top.parent).as_posix()


class Places:
    """The source lines of a reference, with names of files that are the same on every machine."""

    def __init__(self, sources: Sources):
        self._sources = sources
        self._paths: dict[str, str] = {}

    def here(self) -> tuple[str, int] | None:
        """Returns file and line of the reference's own frame; none if only frameworks are running."""
        frame = own_frame()
        if frame is None:
            return None
        file = frame.f_code.co_filename
        if file not in self._paths:
            self._paths[file] = self._sources.path(file)
        return self._paths[file], frame.f_lineno
