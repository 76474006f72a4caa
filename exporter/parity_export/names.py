"""Names of taps and tensors: allowed characters, patterns, and renaming from the reference to the port."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

MAX_NAME = 200
RESERVED = ("spec", "fixture", "weights", "adapters", "stats")

# The `names` of a hook: one pattern, several patterns, or patterns with a new name, True (keep) or None (drop) each.
Names: TypeAlias = str | Sequence[str] | Mapping[str, str | bool | None]


def check_name(name: str, what: str) -> None:
    """Raises ValueError if a spec cannot use the name."""
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
        allowed = f"a name other than {', '.join(RESERVED)}, which are trials of every spec"
    if allowed is not None:
        raise ValueError(
            f"`{name}` cannot be the name of {'an' if what[0] in 'aeiou' else 'a'} {what}: expected {allowed}"
        )


def near(name: str, known: Iterable[str], limit: int = 4) -> str:
    """Returns `; similar names: …` with those of `known` that resemble the name, or an empty text."""
    known = list(dict.fromkeys(known))
    # Wildcards would lower the similarity, and the last part of a dotted name identifies it best.
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
        return f"; known names ({len(known)}): {shown}{' …' if len(known) > limit else ''}"
    return "; similar names: " + ", ".join(f"`{other}`" for other in found)


def matcher(pattern: str) -> re.Pattern[str]:
    """Returns a pattern as a regular expression. `*` is any text without a dot, `**` any number of parts, even none."""
    parts = pattern.split(".")
    if "" in parts:
        raise ValueError(f"pattern `{pattern}` has an empty part between dots; write `*` for any part")
    text = ""
    for index, part in enumerate(parts):
        if part == "**":
            # The dot after `**` belongs to it, so `**.attn` also matches `attn`.
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
    """One pattern of a hook, and the new name, True (keep) or None (drop) for names that match."""

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
                    f"pattern `{self.pattern}` has {wild} wildcards and its target `{self.target}` has {named}; "
                    "use the same number, or name them with `{1}`, `{2}` and so on"
                )

    @property
    def is_sweeping(self) -> bool:
        """Whether the rule keeps names by wildcard. Such a rule skips points that only pass a value on."""
        return self.target is True and "*" in self.pattern

    def name(self, found: re.Match[str], own: str) -> str | None:
        """Returns the new name of a match; none if the rule drops it."""
        if not isinstance(self.target, str):
            return own if self.target else None
        caught = [group.strip(".") for group in found.groups()]
        order = iter(caught)
        text = re.sub(r"\*\*?", lambda _: next(order), self.target)
        text = re.sub(r"\{(\d+)\}", lambda number: caught[int(number[1]) - 1], text)
        return re.sub(r"\.{2,}", ".", text).strip(".")


class Rules:
    """The rules of a hook in order. The first rule that matches decides."""

    def __init__(self, names: Names, rename: Mapping[str, str] | None = None):
        if isinstance(names, str):
            names = [names]
        pairs = names.items() if isinstance(names, Mapping) else [(name, True) for name in names]
        self.rules = [Rule(pattern, target) for pattern, target in pairs]
        if not self.rules:
            raise ValueError("`names` of a hook is empty, expected a name, a pattern, or a mapping of patterns")
        self.rename = dict(rename or {})

    def resolve(self, point: str, leaf: str) -> tuple[str, Rule] | None:
        """Returns the golden's name and the rule for a leaf of a point, such as leaf `blocks.0.1` of `blocks.0`.

        Returns none if the leaf is not recorded.
        """
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
        """Whether a rule may record something of the point. Its leaves are unknown before the first call."""
        for rule in self.rules:
            if rule.fits.fullmatch(point):
                return rule.target not in (None, False)
            if rule.target and any(matcher(owner).fullmatch(point) for owner in _owners(rule.pattern)):
                return True
        return False

    def renamed(self, name: str) -> str:
        """Returns the name with sequences of whole parts replaced, from left to right, the longest match first."""
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
    """Returns the points that a name may be a leaf of: `blocks.0` for `blocks.0.1` and for `blocks.0.input.cache.1`."""
    owners = [pattern.rsplit(".", 1)[0]] if "." in pattern else []
    return owners + [pattern.rpartition(".input.")[0]] * (".input." in pattern)
