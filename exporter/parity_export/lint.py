"""Golden lint: what makes a golden prove less than it seems to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

import numpy as np

from .names import Rule, near
from .values import Value

# Every kind of finding and what to do about it.
KINDS = {
    "zero": "choose inputs and weights that make it say something (`rec.weights(…, vary=0.1)` for fresh parameters)",
    "constant": "choose inputs and weights that make it say something (`rec.weights(…, vary=0.1)` for fresh parameters)",
    "not-finite": "choose inputs that stay finite, or accept it and declare `nan: equal` in the spec",
    "same-bytes": "record it once: leave one out with `{name: None}`",
    "captured-twice": "say how often it is met with `rec.hits(name, count)`, or name the rounds of a loop with `rec.scope`",
    "hits": "mend the count in `rec.hits`",
    "dtype": "mend the dtype in the spec or in the reference",
    "missing": "record it, or take it out of the spec",
    "never-called": "hook what is called: `--list` shows every name in call order",
    "unused-input": "leave it out, or find out why the reference ignores it",
    "unexported-draw": "pass what was drawn through `rec.pin` or `rec.input`, parameters through `rec.weights`, or call `.eval()`",
    "not-repeatable": "look for threads, atomics or uninitialised memory in the reference",
    "no-truth": "mend what the message names; checkpoints without a floor cannot use `noise`",
    "truth-rounded": "find the cast to float32 that a float64 run cannot promote",
    "unneeded": "take the call away",
}


@dataclass
class Finding:
    """One thing that is wrong with a set, and why it was accepted if it was."""

    kind: str
    name: str
    message: str
    role: str = "golden"
    accepted: str | None = None

    def json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "role": self.role,
            "name": self.name,
            "message": self.message,
            "advice": KINDS[self.kind],
            "accepted": self.accepted,
        }


@dataclass
class Acceptance:
    """A script's statement that findings of a kind are right for some names."""

    kind: str
    rule: Rule
    why: str
    used: bool = False


@dataclass
class Lint:
    """Collects findings, and holds them against what a script accepts."""

    findings: list[Finding] = field(default_factory=list)
    accepted: list[Acceptance] = field(default_factory=list)

    def accept(self, kind: str, pattern: str, why: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"there is no finding `{kind}`, expected one of {', '.join(KINDS)}")
        if not why.strip():
            raise ValueError(f"accepting `{kind}` for `{pattern}` needs a reason")
        self.accepted.append(Acceptance(kind, Rule(pattern, True), why))

    def add(self, kind: str, name: str, message: str, role: str = "golden") -> None:
        finding = Finding(kind, name, message, role)
        for acceptance in self.accepted:
            if acceptance.kind == kind and acceptance.rule.fits.fullmatch(name):
                acceptance.used = True
                finding.accepted = acceptance.why
                break
        self.findings.append(finding)

    def close(self) -> None:
        """Speaks up about what was accepted and never found."""
        for acceptance in self.accepted:
            if not acceptance.used:
                message = f"`{acceptance.kind}` is accepted for `{acceptance.rule.pattern}`, but was not found"
                self.findings.append(Finding("unneeded", acceptance.rule.pattern, message))

    @property
    def refused(self) -> list[Finding]:
        """The findings that nobody accepted."""
        return [finding for finding in self.findings if finding.accepted is None]


def look_at_values(lint: Lint, role: str, values: Mapping[str, Value]) -> None:
    """Finds tensors that are constant, not finite, or there twice."""
    seen: dict[tuple[str, str], str] = {}
    for name, value in values.items():
        if value.bits.size == 0:
            lint.add("constant", name, f"{role} `{name}` has no elements", role)
            continue
        wide = value.wide()
        finite = np.isfinite(wide) if value.is_inexact else np.ones((), dtype=bool)
        if not np.all(finite):
            bad = np.argwhere(~finite)
            where = bad[0].tolist()
            message = f"{role} `{name}` has {len(bad)} of {wide.size} elements that are not finite, first {wide[tuple(where)]} at {where}"
            lint.add("not-finite", name, message, role)
        is_constant = wide.size > 1 and bool(np.all(wide == wide.flat[0]))
        if is_constant:
            kind = "zero" if wide.flat[0] == 0 else "constant"
            lint.add(kind, name, f"{role} `{name}` is {wide.flat[0]} in all of its {wide.size} elements", role)
        elif wide.size > 1:
            # Constant ones are told of already, and single numbers coincide by themselves.
            first = seen.setdefault((value.kind(), value.sha256()), name)
            if first != name:
                lint.add("same-bytes", name, f"{role}s `{first}` and `{name}` have the same bytes", role)


def look_at_hits(lint: Lint, hits: Mapping[str, int], declared: Iterable[tuple[Rule, int]], expected: Iterable[str]) -> None:
    """Finds taps that were met more often, or less, than somebody said."""
    known = set(expected)
    declared = list(declared)
    for rule, count in declared:
        met = {name: hit for name, hit in hits.items() if rule.fits.fullmatch(name)}
        if not met:
            lint.add("hits", rule.pattern, f"`{rule.pattern}` was never met, `rec.hits` says {count}{near(rule.pattern, hits)}")
        for name, hit in met.items():
            if hit != count:
                lint.add("hits", name, f"`{name}` was met {hit} times, `rec.hits` says {count}")
    for name, hit in hits.items():
        told = any(rule.fits.fullmatch(name) for rule, _ in declared) or f"{name}@{hit - 1}" in known
        if hit > 1 and not told:
            lint.add("captured-twice", name, f"`{name}` was met {hit} times, and nobody said that it would be")
