"""Patterns, renames and near names."""

from __future__ import annotations

import pytest

from parity_export.names import Rules, matcher, near


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("blocks.*.attn", ["blocks.0.attn", "blocks.x1.attn"], ["blocks.attn", "blocks.0.1.attn", "blocks.0.attn.q"]),
        ("**", ["root", "a.b.c"], []),
        ("**.attn", ["attn", "blocks.0.attn"], ["blocks.0.xattn", "attn.q"]),
        ("blocks.**", ["blocks", "blocks.0", "blocks.0.attn"], ["xblocks.0"]),
        ("**.attn.**", ["attn", "b.attn", "b.attn.q.0"], ["b.attnx"]),
        ("norm*", ["norm", "norm1"], ["norm.1", "anorm"]),
        ("a.b", ["a.b"], ["aXb", "a.b.c"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    assert [name for name in fits + fits_not if matcher(pattern).fullmatch(name)] == fits


def name(rules: Rules, point: str, leaf: str | None = None) -> str | None:
    found = rules.resolve(point, leaf or point)
    return None if found is None else found[0]


def test_the_first_rule_that_fits_decides() -> None:
    rules = Rules(
        {
            "layers.*.self_attn": "blocks.*.attn.out",
            "**.dropout": None,
            "layers.*.1": "blocks.*.bias",
            "**.*_proj": "{1}.{2}",
            "**": True,
        },
        rename={"layers": "blocks", "mlp.act_fn": "act", "model": ""},
    )
    assert name(rules, "layers.3.self_attn") == "blocks.3.attn.out"
    assert name(rules, "layers.3.self_attn", "layers.3.self_attn.1") == "blocks.3.attn.out.1"
    assert name(rules, "layers.3", "layers.3.1") == "blocks.3.bias"
    assert name(rules, "layers.3.dropout") is None
    assert name(rules, "layers.3.up_proj") == "layers.3.up"
    assert name(rules, "model.layers.3.mlp.act_fn") == "blocks.3.act"


def test_renames_take_whole_parts_and_the_longest_first() -> None:
    rules = Rules("**", rename={"attn": "a", "attn.to_out.0": "attn.out", "norm": "n"})
    assert rules.renamed("b.attn.to_out.0") == "b.attn.out"
    assert rules.renamed("b.attn.norm1.norm") == "b.a.norm1.n"


def test_wildcards_that_do_not_match_up_are_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"pattern `a\.\*\.b\.\*` has 2 wildcards and its target `x\.\*` has 1; use the same"
    ):
        Rules({"a.*.b.*": "x.*"})
    with pytest.raises(ValueError, match="has 1 wildcards and its target `x` has 0"):
        Rules({"a.*": "x"})
    with pytest.raises(ValueError, match="`names` of a hook is empty, expected a name, a pattern, or a mapping"):
        Rules([])


def test_near_names_are_offered() -> None:
    known = ["encoder.block.0.attn.q", "encoder.block.0.norm", "head"]
    assert near("encoder.block.0.atn.q", known).startswith("; similar names: `encoder.block.0.attn.q`")
    assert "`encoder.block.0.norm`" in near("**.nrom", known)
    assert near("zzz", known) == "; known names (3): `encoder.block.0.attn.q`, `encoder.block.0.norm`, `head`"
    assert near("x", []) == ""
