"""Rules for torch's activations, normalisers, products, convolutions, attention and look-ups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .einsum import explicit
from .recipe import Unknown, number_of
from .torch_rule import axis_of, is_bool, reshaped, rule


@rule("gelu")
def _gelu(e: Any, input: Any, approximate: str = "none") -> int:
    return int(e.add("gelu", [e.node(input)], tanh=approximate == "tanh"))


@rule("leaky_relu")
def _leaky_relu(e: Any, input: Any, negative_slope: float = 0.01) -> int:
    return int(e.add("leaky_relu", [e.node(input)], slope=number_of(negative_slope)))


@rule("elu")
def _elu(e: Any, input: Any, alpha: float = 1.0) -> int:
    return int(e.add("elu", [e.node(input)], alpha=number_of(alpha)))


@rule("softplus")
def _softplus(e: Any, input: Any, beta: float = 1.0, threshold: float = 20.0) -> int:
    if beta != 1 or threshold < 20:
        raise Unknown("uses `torch.softplus` with another sharpness, which recipes do not know")
    return int(e.add("softplus", [e.node(input)]))


@rule("logsigmoid")
def _logsigmoid(e: Any, input: Any) -> int:
    return int(e.add("neg", [e.add("softplus", [e.add("neg", [e.node(input)])])]))


@rule("mish")
def _mish(e: Any, input: Any) -> int:
    node = e.node(input)
    return int(e.add("mul", [node, e.add("tanh", [e.add("softplus", [node])])]))


@rule("hardtanh")
def _hardtanh(e: Any, input: Any, min_val: float = -1.0, max_val: float = 1.0) -> int:
    return int(e.add("clamp", [e.node(input)], min=number_of(min_val), max=number_of(max_val)))


@rule("relu6")
def _relu6(e: Any, input: Any) -> int:
    return _hardtanh(e, input, 0.0, 6.0)


@rule("glu")
def _glu(e: Any, input: Any, dim: Any = -1) -> int:
    axis = axis_of(input, dim)
    length = input.shape[axis]
    node = e.node(input)
    halves = [
        e.add("slice", [node], axis=axis, start=start, end=start + length // 2, step=1) for start in (0, length // 2)
    ]
    return int(e.add("mul", [halves[0], e.add("sigmoid", [halves[1]])]))


@rule("layer_norm")
def _layer_norm(
    e: Any, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> int:
    inputs = [e.node(input), e.of(weight), e.of(bias)]
    return int(e.add("layer_norm", inputs, rank=len(normalized_shape), eps=number_of(eps)))


@rule("rms_norm")
def _rms_norm(e: Any, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> int:
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return int(e.add("rms_norm", [e.node(input), e.of(weight)], rank=len(normalized_shape), eps=number_of(eps)))


@rule("group_norm")
def _group_norm(
    e: Any, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> int:
    inputs = [e.node(input), e.of(weight), e.of(bias)]
    return int(e.add("group_norm", inputs, groups=int(num_groups), eps=number_of(eps)))


@rule("batch_norm")
def _batch_norm(
    e: Any,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> int:
    if training or running_mean is None or running_var is None:
        for changed in (running_mean, running_var):
            # Torch does not count this as a change in place.
            if changed is not None:
                e.forget(changed, "was changed in place by `torch.batch_norm`")
        raise Unknown("uses the statistics of a batch, which recipes do not know")
    inputs = [e.of(part) for part in (input, running_mean, running_var, weight, bias)]
    return int(e.add("batch_norm", inputs, eps=number_of(eps)))


@rule("linear")
def _linear(e: Any, input: Any, weight: Any, bias: Any = None) -> int:
    if weight.dim() != 2:
        raise Unknown("uses a linear layer with a vector, which recipes do not know")
    return int(e.add("linear", [e.node(input), e.node(weight), e.of(bias)]))


@rule("matmul __matmul__ mm bmm mv dot")
def _matmul(e: Any, input: Any, other: Any = None, *, mat2: Any = None, vec: Any = None, tensor: Any = None) -> int:
    other = next(part for part in (other, mat2, vec, tensor) if part is not None)
    return int(e.add("matmul", [e.node(input), e.node(other)]))


@rule("__rmatmul__")
def _rmatmul(e: Any, input: Any, other: Any) -> int:
    return _matmul(e, other, input)


@rule("addmm baddbmm addmv")
def _addmm(e: Any, input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> int:
    product = e.add("matmul", [e.node(mat1), e.node(mat2)])
    product = product if alpha == 1 else e.add("mul", [product, [number_of(alpha)]])
    if beta == 0:
        # Torch ignores the first operand then, even if it is not finite.
        return int(product)
    added = e.node(input) if beta == 1 else e.add("mul", [e.node(input), [number_of(beta)]])
    return int(e.add("add", [added, product]))


@rule("einsum")
def _einsum(e: Any, equation: str, *operands: Any) -> int:
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    text = explicit(equation, [tensor.dim() for tensor in tensors])
    return int(e.add("einsum", [e.node(tensor) for tensor in tensors], equation=text))


@rule("embedding")
def _embedding(
    e: Any, input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> int:
    if max_norm is not None:
        raise Unknown("uses an embedding with a largest norm, which recipes do not know")
    return int(e.add("embedding", [e.node(weight), e.node(input)]))


@rule("one_hot")
def _one_hot(e: Any, tensor: Any = None, num_classes: int = -1, *, input: Any = None) -> int:
    return int(e.add("one_hot", [e.node(input if tensor is None else tensor)], classes=int(e.out.shape[-1])))


def _each(value: Any, spatial: int) -> list[int]:
    return [int(value)] * spatial if isinstance(value, int) else [int(part) for part in value] * (spatial // len(value))


def _batched(e: Any, input: Any, spatial: int) -> tuple[int, bool]:
    """Returns the node of an input with a batch axis, and whether that was added."""
    if input.dim() == spatial + 2:
        return e.node(input), False
    return reshaped(e, e.node(input), input.shape, [1, *input.shape]), True


def _conv(spatial: int) -> Callable[..., int]:
    def made(
        e: Any,
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> int:
        node, is_added = _batched(e, input, spatial)
        dilation = _each(dilation, spatial)
        if padding == "same":
            # The odd element goes to the end.
            sums = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
            pads = [[total // 2, total - total // 2] for total in sums]
        else:
            pads = [[pad, pad] for pad in _each(0 if padding == "valid" else padding, spatial)]
        node = e.add(
            "conv",
            [node, e.node(weight), e.of(bias)],
            stride=_each(stride, spatial),
            padding=pads,
            dilation=dilation,
            groups=int(groups),
        )
        return reshaped(e, node, [1, *e.out.shape], e.out.shape) if is_added else node

    return made


def _conv_transpose(spatial: int) -> Callable[..., int]:
    def made(
        e: Any,
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> int:
        node, is_added = _batched(e, input, spatial)
        node = e.add(
            "conv_transpose",
            [node, e.node(weight), e.of(bias)],
            stride=_each(stride, spatial),
            padding=_each(padding, spatial),
            output_padding=_each(output_padding, spatial),
            dilation=_each(dilation, spatial),
            groups=int(groups),
        )
        return reshaped(e, node, [1, *e.out.shape], e.out.shape) if is_added else node

    return made


def _pool(op: str, spatial: int) -> Callable[..., int]:
    def made(e: Any, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, **more: Any) -> int:
        plain: dict[str, list[Any]] = {"ceil_mode": [False], "return_indices": [False], "divisor_override": [None]}
        plain |= {"count_include_pad": [True], "dilation": [1, (1,), (1,) * spatial, [1] * spatial]}
        pads = [[pad, pad] for pad in _each(padding, spatial)]
        if any(value not in plain.get(key, []) for key, value in more.items()):
            raise Unknown(f"uses `{op}` in a way that recipes do not know")
        kernel = _each(kernel_size, spatial)
        node, is_added = _batched(e, input, spatial)
        steps = kernel if stride is None or stride == [] else _each(stride, spatial)
        node = e.add(op, [node], kernel=kernel, stride=steps, padding=pads)
        return reshaped(e, node, [1, *e.out.shape], e.out.shape) if is_added else node

    return made


for _spatial in (1, 2, 3):
    rule(f"conv{_spatial}d")(_conv(_spatial))
    rule(f"conv_transpose{_spatial}d")(_conv_transpose(_spatial))
    rule(f"avg_pool{_spatial}d")(_pool("avg_pool", _spatial))
    rule(f"max_pool{_spatial}d")(_pool("max_pool", _spatial))


@rule("scaled_dot_product_attention")
def _attention(
    e: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    if dropout_p:
        raise Unknown("uses attention with dropout, which is a random draw")
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if key.dim() != query.dim() or (enable_gqa and value.shape[-3] != key.shape[-3]):
        raise Unknown("uses attention with different numbers of heads, which recipes do not know")
    mask, kind = e.of(attn_mask), None if attn_mask is None else "bool" if is_bool(attn_mask) else "add"
    rows, columns = query.shape[-2], key.shape[-2]
    if is_causal and rows != columns:
        # Torch aligns the triangle at the start, others at the end.
        ones = e.add("full", [], shape=[rows, columns], value=1)
        mask, kind, is_causal = e.add("tril", [ones], diagonal=0), "bool", False
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    inputs = [e.node(query), e.node(key), e.node(value), mask]
    return int(e.add("attention", inputs, scale=number_of(scale), causal=bool(is_causal), groups=groups, mask=kind))


@rule("interpolate upsample")
def _interpolate(
    e: Any,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> int:
    after = [int(length) for length in e.out.shape[2:]]
    before = [int(length) for length in input.shape[2:]]
    if mode == "area":
        raise Unknown(f"uses `torch.interpolate` with mode `{mode}`, which recipes do not know")
    if scale_factor is not None and not recompute_scale_factor:
        factors = [scale_factor] * len(before) if isinstance(scale_factor, (int, float)) else list(scale_factor)
        if any(old * factor != new for old, factor, new in zip(before, factors, after, strict=True)):
            raise Unknown("uses `torch.interpolate` with a factor that gives no whole size, which recipes do not know")
    smooth = {"antialias": True} if antialias else {}
    return int(e.add("upsample", [e.node(input)], mode=mode, size=after, align=bool(align_corners), **smooth))


@rule("pixel_shuffle")
def _pixel_shuffle(e: Any, input: Any, upscale_factor: int) -> int:
    return int(e.add("pixel_shuffle", [e.node(input)], factor=int(upscale_factor)))


@rule("pixel_unshuffle")
def _pixel_unshuffle(e: Any, input: Any, downscale_factor: int) -> int:
    return int(e.add("pixel_unshuffle", [e.node(input)], factor=int(downscale_factor)))
