"""Breakpoints of a debug session: which names stop the reference, under which condition, and how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

from .names import near

# Conditions on a comparison, which only the port's side has.
_COMPARED = ("failed", "used")
NAN = "nan"
_FORM = "`break PATTERN [when EXPR] [first|hit N]`"


class CommandError(Exception):
    """A command that cannot be performed, and what to do instead."""

    def __init__(self, message: str, next_step: str):
        super().__init__(message)
        self.next = next_step


class UsageError(CommandError):
    """A line that is no command. A script ends there."""


@dataclass
class Breakpoint:
    """One breakpoint. It counts the hits that match, and stops at each of them, or at one of them."""

    number: int
    pattern: str
    # `any`, or `nan` to stop only at a tensor with NaN or infinity.
    on: str = "any"
    when: str | None = None
    hit: int | None = None
    hits: int = 0
    code: CodeType | None = None

    @property
    def text(self) -> str:
        """The breakpoint as a person writes it, without `break`."""
        name = self.pattern if self.pattern not in (*_COMPARED, NAN) else f'"{self.pattern}"'
        parts = [NAN if (self.on, self.pattern) == (NAN, "*") else f"{name} {NAN}" if self.on == NAN else name]
        parts += [f"when {self.when}"] if self.when else []
        parts += [] if self.hit is None else ["first" if self.hit == 1 else f"hit {self.hit}"]
        return " ".join(parts)

    def json(self) -> dict[str, Any]:
        names = ("number", "pattern", "on", "when", "hit", "hits", "text")
        return {name: getattr(self, name) for name in names}


class Breaks:
    """The breakpoints of a session, in the order in which they were set."""

    def __init__(self) -> None:
        self.all: list[Breakpoint] = []
        self._next = 1

    def add(self, text: str) -> Breakpoint:
        """Adds the breakpoint that a command describes, and returns it."""
        made = _parse(text, self._next)
        self._next += 1
        self.all.append(made)
        return made

    def remove(self, text: str) -> list[Breakpoint]:
        """Removes the breakpoint with this number, or those with this pattern, and returns them."""
        gone = [one for one in self.all if text in (str(one.number), one.pattern, one.text)]
        if not gone:
            known = ", ".join(f"{one.number} (`{one.text}`)" for one in self.all) or "none"
            raise CommandError(f"there is no breakpoint `{text}`; breakpoints: {known}", "see them with `breaks`")
        self.all = [one for one in self.all if one not in gone]
        return gone

    def clear(self) -> list[Breakpoint]:
        gone, self.all = self.all, []
        return gone

    def check(
        self, name: str, is_bad: Callable[[], bool], evaluate: Callable[[CodeType, dict[str, int]], Any]
    ) -> tuple[list[int], str | None]:
        """Counts a recorded name. Returns the numbers of the breakpoints that stop there, and a note about them.

        A condition that cannot be evaluated stops the session, so that a typing error is not taken for silence.
        """
        numbers, note = [], None
        for one in self.all:
            found = fits(one.pattern, name)
            if found is None or (one.on == NAN and not is_bad()):
                continue
            try:
                holds = one.code is None or bool(evaluate(one.code, found))
            except Exception as error:
                note = note or f"the condition of breakpoint {one.number} failed: {type(error).__name__}: {error}"
                one.hits += 1
                numbers.append(one.number)
                continue
            one.hits += holds
            if holds and one.hit in (None, one.hits):
                numbers.append(one.number)
        return numbers, note

    def never_matched(self, names: Mapping[str, Any]) -> list[tuple[Breakpoint, str]]:
        """Returns the breakpoints that matched nothing, each with similar names."""
        return [(one, _hint(one, names)) for one in self.all if not one.hits]


def fits(pattern: str, name: str) -> dict[str, int] | None:
    """Matches a whole name, or the tap that the name is a hit of: `norm` fits `norm@1`. Returns the pattern's numbers.

    As in the port's patterns, `*` is any text, also with dots, `?` is one character, and `{i}` is a number.
    """
    for own in (name, name.partition("@")[0]):
        found = _expression(pattern).fullmatch(own)
        if found is not None:
            return {axis: int(number) for axis, number in found.groupdict().items()}
    return None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    if not 0 < len(pattern) <= 500:
        raise UsageError(f"the pattern has {len(pattern)} characters, expected 1 to 500", f"write {_FORM}")
    wild = {"*": ".*?", "?": "."}
    text = ""
    for part in re.split(r"(\{[A-Za-z_]\w*\}|[*?])", pattern):
        number = rf"(?<!\d)(?P<{part[1:-1]}>\d+)(?!\d)" if part.startswith("{") and part.endswith("}") else None
        text += wild.get(part) or number or re.escape(part)
    try:
        if set("{}") & set(re.sub(r"\{[A-Za-z_]\w*\}", "", pattern)):
            raise ValueError("a brace names no axis")
        return re.compile(text)
    except (re.error, ValueError) as error:
        raise UsageError(
            f"`{pattern}` is no pattern: {error}", f"write {_FORM}, such as `break layers.{{i}}.out`"
        ) from error


def _hint(one: Breakpoint, names: Mapping[str, Any]) -> str:
    is_known = any(fits(one.pattern, name) is not None for name in names)
    if is_known and one.when:
        return "; its condition never held"
    if is_known and one.on == NAN:
        return "; no name recorded since has NaN or infinity"
    return "; it was set after its names" if is_known else near(one.pattern, names)


def axes(name: str) -> dict[str, int]:
    """Returns the loops that a name is in: `step` 2 and `layers` 0 for `step.2.layers.0.out`."""
    return {word: int(index) for word, index in re.findall(r"(?<![^.])([A-Za-z_]\w*)\.(\d+)(?![^.@])", name)}


def word_and_rest(text: str) -> tuple[str, str]:
    """Splits the first word from the rest, at any white space."""
    word, *rest = text.split(None, 1)
    return word, rest[0].strip() if rest else ""


def unquoted(text: str) -> str:
    """Returns a name without quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text


