"""The commands of a debug session. Each takes the rest of its line, and answers or lets the reference go on."""

from __future__ import annotations

import ast
import codeop
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .debug_breaks import CommandError, UsageError, fits, unquoted, word_and_rest
from .debug_eval import EvalError, described
from .debug_place import Stop, Tap
from .debug_tensor import save, show
from .names import near

if TYPE_CHECKING:
    from .debug_session import Session

Answer = dict[str, Any]

LONGEST_LINE = 1 << 16
# Rows that `vars` shows without a pattern.
_ROWS = 200


@dataclass
class Resume:
    """A command that lets the reference go on, and where it stops again."""

    command: str
    target: str = ""

    def ends_at(self, tap: Tap) -> bool:
        """Whether this name ends the command."""
        if self.command == "into":
            return True
        if tap.unrecorded is not None or self.command == "continue":
            return False
        if self.command == "out":
            return not tap.name.startswith(self.target + ".")
        return self.command == "next" or fits(self.target, tap.name) is not None

    def missed(self, names: Iterable[str]) -> str:
        """Returns a sentence about a target that was not recorded."""
        again = " again" if any(fits(self.target, name) is not None for name in names) else ""
        return f"`{self.target}` was not recorded{again} before the end{'' if again else near(self.target, names)}"


def perform(session: Session, line: str) -> Answer | None:
    """Performs one command and returns its answer. Returns none for an empty line, and if the reference goes on."""
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    word, rest = word_and_rest(line)
    word = ALIASES.get(word, word)
    session.given(line.strip())
    try:
        if len(line) > LONGEST_LINE:
            raise UsageError(f"the line has more than {LONGEST_LINE} characters", "write shorter lines, or a block")
        command = COMMANDS.get(word)
        if command is None:
            raise _unknown(word)
        found = command.perform(session, rest)
    except CommandError as error:
        answer = {"kind": "error", "ok": False, "command": word, "message": str(error), "next": error.next}
        if isinstance(error, EvalError):
            answer |= {"output": error.printed, "traceback": error.traceback}
        return answer | ({"is_usage": True} if isinstance(error, UsageError) else {})
    except Exception as error:
        # Otherwise the reference would be blamed, whose frames are below.
        is_memory = isinstance(error, MemoryError)
        message = "there is not enough memory" if is_memory else f"{type(error).__name__}: {error}"
        advice = "look at a part of the tensor" if is_memory else "this is a mistake of the exporter; please report it"
        return {"kind": "error", "ok": False, "command": word, "message": message, "next": advice}
    return None if found is None else {"kind": command.kind, "ok": True, "command": word, **found}


def _unknown(word: str) -> CommandError:
    if word in _PORT:
        return CommandError(f"`{word}` belongs to the port's side", "use it in `cargo parity debug SPEC`")
    similar = near(word, COMMANDS, limit=3)
    similar = similar.replace("names", "commands") if similar.startswith("; similar") else ""
    return UsageError(f"unknown command `{word}`{similar}", "`help` lists the commands")


def _help(session: Session, rest: str) -> Answer:
    if rest and rest not in COMMANDS:
        raise _unknown(rest)
    shown = [rest] if rest else list(COMMANDS)
    return {"commands": [{"usage": COMMANDS[name].usage, "about": COMMANDS[name].about} for name in shown]}


def _break(session: Session, rest: str) -> Answer:
    session.breaks.add(rest)
    return _breaks(session, "")


def _breaks(session: Session, rest: str) -> Answer:
    _nothing("breaks", rest)
    return {"breakpoints": [one.json() for one in session.breaks.all], "note": None}


def _remove(session: Session, rest: str) -> Answer:
    if not rest:
        raise UsageError("`remove` needs a number or a pattern", "`breaks` lists the breakpoints")
    session.breaks.remove(unquoted(rest))
    return _breaks(session, "")


def _clear(session: Session, rest: str) -> Answer:
    _nothing("clear", rest)
    session.breaks.all.clear()
    return _breaks(session, "")


def _go(command: str) -> Callable[[Session, str], None]:
    def go(session: Session, rest: str) -> None:
        if command != "until":
            _nothing(command, rest)
        elif not rest:
            raise UsageError("`until` needs a pattern", "write `until PATTERN`, such as `until layers.0.out`")
        if session.is_over:
            raise CommandError("the reference is over, so it cannot go on", "`terminate` ends the session")
        target = unquoted(rest)
        if command == "until":
            # An error in the pattern is reported now.
            fits(target, "")
        if command == "out":
            tap = _standing(session).tap
            target = "" if tap is None else tap.name.rpartition(".")[0]
            if not target:
                raise CommandError("the reference is in no scope here", "use `next` or `continue`")
        session.resume = Resume(command, target)

    return go


def _location(session: Session, rest: str) -> Answer:
    _nothing("location", rest)
    return session.stop_json(_standing(session))


def _vars(session: Session, rest: str) -> Answer:
    pattern = unquoted(rest)
    names = [name for name in session.taps if not pattern or fits(pattern, name) is not None]
    if pattern and not names:
        raise CommandError(f"no tensor matches `{pattern}`{near(pattern, session.taps)}", "`vars` lists all of them")
    rows = []
    for name in names[:_ROWS]:
        value = session.taps.value(name)
        tensor = {"dtype": value.dtype, "shape": list(value.shape)}
        stats = session.statistics(name).json()
        rows.append({"name": name, "kind": session.taps.kind(name), "tensor": tensor, "stats": stats})
    return {"variables": rows, "left_out": len(names) - len(rows)}


