"""Names of taps and tensors: what they may be, patterns over them, and how a reference's become a port's."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Sequence, Union

MAX_NAME = 200
RESERVED = ("spec", "fixture", "weights", "stats")

# What `names` of a hook may be: one pattern, several, or patterns with what becomes of them.
Names = Union[str, Sequence[str], Mapping[str, Union[str, bool, None]]]


def check_name(name: str, what: str) -> None:
    """Raises ValueError unless a spec could have the name."""
    allowed = None
    if not 0 < len(name) <= MAX_NAME:
        allowed = f"1 to {MAX_NAME} characters"
    elif not re.fullmatch(r"[A-Za-z0-9_.@-]+", name):
        allowed = "letters, digits and `_`, `.`, `@`, `-`"
    elif "" in name.split("."):
        allowed = "no empty part between dots"
    elif not re.match(r"[A-Za-z0-9_]", name):
        allowed = "a letter, a digit or `_` at the start"
    elif what == "golden" and name in RESERVED:
        allowed = f"none of {', '.join(RESERVED)}, which are trials of every spec"
    if allowed is not None:
        raise ValueError(f"`{name}` cannot be the name of {'an' if what[0] in 'aeiou' else 'a'} {what}: expected {allowed}")


def near(name: str, known: Iterable[str], limit: int = 4) -> str:
    """`; near names: …` for those of `known` that resemble the name, or an empty text."""
    known = list(dict.fromkeys(known))
    # Wildcards would spoil the likeness, and the last part of a dotted name says most.
    plain = re.sub(r"\*+\.?", "", name).strip(".")
    found = difflib.get_close_matches(plain, known, n=limit, cutoff=0.5)
    last = plain.rsplit(".", 1)[-1]
    tails = {other.rsplit(".", 1)[-1]: other for other in reversed(known)}
    for tail in difflib.get_close_matches(last, list(tails), n=limit, cutoff=0.6):
        if tails[tail] not in found and len(found) < limit:
            found.append(tails[tail])
    if not found:
        if not known:
            return ""
        shown = ", ".join(f"`{other}`" for other in known[:limit])
        return f"; there are {len(known)} names, {shown}{' …' if len(known) > limit else ''}"
    return "; near names: " + ", ".join(f"`{other}`" for other in found)


def matcher(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression: `*` is any text without a dot, `**` any number of whole parts, also none."""
    parts = pattern.split(".")
    if "" in parts:
        raise ValueError(f"the pattern `{pattern}` has an empty part between dots")
    text = ""
    for index, part in enumerate(parts):
        if part == "**":
            # The dot after it belongs to it, so that `**.attn` also fits `attn`.
            only = len(parts) == 1
            if index == len(parts) - 1:
                text = text.removesuffix(r"\.") + (r"(.*)" if only else r"((?:\.[^.]+)*)")
            else:
                text += r"((?:[^.]+\.)*)"
            continue
        text += "([^.]*)".join(re.escape(piece) for piece in part.split("*"))
        text += r"\." if index < len(parts) - 1 else ""
    return re.compile(text)


@dataclass
class Rule:
    """One pattern of a hook and what becomes of the names that fit it."""

    pattern: str
    target: str | bool | None
    fits: re.Pattern[str] = field(init=False)
    used: int = 0

    def __post_init__(self) -> None:
        self.fits = matcher(self.pattern)
        if isinstance(self.target, str):
            wild, named = self.pattern.replace("**", "*").count("*"), self.target.replace("**", "*").count("*")
            if named not in (0, wild) or (named == 0 and wild and "{" not in self.target):
                raise ValueError(
                    f"`{self.pattern}` has {wild} wildcards and `{self.target}` has {named}: expected as many, "
                    "or `{1}`, `{2}` and so on for those that are wanted"
                )

    @property
    def is_sweeping(self) -> bool:
        """Whether it takes names as they come, so that it may leave out what only passes a value on."""
        return self.target is True and "*" in self.pattern

    def name(self, found: re.Match[str], own: str) -> str | None:
        """What a name that fits is called; none when it is left out."""
        if not isinstance(self.target, str):
            return own if self.target else None
        caught = [group.strip(".") for group in found.groups()]
        order = iter(caught)
        text = re.sub(r"\*\*?", lambda _: next(order), self.target)
        text = re.sub(r"\{(\d+)\}", lambda number: caught[int(number[1]) - 1], text)
        return re.sub(r"\.{2,}", ".", text).strip(".")


class Rules:
    """Patterns in the order that they are tried; the first that fits decides."""

    def __init__(self, names: Names, rename: Mapping[str, str] | None = None):
        if isinstance(names, str):
            names = [names]
        pairs = names.items() if isinstance(names, Mapping) else [(name, True) for name in names]
        self.rules = [Rule(pattern, target) for pattern, target in pairs]
        if not self.rules:
            raise ValueError("no names to hook: expected a name, a pattern, or a mapping of them")
        self.rename = dict(rename or {})

    def resolve(self, point: str, leaf: str) -> tuple[str, Rule] | None:
        """What to record the leaf `leaf` of the point `point` as, e.g. `blocks.0` and `blocks.0.1`; none for nothing."""
        for rule in self.rules:
            for own, suffix in ((point, leaf[len(point) :]), (leaf, "")):
                found = rule.fits.fullmatch(own)
                if found is None:
                    continue
                rule.used += 1
                name = rule.name(found, self.renamed(own))
                return None if name is None else ((name + suffix).strip("."), rule)
        return None

    def wants(self, point: str) -> bool:
        """Whether something of the point may be recorded, as far as can be told before it is called."""
        for rule in self.rules:
            if rule.fits.fullmatch(point):
                return rule.target not in (None, False)
            if rule.target and any(matcher(owner).fullmatch(point) for owner in _owners(rule.pattern)):
                return True
        return False

    def renamed(self, name: str) -> str:
        """The name with runs of whole parts replaced, from left to right, the longest first."""
        parts, out = name.split("."), []
        keys = sorted(((key.split("."), value) for key, value in self.rename.items()), key=lambda pair: -len(pair[0]))
        index = 0
        while index < len(parts):
            for key, value in keys:
                if parts[index : index + len(key)] == key:
                    out.append(value)
                    index += len(key)
                    break
            else:
                out.append(parts[index])
                index += 1
        return ".".join(part for part in out if part)


def _owners(pattern: str) -> list[str]:
    """The points whose leaf a name may be: `blocks.0` for `blocks.0.1`, and for `blocks.0.input.cache.1`."""
    owners = [pattern.rsplit(".", 1)[0]] if "." in pattern else []
    return owners + [pattern.rpartition(".input.")[0]] * (".input." in pattern)
