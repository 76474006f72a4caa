"""The trace of a debug session: a file with one line of JSON per stop and command, readable even after a kill."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# Longer texts and lists of an answer are cut in the trace.
_TEXT = 2_000
_ITEMS = 100


class Trace:
    """Appends events to a file. Without a file, it does nothing."""

    def __init__(self, path: Path | None):
        self._file = None if path is None else _opened(path)

    def add(self, event: str, **facts: Any) -> None:
        """Appends one event and hands it to the system at once."""
        if self._file is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"at": now, "event": event, **_bounded(facts)}, ensure_ascii=False)
        try:
            self._file.write(line.encode("utf-8", errors="replace") + b"\n")
        except OSError as error:
            # The session is worth more than its trace.
            print(f"the trace ends here: {error.strerror}", file=sys.stderr, flush=True)
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(path: Path) -> Any:
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"`--trace {path}` is not a regular file; name a new file")
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), "ab", buffering=0)
    except OSError as error:
        raise ValueError(
            f"cannot write `--trace {path}`: {error.strerror}; name a file in an existing folder"
        ) from error


def _bounded(thing: Any) -> Any:
    if isinstance(thing, str) and len(thing) > _TEXT:
        return thing[:_TEXT] + "…"
    if isinstance(thing, dict):
        return {key: _bounded(part) for key, part in thing.items()}
    if isinstance(thing, list):
        cut = ["…"] if len(thing) > _ITEMS else []
        return [_bounded(part) for part in thing[:_ITEMS]] + cut
    return thing