def _eval(session: Session, rest: str) -> Answer:
    text = _whole(session, rest)
    result, printed, notes = session.evaluator.run(text, _standing(session))
    values = [] if result is None else [described(text, result)]
    return {"values": values, "output": printed, "notes": notes}


def _whole(session: Session, first: str) -> str:
    """Returns the Python of a command: its line and the lines after a backslash, or a block until an empty line.

    Raises UsageError if the input ends before the Python does: the lines below were meant as commands.
    """
    lines = [first.strip()]
    while lines[-1].endswith("\\"):
        lines.append(session.read(False) or "")
    text = "\n".join(lines)
    if text and not _is_open(text):
        return text
    while (line := session.read(False)) is not None and line.strip():
        text += f"\n{line}"
    if line is None and text.strip() and not _is_whole(text):
        raise UsageError(
            "the input ends inside the Python of `eval`, which took all lines below it",
            "close its brackets and quotes, and end a block with an empty line",
        )
    if not text.strip():
        raise CommandError(
            "`eval` needs Python", "write `eval actual.mean()`, or `eval` and a block with an empty line"
        )
    return text.strip("\n")


def _is_open(text: str) -> bool:
    """Whether Python would wait for more lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command(text, symbol="exec") is None
    except (SyntaxError, ValueError, OverflowError):
        return False


def _is_whole(text: str) -> bool:
    try:
        ast.parse(text.strip("\n"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _status(session: Session, rest: str) -> Answer:
    _nothing("status", rest)
    return session.status_json()


def _note(session: Session, rest: str) -> Answer:
    if not rest:
        raise UsageError("`note` needs a text", "write `note TEXT`; the trace keeps it")
    return {}


def _terminate(session: Session, rest: str) -> None:
    _nothing("terminate", rest)
    session.terminate()


def _nothing(command: str, rest: str) -> None:
    if rest:
        raise UsageError(f"`{command}` takes no arguments, found `{rest}`", f"write `{command}` alone")


def _standing(session: Session) -> Stop:
    assert session.stop is not None, "commands are performed while the reference stands"
    return session.stop


@dataclass(frozen=True)
class _Command:
    usage: str
    about: str
    perform: Callable[[Session, str], Answer | None]
    # The kind of its answer.
    kind: str


COMMANDS: dict[str, _Command] = {
    "help": _Command("help [COMMAND]", "list the commands", _help, "help"),
    "break": _Command(
        "break PATTERN [when EXPR] [first|hit N]",
        "stop at names that match (`*` is any text, `{i}` a number) and where the Python expression holds, such as "
        "`break layers.{i}.out when i % 5 == 0`; `break nan` stops at NaN or infinity",
        _break,
        "breakpoints",
    ),
    "breaks": _Command("breaks", "list the breakpoints, and how often each matched", _breaks, "breakpoints"),
    "remove": _Command("remove NUMBER|PATTERN", "remove a breakpoint", _remove, "breakpoints"),
    "clear": _Command("clear", "remove all breakpoints", _clear, "breakpoints"),
    "continue": _Command("continue", "run to the next breakpoint, or to the end", _go("continue"), "stopped"),
    "next": _Command("next", "run to the next recorded name", _go("next"), "stopped"),
    "into": _Command("into", "run to the next point that a hook sees, recorded or not", _go("into"), "stopped"),
    "out": _Command("out", "run to the first recorded name outside the current scope", _go("out"), "stopped"),
    "until": _Command(
        "until PATTERN", "run to the next name that matches, or to a breakpoint before it", _go("until"), "stopped"
    ),
    "location": _Command("location", "show where the reference is, with source lines and calls", _location, "location"),
    "vars": _Command("vars [PATTERN]", "list goldens, inputs and weights so far, with statistics", _vars, "variables"),
    "show": _Command("show NAME [SLICE]", "show elements of a tensor: `show norm 0, :, -1`", show, "tensor"),
    "eval": _Command(
        "eval PYTHON",
        "evaluate Python with `actual`, `taps[NAME]`, `np`, `torch`, `mx` and the reference's variables; a block ends "
        "with an empty line",
        _eval,
        "values",
    ),
    "save": _Command("save NAME FILE.npy [--force]", "write a tensor to a file", save, "saved"),
    "status": _Command("status", "show the state of the session", _status, "status"),
    "note": _Command("note TEXT", "add a remark to the trace", _note, "noted"),
    "terminate": _Command("terminate", "end the session", _terminate, "ended"),
}

# Other words for commands, as on the port's side.
ALIASES = {
    "?": "help",
    "b": "break",
    "c": "continue",
    "n": "next",
    "s": "into",
    "step": "into",
    "finish": "out",
    "where": "location",
    "l": "location",
    "p": "eval",
    "print": "eval",
    "variables": "vars",
    "delete": "remove",
    "q": "terminate",
    "quit": "terminate",
    "exit": "terminate",
}

# Commands that need a port and its goldens.
_PORT = ("start", "restart", "inject", "set", "diagnose")
