"""The front of a debug session: a prompt on a terminal, or commands from a pipe; answers as text or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, TextIO

from .debug_commands import COMMANDS, LONGEST_LINE
from .debug_text import words

PROMPT, MORE = "(parity) ", "... "


class Console:
    """Reads commands from standard input, and writes answers to standard output.

    Commands from a pipe, and answers in JSON, keep these to themselves: the reference then reads an empty input, and
    what it prints goes to standard error.
    """

    def __init__(self, is_json: bool):
        self.is_json = is_json
        self.is_terminal = _is_terminal(sys.stdin)
        # `input` edits lines only if it also writes to a terminal.
        self._edits = self.is_terminal and _is_terminal(sys.stdout) and not is_json
        self._in: TextIO = sys.stdin if self.is_terminal else _taken(0, "r")
        self._out: TextIO = _taken(1, "w") if is_json else sys.stdout
        if self._edits:
            _load_readline()

    def complete(self, names: Callable[[], Iterable[str]]) -> None:
        """Completes commands and names with the tab key, on a terminal that has readline."""
        readline = sys.modules.get("readline")
        if not self._edits or readline is None:
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
        if self._edits:
            try:
                return input(PROMPT if is_first else MORE)
            except EOFError:
                print(flush=True)
                return None
        line = self._in.readline(LONGEST_LINE + 2)
        if not line:
            return None
        rest = line
        while rest and not rest.endswith("\n"):
            # Too long, or the last one. A command that is too long is refused, so its rest is not kept.
            rest = self._in.readline(LONGEST_LINE)
        line = line.rstrip("\r\n")
        if line.strip() and not self.is_json and not self.is_terminal:
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


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. Python has none for a descriptor that its parent closed."""
    return stream is not None and stream.isatty()


def _taken(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    """Returns a private copy of standard input or output, and leaves a harmless one to the reference."""
    try:
        private = os.dup(descriptor)
    except OSError:
        # The parent closed it. There are no commands then, or nobody reads the answers.
        return open(os.devnull, mode, encoding="utf-8")
    if descriptor == 0:
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
    else:
        sys.stdout.flush()
        os.dup2(2, 1)
    # Some editors begin a file with a mark of its encoding, which is no part of the first command.
    encoding = "utf-8-sig" if mode == "r" else "utf-8"
    return open(private, mode, encoding=encoding, errors="replace", closefd=True)


def _load_readline() -> None:
    """Loads line editing with history, which `input` then uses. Not every Python has it."""
    try:
        import readline
    except ImportError:
        return
    readline.set_auto_history(True)
