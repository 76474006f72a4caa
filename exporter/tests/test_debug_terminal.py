"""Debug sessions on a terminal: the prompt with its history, and Ctrl-C while the reference runs or waits."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from debug_tools import environment, session, write_script

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals and pseudo-terminals")

PROMPT = b"(parity) "


class Terminal:
    """A script on a pseudo-terminal."""

    def __init__(self, process: int, end: int):
        self.process, self.end = process, end
        self.is_running = True

    def status(self) -> int:
        """Waits for the end of the process, and returns its exit status."""
        while self.read():
            pass
        _, found = os.waitpid(self.process, 0)
        self.is_running = False
        return os.waitstatus_to_exitcode(found)

    def until(self, wanted: bytes) -> str:
        """Returns what is printed up to a text. Fails if the process ends before."""
        found = b""
        while wanted not in found:
            part = self.read()
            assert part, f"the process ended after {found!r}, expected {wanted!r}"
            found += part
        return found.decode()

    def read(self) -> bytes:
        """Returns the next part of the output, and nothing at its end. Fails if there is none for two minutes."""
        assert select.select([self.end], [], [], 120)[0], "nothing is printed, and the process does not end"
        try:
            return os.read(self.end, 4096)
        except OSError:
            # Linux reports the end of a pseudo-terminal as an error.
            return b""

    def send(self, keys: bytes) -> str:
        """Types keys, and returns what is printed up to the next prompt."""
        os.write(self.end, keys)
        return self.until(PROMPT)


@contextmanager
def terminal(script: Path) -> Iterator[Terminal]:
    import pty

    # On a terminal without codes, readline only echoes what is typed.
    own = environment(TERM="dumb", COLUMNS="200", INPUTRC="/dev/null")
    process, end = pty.fork()
    if process == 0:
        os.chdir(script.parent)
        os.execve(sys.executable, [sys.executable, str(script), "--debug"], own)
    shown = Terminal(process, end)
    try:
        yield shown
    finally:
        if shown.is_running:
            os.kill(process, signal.SIGKILL)
            shown.status()
        os.close(end)


@pytest.mark.slow
def test_the_prompt_has_history_and_completion(tmp_path: Path) -> None:
    pytest.importorskip("readline", reason="this Python has no readline")
    with terminal(write_script(tmp_path)) as shown:
        shown.until(PROMPT)
        assert "stopped at `step.0.norm`" in shown.send(b"next\n")
        # The key for the line before.
        assert "stopped at `step.0.up`" in shown.send(b"\x10\n")
        assert "> 14" in shown.send(b"loca\t\n")
        assert "step.0.norm: float32" in shown.send(b"show step.0.n\t 0, 0\n")
        os.write(shown.end, b"eval for name in list(taps)[-2:-1]:\n")
        shown.until(b"... ")
        os.write(shown.end, b"    print(name * 2)\n")
        shown.until(b"... ")
        assert "step.0.normstep.0.norm" in shown.send(b"\n")
        os.write(shown.end, b"terminate\n")
        assert shown.status() == 0


def test_the_end_of_the_input_ends_the_session(tmp_path: Path) -> None:
    with terminal(write_script(tmp_path)) as shown:
        shown.until(PROMPT)
        shown.send(b"break nowhere\n")
        os.write(shown.end, b"\x04")
        assert "breakpoint 1, `nowhere`, never matched in the part that ran" in shown.until(b"that ran")
        assert shown.status() == 0


# Python notices a signal at the prompt at once, or with the next line if it came before readline waits for keys.
INTERRUPT = b"\x03\n"


@pytest.mark.slow
def test_two_interrupts_at_the_prompt_end_the_session(tmp_path: Path) -> None:
    with terminal(write_script(tmp_path)) as shown:
        shown.until(PROMPT)
        os.write(shown.end, b"sho" + INTERRUPT)
        shown.until(b"`terminate` or a second Ctrl-C ends the session")
        # A command between them starts the count again.
        os.write(shown.end, b"next\n")
        shown.until(b"stopped at `step.0.norm`")
        os.write(shown.end, INTERRUPT)
        shown.until(b"`terminate` or a second Ctrl-C ends the session")
        os.write(shown.end, INTERRUPT)
        assert shown.status() == 130


def test_an_interrupt_ends_an_evaluation_and_not_the_session(tmp_path: Path) -> None:
    with terminal(write_script(tmp_path)) as shown:
        shown.until(PROMPT)
        shown.send(b"next\n")
        loop = b"[0 for _ in iter(int, 1)]"
        os.write(shown.end, b"eval import sys; print('star' + 'ted', file=sys.stderr, flush=True); " + loop + b"\n")
        shown.until(b"started")
        assert "error: the evaluation was interrupted" in shown.send(b"\x03")
        assert "paused, 1 tap, last `step.0.norm`" in shown.send(b"status\n")


def test_an_interrupt_pauses_a_running_reference_at_the_next_name(tmp_path: Path) -> None:
    done = session(write_script(tmp_path, interrupts=1), "continue", "continue")
    assert done.returncode == 0, done.stderr
    assert "pausing at the next name; Ctrl-C again ends the session" in done.stderr
    assert "stopped at `out`, by a pause" in done.stdout
    assert "the reference has returned after 5 taps" in done.stdout


def test_a_second_interrupt_ends_a_running_reference(tmp_path: Path) -> None:
    script = write_script(tmp_path, interrupts=2)
    done = session(script, "continue", "vars", arguments=("--trace", "trace.jsonl"))
    assert done.returncode == 130
    assert "stopped at" not in done.stdout
    assert "the session was interrupted" in (tmp_path / "trace.jsonl").read_text().splitlines()[-1]
