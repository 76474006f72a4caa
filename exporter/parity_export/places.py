"""Where in a reference's source something happens, as a path that is the same on every machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .provenance import Sources

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMEWORKS = ("torch", "mlx", "numpy", "jax", "contextlib", "functools")


def caller(sources: "Sources") -> str:
    """The nearest place up the stack that is neither ours nor a framework's: `file.py:function:line`."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        module = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if not file.startswith(_OWN) and not file.startswith("<") and module not in _FRAMEWORKS:
            qualified = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            return f"{sources.path(file)}:{qualified.rsplit('<locals>.', 1)[-1]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown"


def package_path(file: str) -> str | None:
    """A source file's path from the folder that holds its top package; none when it belongs to none."""
    path = Path(file)
    top = path.parent
    if not (top / "__init__.py").exists():
        # A single module in a folder that Python imports from.
        return path.name if str(top) in sys.path else None
    while (top.parent / "__init__.py").exists():
        top = top.parent
    return path.relative_to(top.parent).as_posix()
