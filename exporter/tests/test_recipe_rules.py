"""Rules for torch: every call becomes the expected operations, and replaying them gives what torch computed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from recipe_tools import Traced, draw  # noqa: E402

F = torch.nn.functional
X, Y = draw(2, 3, 4), draw(2, 3, 4, seed=1)
P = X.abs() + 0.5
IMAGE = draw(2, 4, 5, 6)
MATRIX = draw(4, 5)
IDS = torch.tensor([[1, 0, 2], [2, 2, 1]])
WHOLE = torch.tensor([[7, -7, 3], [-2, 5, 9]])
MASK = draw(2, 3, 4, seed=2) > 0
HEADS = draw(1, 4, 6, 8)
FEW = draw(1, 2, 6, 8, seed=3)
COMPLEX = torch.view_as_complex(draw(2, 3, 4, 2))

UNARY = "neg abs exp sin cos tan atan tanh sigmoid erf square floor ceil round sign isfinite reciprocal".split()

# The call, its operands, and the operations that it becomes.
CASES: dict[str, tuple[Any, list[Any], str]] = {
    **{name: (getattr(torch, name), [X], name) for name in UNARY},
    **{name: (getattr(torch, name), [P], name) for name in ("log", "log2", "sqrt", "rsqrt")},
    "operators": (lambda x, y: (x + y) * 2 - 1, [X, Y], "add mul sub"),
    "reversed operators": (lambda x: (1 - x) + 2 / x + 2**x, [X], "sub div add pow add"),
    "alpha": (lambda x, y: torch.add(x, y, alpha=3), [X, Y], "mul add"),
    "rsub": (lambda x: torch.rsub(x, 2.0, alpha=3), [X], "mul sub"),
    "integer division": (lambda x: x // 3, [WHOLE], "floor_div"),
    "truncating division": (lambda x: torch.div(x, 3, rounding_mode="trunc"), [WHOLE], "div sign abs floor mul"),
    "remainder": (lambda x: x % 4, [WHOLE], "mod"),
    "fmod": (lambda x: torch.fmod(x, 4), [WHOLE], "div sign abs floor mul mul sub"),
    "true division of integers": (lambda x: x / 2, [WHOLE], "div"),
    "pow": (lambda x: x.pow(2), [X], "pow"),
    "maximum": (torch.max, [X, Y], "maximum"),
    "atan2": (torch.atan2, [X, Y], "atan2"),
    "comparison": (lambda x, y: (x > y) & ~(x <= 0), [X, Y], "gt le not and"),
    "bools added": (lambda x: (x > 0) + (x < -1), [X], "gt lt or"),
    "where": (torch.where, [MASK, X, Y], "where"),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), [X, MASK], "where"),
    "clamp": (lambda x: x.clamp(min=-0.5), [X], "clamp"),
    "clamp by tensors": (lambda x, y: torch.clamp(x, min=y), [X, Y], "maximum"),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.25), [X, Y], "sub mul add"),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), [X, Y], "mul mul add"),
    "log1p": (torch.log1p, [P], "add log"),
    "isnan": (torch.isnan, [X], "ne"),
    "abs of complex numbers": (torch.abs, [COMPLEX], "real square imag square add sqrt"),
    "sum": (lambda x: x.sum(dim=(0, -1)), [X], "sum"),
    "mean": (lambda x: x.mean(-1, keepdim=True), [X], "mean"),
    "sum of bools": (lambda m: m.sum(dim=1), [MASK], "sum"),
    "max": (lambda x: x.max(), [X], "max"),
    "max along an axis": (lambda x: x.max(dim=1), [X], "max argmax"),
    "argmax": (lambda x: x.argmax(dim=-1), [X], "argmax"),
    "argmax of all": (lambda x: x.argmax(), [X], "reshape argmax"),
    "any": (lambda m: m.any(dim=-1), [MASK], "any"),
    "var": (lambda x: x.var(dim=-1, correction=0), [X], "var"),
    "std": (lambda x: x.std(-1), [X], "std"),
    "norm": (lambda x: x.norm(dim=-1, keepdim=True), [X], "norm"),
    "vector norm": (lambda x: torch.linalg.vector_norm(x, ord=1, dim=-1), [X], "norm"),
    "cumsum": (lambda x: x.cumsum(1), [X], "cumsum"),
    "logsumexp": (lambda x: x.logsumexp(-1), [X], "logsumexp"),
    "topk": (lambda x: x.topk(2, dim=-1), [X], "topk topk"),
    "sort": (lambda x: x.sort(dim=1, descending=True), [X], "sort sort"),
    "argsort": (lambda x: x.argsort(), [X], "sort"),
    "diff": (lambda x: x.diff(), [X], "slice slice sub"),
    "softmax": (lambda x: F.softmax(x, dim=-1), [X], "softmax"),
    "softmax in another dtype": (lambda x: x.softmax(-1, torch.float64), [X.float()], "cast softmax"),
    "log_softmax": (lambda x: x.log_softmax(1), [X], "log_softmax"),
    "normalize": (lambda x: F.normalize(x, dim=-1), [X], "l2_normalize"),
    **{name: (getattr(F, name), [X], name) for name in ("silu", "relu", "elu", "leaky_relu", "softplus", "gelu")},
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), [X], "gelu"),
    "mish": (F.mish, [X], "softplus tanh mul"),
    "relu6": (F.relu6, [X], "clamp"),
    "glu": (F.glu, [X], "slice slice sigmoid mul"),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w, eps=0.01), [X, MATRIX[:, 0]], "layer_norm"),
    "layer_norm of two axes": (lambda x: F.layer_norm(x, (3, 4)), [X], "layer_norm"),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w, eps=0.01), [X, MATRIX[:, 0]], "rms_norm"),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, None, 0.01), [IMAGE, MATRIX[:, 0]], "group_norm"),
    "batch_norm": (F.batch_norm, [IMAGE, MATRIX[:, 0], P[0, 0]], "batch_norm"),
    "linear": (F.linear, [X, MATRIX.T.contiguous(), MATRIX[0]], "linear"),
    "matmul": (lambda x, w: x @ w, [X, MATRIX], "matmul"),
    "bmm": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), [X, Y], "permute matmul"),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), [MATRIX[0], X[0], MATRIX], "matmul mul mul add"),
    "baddbmm": (lambda x, y: torch.baddbmm(x[:, :, :3], x, y.mT, beta=0), [X, Y], "permute matmul"),
    "einsum": (lambda x, w: torch.einsum("bij, jk -> bik", x, w), [X, MATRIX], "einsum"),
    "einsum with dots": (lambda x, w: torch.einsum("...j,jk", x, w), [X, MATRIX], "einsum"),
    "outer": (torch.outer, [X[0, 0], Y[0, 0]], "reshape mul"),
    "embedding": (F.embedding, [IDS, MATRIX], "embedding"),
    "one_hot": (F.one_hot, [IDS], "one_hot"),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), [X, draw(5, 3, 3)], "conv"),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        [IMAGE, draw(6, 2, 3, 2), draw(6)],
        "conv",
    ),
    "conv2d that keeps the size": (lambda x, w: F.conv2d(x, w, padding="same"), [IMAGE, draw(5, 4, 4, 3)], "conv"),
    "conv2d of one image": (F.conv2d, [IMAGE[0], draw(5, 4, 3, 3)], "reshape conv reshape"),
    "conv3d": (lambda x, w: F.conv3d(x[:, None], w, stride=2), [IMAGE, draw(2, 1, 2, 2, 2)], "reshape conv"),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 2),
        [IMAGE, draw(4, 3, 3, 3)],
        "conv_transpose",
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, stride=1, padding=1), [IMAGE], "avg_pool"),
    "max_pool2d": (lambda x: F.max_pool2d(x, (3, 2), padding=1), [IMAGE], "max_pool"),
    "attention": (F.scaled_dot_product_attention, [HEADS, HEADS + 1, HEADS * 2], "attention"),
    "causal attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3),
        [HEADS, HEADS + 1],
        "attention",
    ),
    "causal attention of fewer queries": (
        lambda q, k: F.scaled_dot_product_attention(q[:, :, :2], k, k, is_causal=True),
        [HEADS, HEADS + 1],
        "slice full tril attention",
    ),
    "attention with a mask of bools": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        [HEADS, torch.ones(6, 6, dtype=torch.bool).tril(1)],
        "attention",
    ),
    "attention with a mask to add": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m),
        [HEADS, draw(6, 6)],
        "attention",
    ),
    "grouped attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        [HEADS, FEW],
        "attention",
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.0), [IMAGE], "upsample"),
    "bilinear": (lambda x: F.interpolate(x, size=(7, 4), mode="bilinear"), [IMAGE], "upsample"),
    "bicubic": (lambda x: F.interpolate(x, size=(7, 9), mode="bicubic", align_corners=True), [IMAGE], "upsample"),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [IMAGE], "pixel_shuffle"),
    "casts": (lambda x: (x * 3).long() + x.double(), [X.half()], "mul cast cast add"),
    "cast to bool": (lambda x: x.round().bool(), [X], "round cast"),
    "complex numbers": (
        lambda x: torch.view_as_real(
            torch.view_as_complex(x.reshape(2, 3, 2, 2)) * torch.polar(x[..., :2], x[..., 2:])
        ),
        [X],
        "reshape view_as_complex slice slice polar mul view_as_real",
    ),
    "real and imaginary part": (lambda z: z.real + z.imag, [COMPLEX], "real imag add"),
    "conjugate": (lambda z: z.conj() * 2, [COMPLEX], "conj mul"),
    "a number to a complex one": (lambda x: x.to(torch.complex128) * 1j, [X], "complex complex mul"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_becomes_its_operations(name: str) -> None:
    call, inputs, ops = CASES[name]
    traced = Traced(call, *inputs)
    assert traced.ops == ops.split()
    traced.check()


@pytest.mark.parametrize(
    ("call", "attributes"),
    [
        (lambda x: x.sum(), {"axes": [0, 1, 2], "keep": False}),
        (lambda x: x.mean(dim=-1, keepdim=True), {"axes": [2], "keep": True}),
        (lambda x: x.var(-1), {"axes": [2], "keep": False, "ddof": 1}),
        (lambda x: F.softmax(x, dim=-2), {"axis": 1}),
        (lambda x: x.clamp(max=float("inf")), {"min": None, "max": "inf"}),
        (F.gelu, {"tanh": False}),
        (lambda x: F.layer_norm(x, (4,)), {"rank": 1, "eps": 1e-5}),
        (lambda x: x.to(torch.bfloat16), {"dtype": "bfloat16"}),
        (lambda x: torch.einsum("...j,kj", x, x[0]), {"equation": "ABj,kj->ABk"}),
        (
            lambda x: F.scaled_dot_product_attention(x, x, x),
            {"scale": 0.5, "causal": False, "groups": 1, "mask": None},
        ),
        (
            lambda x: F.conv1d(x, x[:, :, :2], dilation=2),
            {"stride": [1], "padding": [[0, 0]], "dilation": [2], "groups": 1},
        ),
        (
            lambda x: F.max_pool1d(x, 2, padding=1),
            {"kernel": [2], "stride": [2], "padding": [[1, 1]]},
        ),
    ],
)
def test_attributes_are_complete(call: Any, attributes: dict[str, Any]) -> None:
    assert Traced(call, X).node().attributes == attributes


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (torch.unique, "uses `torch.unique`, which recipes do not know"),
        (lambda x: torch.linalg.inv(x @ x.mT), "uses `torch.linalg_inv`, which recipes do not know"),
        (lambda x: F.dropout(x, 0.5, training=True), "uses dropout in training, which is a random draw"),
        (lambda x: torch.randn(3) + x[0, 0, 0], "comes from a random draw that is not an input"),
        (lambda x: torch.empty(3) * 0 + x[0, 0, 0], "reads a tensor that was not filled"),
        (lambda x: x.long() & 3, "uses `and` of the bits of integers, which recipes do not know"),
        (lambda x: x.view(torch.int64), "uses the bits of a tensor as another dtype, which recipes do not know"),
        (lambda x: F.interpolate(x, size=2, mode="area"), "uses `torch.interpolate` with mode `area`"),
        (lambda x: F.max_pool1d(x, 2, ceil_mode=True), "uses `max_pool` in a way that recipes do not know"),
        (lambda x: x.to(torch.float8_e5m2), "casts to float8_e5m2, which recipes do not know"),
        (lambda x: x.cumprod(0), "uses `torch.cumprod`, which recipes do not know"),
        (
            lambda x: torch.nn.MultiheadAttention(4, 2, dtype=x.dtype)(x, x, x)[0],
            "uses `torch.multi_head_attention_forward`, which recipes do not know",
        ),
    ],
)
def test_what_recipes_cannot_describe_is_unknown(call: Any, why: str) -> None:
    traced = Traced(call, X)
    assert traced.recipe.blocked()["0"].startswith(why)


def test_dropout_in_evaluation_and_copies_are_no_nodes() -> None:
    traced = Traced(lambda x: F.dropout(x, 0.5, training=False).contiguous().clone().detach().to("cpu").data, X)
    assert traced.ops == []
