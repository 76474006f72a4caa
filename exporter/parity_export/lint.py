"""The golden lint: finds what makes a golden prove less than it seems to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .names import Rule, near
from .values import Array, Value

_PART = 1 << 20
_VARY = "choose inputs and weights that give different values (`rec.weights(…, vary=0.1)` for fresh parameters)"
# Every kind of finding, with its advice.
KINDS = {
    "zero": _VARY,
    "constant": _VARY,
    "not-finite": "choose inputs that stay finite, or accept it and declare `nan: equal` in the spec",
    "same-bytes": "record it once: drop one name with `{name: None}`",
    "captured-twice": "declare the count with `rec.hits(name, count)`, or name the rounds of a loop with `rec.scope`",
    "hits": "correct the count in `rec.hits`",
    "dtype": "correct the dtype in the spec or in the reference",
    "missing": "record it, or remove it from the spec",
    "never-called": "hook a name that is called: `--list` shows every name in call order",
    "unused-input": "remove it, or find out why the reference ignores it",
    "unexported-draw": (
        "pass the drawn tensor through `rec.pin` or `rec.input`, parameters through `rec.weights`, or call `.eval()`"
    ),
    "not-repeatable": "look for threads, atomics or uninitialised memory in the reference",
    "no-truth": "fix the cause in the message; checkpoints without a floor cannot use `noise`",
    "truth-rounded": "find the cast to float32 that the float64 run does not promote",
    "no-gradient": "freeze the parameter (`requires_grad_(False)`), or let the loss depend on it",
    "no-effect": "choose adapters whose products are not zero: in a fresh LoRA, one factor is",
    "unneeded": "remove the call",
}


@dataclass
class Finding:
    """One finding about a set. `accepted` is the reason the script gives for keeping it."""

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
    """A script's statement that findings of one kind are intended for some names."""

    kind: str
    rule: Rule
    why: str
    used: bool = False


@dataclass
class Lint:
    """Collects findings and matches them with what the script accepts."""

    findings: list[Finding] = field(default_factory=list)
    accepted: list[Acceptance] = field(default_factory=list)

    def accept(self, kind: str, pattern: str, why: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"`rec.accept` names the finding `{kind}`, expected one of {', '.join(KINDS)}")
        if not why.strip():
            raise ValueError(f'`rec.accept("{kind}", "{pattern}")` has an empty reason; state one in `why`')
        self.accepted.append(Acceptance(kind, Rule(pattern, True), why))

    def add(self, kind: str, name: str, message: str, role: str = "golden") -> None:
        finding = Finding(kind, name, message, role)
        for acceptance in self.accepted:
            if acceptance.kind == kind and acceptance.rule.fits.fullmatch(name):
                acceptance.used = True
                finding.accepted = acceptance.why
                break
        self.findings.append(finding)

    def close(self, left_out: Iterable[str] = ()) -> None:
        """Adds a finding per acceptance that matched nothing, unless it is meant for a golden that is left out."""
        left_out = list(left_out)
        for acceptance in self.accepted:
            if not acceptance.used and not any(acceptance.rule.fits.fullmatch(name) for name in left_out):
                message = (
                    f"the script accepts `{acceptance.kind}` for `{acceptance.rule.pattern}`, but nothing was found"
                )
                self.findings.append(Finding("unneeded", acceptance.rule.pattern, message))

    @property
    def refused(self) -> list[Finding]:
        """The findings that the script does not accept."""
        return [finding for finding in self.findings if finding.accepted is None]


def look_at_values(lint: Lint, role: str, values: Mapping[str, Value], choices: Container[str] = ()) -> None:
    """Finds tensors that are empty, constant, not finite, or equal to another one. Choices may be equal by chance."""
    seen: dict[tuple[str, str], str] = {}
    for name, value in values.items():
        if value.bits.size == 0:
            lint.add("constant", name, f"{role} `{name}` has no elements", role)
            continue
        size = value.bits.size
        bad, where, shown = _not_finite(value)
        if bad:
            message = f"{role} `{name}` has {bad} of {size} elements that are not finite, first {shown} at {where}"
            lint.add("not-finite", name, message, role)
        first = next(_parts(value))[0]
        is_constant = size > 1 and all(bool(np.all(part == first)) for part in _parts(value))
        if is_constant:
            kind = "zero" if first == 0 else "constant"
            lint.add(kind, name, f"{role} `{name}` is {first} in all of its {size} elements", role)
        elif size > 1 and name.partition("@")[0] not in choices:
            # Constant tensors are reported above, and single numbers are often equal by chance.
            earlier = seen.setdefault((value.kind(), value.sha256()), name)
            if earlier != name:
                lint.add("same-bytes", name, f"{role}s `{earlier}` and `{name}` have the same bytes", role)


def _parts(value: Value) -> Iterator[Array]:
    """Returns the elements in order, a million at a time: in float64, all weights of a model would need much memory."""
    flat = value.bits.reshape(-1)
    for start in range(0, flat.size, _PART):
        yield Value(value.dtype, flat[start : start + _PART]).wide()


def _not_finite(value: Value) -> tuple[int, list[int], Any]:
    """Returns how many elements are not finite, and the place and the value of the first."""
    count, where, shown = 0, [], None
    for number, part in enumerate(_parts(value)) if value.is_inexact else ():
        bad = np.flatnonzero(~np.isfinite(part))
        if bad.size and not count:
            where = [int(at) for at in np.unravel_index(number * _PART + int(bad[0]), value.shape)]
            shown = part[bad[0]]
        count += bad.size
    return count, where, shown


def look_at_hits(
    lint: Lint,
    hits: Mapping[str, int],
    declared: Iterable[tuple[Rule, int]],
    expected: Iterable[str],
    left_out: Iterable[str] = (),
) -> None:
    """Finds taps whose number of hits differs from the declared one. Goldens that are left out have no hits."""
    known, left_out = set(expected), list(left_out)
    declared = list(declared)
    for rule, count in declared:
        met = {name: hit for name, hit in hits.items() if rule.fits.fullmatch(name)}
        if not met and not any(rule.fits.fullmatch(name) for name in left_out):
            lint.add(
                "hits",
                rule.pattern,
                f"`{rule.pattern}` was never reached, but `rec.hits` declares {count}{near(rule.pattern, hits)}",
            )
        for name, hit in met.items():
            if hit != count:
                lint.add("hits", name, f"`{name}` was reached {hit} times, but `rec.hits` declares {count}")
    for name, hit in hits.items():
        is_declared = any(rule.fits.fullmatch(name) for rule, _ in declared) or f"{name}@{hit - 1}" in known
        if hit > 1 and not is_declared:
            lint.add("captured-twice", name, f"`{name}` was reached {hit} times, expected 1")
