"""Rules for torch's element-wise arithmetic and comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .recipe import Unknown, number_of
from .torch_rule import is_bool, is_complex, rule

_UNARY = {
    "neg": "neg negative __neg__",
    "abs": "abs absolute __abs__",
    "exp": "exp special_exp",
    "log": "log",
    "log2": "log2",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "atan": "atan arctan",
    "tanh": "tanh",
    "sigmoid": "sigmoid special_expit",
    "silu": "silu",
    "relu": "relu",
    "erf": "erf special_erf",
    "square": "square",
    "floor": "floor",
    "ceil": "ceil",
    "sign": "sign sgn",
    "isfinite": "isfinite",
}
_BINARY = {
    "add": "add __add__ __radd__",
    "sub": "sub subtract __sub__",
    "mul": "mul multiply __mul__ __rmul__",
    "div": "div divide true_divide __truediv__ __div__",
    "floor_div": "floor_divide __floordiv__",
    "mod": "remainder __mod__",
    "pow": "pow __pow__ float_power",
    "maximum": "maximum",
    "minimum": "minimum",
    "atan2": "atan2 arctan2",
    "eq": "eq __eq__",
    "ne": "ne not_equal __ne__",
    "lt": "lt less __lt__",
    "le": "le less_equal __le__",
    "gt": "gt greater __gt__",
    "ge": "ge greater_equal __ge__",
    "and": "logical_and bitwise_and __and__ __rand__",
    "or": "logical_or bitwise_or __or__ __ror__",
    "xor": "logical_xor bitwise_xor __xor__ __rxor__",
}
_REVERSED = {
    "sub": "rsub __rsub__",
    "div": "__rdiv__ __rtruediv__",
    "floor_div": "__rfloordiv__",
    "mod": "__rmod__",
    "pow": "__rpow__",
}
# Torch computes these in another way for complex numbers, or recipes only have them for real ones.
_COMPLEX = frozenset("add sub mul div neg exp".split())


def _real(op: str, *operands: Any) -> None:
    if op not in _COMPLEX and any(is_complex(operand) for operand in operands):
        raise Unknown(f"uses `{op}` of complex numbers, which recipes do not know")


def _unary(op: str) -> Callable[..., Any]:
    def made(e: Any, input: Any) -> int:
        _real(op, input)
        return int(e.add(op, [e.node(input)]))

    return made


def _binary(op: str, is_reversed: bool = False) -> Callable[..., Any]:
    def made(e: Any, input: Any, other: Any, *, alpha: Any = 1, rounding_mode: str | None = None) -> int:
        a, b = (other, input) if is_reversed else (input, other)
        _real(op, a, b)
        kind = op
        if is_bool(a) and is_bool(b):
            kind = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}.get(op, op)
        elif op in ("and", "or", "xor") and not _is_logical(e):
            raise Unknown(f"uses `{op}` of the bits of integers, which recipes do not know")
        left, right = e.of(a), e.of(b)
        if alpha != 1:
            # Of `input + alpha * other`. The reversed one is `other - alpha * input`.
            right = e.add("mul", [right, [number_of(alpha)]])
        if rounding_mode == "floor":
            return int(e.add("floor_div", [left, right]))
        found = int(e.add(kind, [left, right]))
        return truncated(e, found) if rounding_mode == "trunc" else found

    return made


def _is_logical(e: Any) -> bool:
    return isinstance(e.out, torch.Tensor) and e.out.dtype == torch.bool


def truncated(e: Any, node: int) -> int:
    """Rounds toward zero."""
    return int(e.add("mul", [e.add("sign", [node]), e.add("floor", [e.add("abs", [node])])]))


for _op, _names in _UNARY.items():
    rule(_names)(_unary(_op))
for _op, _names in _BINARY.items():
    rule(_names)(_binary(_op))
for _op, _names in _REVERSED.items():
    rule(_names)(_binary(_op, is_reversed=True))


@rule("abs absolute __abs__")
def _abs(e: Any, input: Any) -> int:
    node = e.node(input)
    if not is_complex(input):
        return int(e.add("abs", [node]))
    squares = [e.add("square", [e.add(part, [node])]) for part in ("real", "imag")]
    return int(e.add("sqrt", [e.add("add", squares)]))


@rule("angle")
def _angle(e: Any, input: Any) -> int:
    if not is_complex(input):
        raise Unknown("uses `torch.angle` of real numbers, which recipes do not know")
    node = e.node(input)
    return int(e.add("atan2", [e.add("imag", [node]), e.add("real", [node])]))


@rule("logical_not bitwise_not __invert__")
def _not(e: Any, input: Any) -> int:
    if not _is_logical(e):
        raise Unknown("uses `not` of the bits of integers, which recipes do not know")
    return int(e.add("not", [e.node(input)]))


@rule("round")
def _round(e: Any, input: Any, *, decimals: int = 0) -> int:
    scale = [10.0**decimals]
    node = e.node(input) if decimals == 0 else e.add("mul", [e.node(input), scale])
    node = e.add("round", [node])
    return int(node if decimals == 0 else e.add("div", [node, scale]))


@rule("trunc fix")
def _trunc(e: Any, input: Any) -> int:
    return truncated(e, e.node(input))


@rule("fmod")
def _fmod(e: Any, input: Any, other: Any) -> int:
    a, b = e.of(input), e.of(other)
    return int(e.add("sub", [a, e.add("mul", [truncated(e, e.add("div", [a, b])), b])]))


@rule("isnan")
def _isnan(e: Any, input: Any) -> int:
    node = e.node(input)
    return int(e.add("ne", [node, node]))


@rule("isinf")
def _isinf(e: Any, input: Any) -> int:
    node = e.node(input)
    return int(e.add("and", [e.add("not", [e.add("isfinite", [node])]), e.add("eq", [node, node])]))


@rule("exp2 special_exp2")
def _exp2(e: Any, input: Any) -> int:
    return int(e.add("pow", [[2.0], e.node(input)]))


@rule("log10")
def _log10(e: Any, input: Any) -> int:
    return int(e.add("div", [e.add("log", [e.node(input)]), [math.log(10)]]))


@rule("log1p special_log1p")
def _log1p(e: Any, input: Any) -> int:
    return int(e.add("log", [e.add("add", [e.node(input), [1.0]])]))


@rule("expm1 special_expm1")
def _expm1(e: Any, input: Any) -> int:
    return int(e.add("sub", [e.add("exp", [e.node(input)]), [1.0]]))


@rule("where")
def _where(e: Any, condition: Any, input: Any, other: Any) -> int:
    return int(e.add("where", [e.node(condition), e.of(input), e.of(other)]))


@rule("masked_fill")
def _masked_fill(e: Any, input: Any, mask: Any, value: Any) -> int:
    return int(e.add("where", [e.node(mask), e.of(value), e.node(input)]))


@rule("clamp clip")
def _clamp(e: Any, input: Any, min: Any = None, max: Any = None) -> int:
    node = e.node(input)
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        node = node if min is None else e.add("maximum", [node, e.of(min)])
        return int(node if max is None else e.add("minimum", [node, e.of(max)]))
    low, high = (None if bound is None else number_of(bound) for bound in (min, max))
    return int(e.add("clamp", [node], min=low, max=high))


@rule("clamp_min")
def _clamp_min(e: Any, input: Any, min: Any) -> int:
    return _clamp(e, input, min=min)


@rule("clamp_max")
def _clamp_max(e: Any, input: Any, max: Any) -> int:
    return _clamp(e, input, max=max)


@rule("addcmul")
def _addcmul(e: Any, input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, is_div: bool = False) -> int:
    node = e.add("div" if is_div else "mul", [e.of(tensor1), e.of(tensor2)])
    node = node if value == 1 else e.add("mul", [node, [number_of(value)]])
    return int(e.add("add", [e.node(input), node]))


@rule("addcdiv")
def _addcdiv(e: Any, input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> int:
    return _addcmul(e, input, tensor1, tensor2, value=value, is_div=True)


@rule("lerp")
def _lerp(e: Any, input: Any, end: Any, weight: Any) -> int:
    start = e.node(input)
    return int(e.add("add", [start, e.add("mul", [e.add("sub", [e.node(end), start]), e.of(weight)])]))
