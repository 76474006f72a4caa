"""The front of a debug session: a prompt on a terminal, or commands from a pipe; answers as text or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, TextIO

from .debug_commands import COMMANDS
from .debug_text import words

PROMPT, MORE = "(parity) ", "... "


class Console:
    """Reads commands from standard input, and writes answers to standard output.

    Commands from a pipe, and answers in JSON, keep these to themselves: the reference then reads an empty input, and
    what it prints goes to standard error.
    """

    def __init__(self, is_json: bool):
        self.is_json = is_json
        self.is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not is_json
        self._in: TextIO = sys.stdin if sys.stdin.isatty() else _taken(0, "r")
        self._out: TextIO = _taken(1, "w") if is_json else sys.stdout
        if self.is_terminal:
            _load_readline()

    def complete(self, names: Callable[[], Iterable[str]]) -> None:
        """Completes commands and names with the tab key, on a terminal that has readline."""
        readline = sys.modules.get("readline")
        if not self.is_terminal or readline is None:
            return

        def found(text: str, at: int) -> str | None:
            known = COMMANDS if readline.get_begidx() == 0 else names()
            return next(iter([name for name in known if name.startswith(text)][at:]), None)

        readline.set_completer(found)
        readline.set_completer_delims(" \t\n\"'[]()")
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def read(self, is_first: bool) -> str | None:
        """Returns the next line, or none at the end of the input."""
        if self.is_terminal:
            try:
                return input(PROMPT if is_first else MORE)
            except EOFError:
                print(flush=True)
                return None
        line = self._in.readline()
        if not line:
            return None
        line = line.rstrip("\r\n")
        if line.strip() and not self.is_json:
            # The output of a script reads as a session at a terminal does.
            self._write(f"{PROMPT if is_first else MORE}{line}")
        return line

    def answer(self, answer: dict[str, Any]) -> None:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False) if self.is_json else words(answer)
        if text:
            self._write(text)

    def note(self, text: str) -> None:
        """Shows something that no command asked for: on standard error, so that answers stay apart."""
        print(text, file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        try:
            self._out.write(text.encode("utf-8", errors="replace").decode("utf-8") + "\n")
            self._out.flush()
        except BrokenPipeError:
            # Nobody reads the answers. Python would complain again when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())


def _taken(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    """Returns a private copy of standard input or output, and leaves a harmless one to the reference."""
    private = os.dup(descriptor)
    if descriptor == 0:
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
    else:
        sys.stdout.flush()
        os.dup2(2, 1)
    return open(private, mode, encoding="utf-8", errors="replace", closefd=True)


def _load_readline() -> None:
    """Loads line editing with history, which `input` then uses. Not every Python has it."""
    try:
        import readline
    except ImportError:
        return
    readline.set_auto_history(True)
