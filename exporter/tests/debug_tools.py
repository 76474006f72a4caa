"""Starts debug sessions of scripts that tests write."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parity_export.debug_session import debug

EXPORTER = Path(__file__).parent.parent

# Three names in two rounds of a loop, and one after it.
LOOP = """
import os, signal
import numpy as np
from parity_export import main

def reference(rec, dim=4, rounds=2, fails=False):
    draw = np.random.default_rng(0)
    w = rec.weights({"up": draw.standard_normal((dim, dim)).astype(np.float32)})
    x = rec.input("x", draw.standard_normal((3, dim)).astype(np.float32))
    print("the reference speaks")
    for i in rec.axis("step", rounds):
        value = x @ w["up"]
        x = rec.save("norm", np.tanh(value))
        rec.save("up", x * np.float32(1 + i))
    INTERRUPTS
    if fails:
        raise RuntimeError("no such luck")
    rec.save("out", np.where(x > 0, x, np.float32("nan")))

if __name__ == "__main__":
    main(reference)
"""


def write_script(folder: Path, text: str = LOOP, interrupts: int = 0) -> Path:
    """Writes a script. It interrupts itself so often before its last golden."""
    script = folder / "reference.py"
    signals = "; ".join(["os.kill(os.getpid(), signal.SIGINT)"] * interrupts) or "pass"
    script.write_text(text.replace("INTERRUPTS", signals))
    return script


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXPORTER), *sys.path]), **more}


def session(
    script: Path, *lines: str, arguments: tuple[str, ...] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs a session with one command per line, from a pipe."""
    command = [sys.executable, str(script), "--debug", *arguments]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(
        command, input=text, check=False, env=environment(**more), capture_output=True, text=True, cwd=script.parent
    )


class Scripted:
    """A front that reads commands from a list and keeps the answers."""

    def __init__(self, lines: tuple[str, ...], is_terminal: bool):
        self.is_terminal = is_terminal
        self.lines = list(lines)
        self.answers: list[dict[str, Any]] = []

    def read(self, is_first: bool) -> str | None:
        return self.lines.pop(0) if self.lines else None

    def answer(self, answer: dict[str, Any]) -> None:
        self.answers.append(json.loads(json.dumps(answer, allow_nan=False)))

    def note(self, text: str) -> None:
        pass

    def complete(self, names: Any) -> None:
        pass


def answers(
    script: Path, *lines: str, status: int = 0, is_terminal: bool = True, **options: Any
) -> list[dict[str, Any]]:
    """Returns the answers of a session in this process, without the first one, which greets. The last one ends it."""
    front = Scripted(lines, is_terminal)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(script.parent)
        assert debug(runpy.run_path(str(script))["reference"], front, **options) == status
    assert front.answers[0]["why"] == {"reason": "start"}
    return front.answers[1:]


def stops(found: list[dict[str, Any]]) -> list[str]:
    """Returns the names at which a session stopped, and its end if it got there."""
    stopped = [answer for answer in found if answer["kind"] == "stopped"]
    return [_name(answer["tap"]) if answer["tap"] else answer["why"]["reason"] for answer in stopped]


def _name(tap: dict[str, Any]) -> str:
    return f"{tap['name']}@{tap['hit']}" if tap["hit"] else str(tap["name"])
