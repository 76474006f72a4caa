"""Equations of einsum."""

from __future__ import annotations


def explicit(equation: str, ranks: list[int]) -> str:
    """Returns an equation without blanks and dots, and with its result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = iter(sorted(set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") - set(equation)))
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    dots = [next(free) for _ in range(max([0, *(n for n, term in zip(hidden, terms, strict=True) if "..." in term)]))]
    if not arrow:
        letters = sorted(letter for letter in set(left) - set(",.") if left.count(letter) == 1)
        right = ("..." if dots else "") + "".join(letters)
    full = [term.replace("...", "".join(dots[len(dots) - n :])) for term, n in zip(terms, hidden, strict=True)]
    return ",".join(full) + "->" + right.replace("...", "".join(dots))