def _parse(text: str, number: int) -> Breakpoint:
    if not text.strip():
        raise UsageError("`break` needs a pattern", f"write {_FORM}, such as `break layers.*.out`")
    word, rest = word_and_rest(text)
    rest, hit = _split_hit(rest)
    if word in _COMPARED:
        raise CommandError(
            f"`break {word}` needs a comparison, and a reference is not compared with anything",
            "set it on the port's side, with `cargo parity debug SPEC`",
        )
    pattern, on = ("*", NAN) if word == NAN else (unquoted(word), "any")
    if rest == NAN:
        on, rest = NAN, ""
    elif rest and word_and_rest(rest)[0] == NAN:
        on, rest = NAN, rest.removeprefix(NAN).strip()
    fits(pattern, "")
    if not rest:
        return Breakpoint(number, pattern, on, hit=hit)
    word, when = word_and_rest(rest)
    if word != "when" or not when:
        raise UsageError(f"found `{rest}` behind the pattern", f"write {_FORM}")
    try:
        code = compile(when, "<when>", "eval")
    except (SyntaxError, ValueError) as error:
        advice = "write one such as `when actual.max() > 10`"
        raise UsageError(f"`{when}` is not a Python expression: {error}", advice) from error
    return Breakpoint(number, pattern, on, when, hit, code=code)


def _split_hit(text: str) -> tuple[str, int | None]:
    """Splits `first` or `hit N` from the end."""
    found = re.search(r"(?:^|\s)(?:(first)|hit\s+(\S+))$", text)
    if found is None:
        return text, None
    if found[1] is None and not re.fullmatch(r"[1-9][0-9]{0,8}", found[2]):
        raise UsageError(f"`{found[2]}` is no number of a hit, which count from 1", f"write {_FORM}")
    return text[: found.start()].strip(), 1 if found[1] else int(found[2])
