"""Rules for torch's copies, casts, views and rearrangements, and for complex numbers."""

from __future__ import annotations

import math
from typing import Any

import torch

from .recipe import Unknown, number_of
from .torch_rule import axis_of, cast, expanded, in_dtype, is_complex, permuted, reshaped, rule, sliced


@rule("contiguous clone detach detach_ alias requires_grad_ cpu cuda pin_memory __deepcopy__ resolve_conj resolve_neg")
def _same(e: Any, input: Any, *_: Any, **__: Any) -> int:
    return int(e.node(input))


@rule("positive __pos__ lift_fresh alias_copy detach_copy")
def _same_value(e: Any, input: Any) -> int:
    return int(e.node(input))


@rule("dropout alpha_dropout dropout1d dropout2d dropout3d feature_alpha_dropout")
def _dropout(e: Any, input: Any, p: float = 0.5, training: bool = True) -> int:
    if training and p:
        raise Unknown("uses dropout in training, which is a random draw")
    return int(e.node(input))


@rule("to type")
def _to(e: Any, input: Any, *args: Any, **kwargs: Any) -> int:
    # Device, copy and memory format change no element.
    return in_dtype(e, input, e.out.dtype)


@rule("float double half bfloat16 int long short char byte bool cfloat cdouble type_as")
def _named_cast(e: Any, input: Any, *_: Any, **__: Any) -> int:
    return in_dtype(e, input, e.out.dtype)


@rule("view")
def _view(e: Any, input: Any, *shape: Any, dtype: Any = None) -> int:
    if dtype is not None or (shape and isinstance(shape[0], torch.dtype)):
        raise Unknown("uses the bits of a tensor as another dtype, which recipes do not know")
    return _reshape(e, input)


@rule("reshape view_as reshape_as flatten unflatten unsqueeze squeeze ravel atleast_1d atleast_2d _unsafe_view")
def _reshape(e: Any, input: Any, *_: Any, **__: Any) -> int:
    if input is e.out:
        # In place, so that the tensor has its new shape already.
        return int(e.add("reshape", [e.node(input)], shape=list(e.out.shape)))
    return reshaped(e, e.node(input), input.shape, e.out.shape)


@rule("as_strided diagonal")
def _as_strided(e: Any, *_: Any, **__: Any) -> int:
    # The tensor shows elements of a storage that is known, so it is found like any other view.
    return int(e.node(e.out))


@rule("expand expand_as broadcast_to")
def _expand(e: Any, input: Any, *_: Any, **__: Any) -> int:
    return expanded(e, e.node(input), input.shape, e.out.shape)


@rule("broadcast_tensors")
def _broadcast_tensors(e: Any, *tensors: Any) -> list[int]:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return [expanded(e, e.node(old), old.shape, new.shape) for old, new in zip(given, e.out, strict=True)]


@rule("transpose swapaxes swapdims transpose_ swapaxes_ swapdims_")
def _transpose(e: Any, input: Any, dim0: Any = None, dim1: Any = None, *, axis0: Any = None, axis1: Any = None) -> int:
    first, second = (axis0, axis1) if dim0 is None else (dim0, dim1)
    axes = list(range(input.dim()))
    a, b = axis_of(input, first), axis_of(input, second)
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return permuted(e, e.node(input), axes)


@rule("t t_ get_T")
def _t(e: Any, input: Any) -> int:
    return permuted(e, e.node(input), list(reversed(range(input.dim()))))


@rule("get_mT adjoint")
def _mt(e: Any, input: Any) -> int:
    if e.out.is_conj():
        raise Unknown("uses the conjugate transpose, which recipes do not know")
    return _transpose(e, input, -2, -1)


@rule("get_data get_detach")
def _data(e: Any, input: Any) -> int:
    return int(e.node(input))


@rule("permute")
def _permute(e: Any, input: Any, *dims: Any, **named: Any) -> int:
    given = named.get("dims", dims)
    given = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    return permuted(e, e.node(input), [axis_of(input, dim) for dim in given])


@rule("movedim moveaxis")
def _movedim(e: Any, input: Any, source: Any, destination: Any) -> int:
    come, go = ([one] if isinstance(one, int) else list(one) for one in (source, destination))
    moved = {axis_of(input, new): axis_of(input, old) for old, new in zip(come, go, strict=True)}
    rest = iter(axis for axis in range(input.dim()) if axis not in moved.values())
    return permuted(e, e.node(input), [moved[at] if at in moved else next(rest) for at in range(input.dim())])


@rule("chunk split tensor_split split_with_sizes unsafe_chunk unsafe_split")
def _parts(
    e: Any,
    input: Any = None,
    how: Any = None,
    dim: Any = 0,
    *,
    tensor: Any = None,
    chunks: Any = None,
    split_size: Any = None,
    split_size_or_sections: Any = None,
    indices_or_sections: Any = None,
    split_sizes: Any = None,
) -> list[int]:
    given = tensor if input is None else input
    axis, node, start, nodes = axis_of(given, dim), e.node(given), 0, []
    for part in e.out:
        end = start + part.shape[axis]
        nodes.append(sliced(e, node, axis, start, end, 1, given.shape[axis]))
        start = end
    return nodes


def selected(e: Any, node: int, shape: Any, axis: int, index: int) -> int:
    """Adds a slice of one element along an axis, and removes the axis."""
    length = shape[axis]
    index = int(index) % length
    cut = sliced(e, node, axis, index, index + 1, 1, length)
    rest = [*shape[:axis], *shape[axis + 1 :]]
    return reshaped(e, cut, [*shape[:axis], 1, *shape[axis + 1 :]], rest)


@rule("unbind")
def _unbind(e: Any, input: Any, dim: Any = 0) -> list[int]:
    axis, node = axis_of(input, dim), e.node(input)
    return [selected(e, node, list(input.shape), axis, index) for index in range(input.shape[axis])]


@rule("select")
def _select(e: Any, input: Any, dim: Any, index: Any) -> int:
    return selected(e, e.node(input), list(input.shape), axis_of(input, dim), index)


@rule("narrow")
def _narrow(e: Any, input: Any, dim: Any, start: Any, length: Any) -> int:
    axis = axis_of(input, dim)
    first = int(start) % max(input.shape[axis], 1)
    return sliced(e, e.node(input), axis, first, first + int(length), 1, input.shape[axis])


@rule("cat concat concatenate")
def _cat(e: Any, tensors: Any, dim: Any = 0) -> int:
    # Torch ignores empty vectors among the others.
    kept = [tensor for tensor in tensors if not (tensor.dim() == 1 and tensor.numel() == 0)] or list(tensors)
    nodes = [e.node(tensor) for tensor in kept]
    return nodes[0] if len(nodes) == 1 else int(e.add("cat", nodes, axis=axis_of(kept[0], dim)))


@rule("hstack")
def _hstack(e: Any, tensors: Any) -> int:
    return _cat(e, tensors, 0 if tensors[0].dim() == 1 else 1)


@rule("stack")
def _stack(e: Any, tensors: Any, dim: Any = 0) -> int:
    return int(e.add("stack", [e.node(tensor) for tensor in tensors], axis=axis_of(e.out, dim)))


@rule("pad constant_pad_nd")
def _pad(e: Any, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> int:
    if not isinstance(mode, str):
        # `constant_pad_nd(input, pad, value)`.
        mode, value = "constant", mode
    given = [int(one) for one in pad]
    pads = [[0, 0] for _ in range(input.dim())]
    for at in range(len(given) // 2):
        pads[input.dim() - 1 - at] = [given[2 * at], given[2 * at + 1]]
    node = e.node(input)
    for axis, (before, after) in enumerate(pads):
        length = input.shape[axis]
        # A negative number of elements takes some away.
        node = sliced(e, node, axis, max(-before, 0), length - max(-after, 0), 1, length)
    pads = [[max(before, 0), max(after, 0)] for before, after in pads]
    if not any(map(any, pads)):
        return int(node)
    return int(e.add("pad", [node], pads=pads, mode=mode, value=number_of(value or 0)))


@rule("roll")
def _roll(e: Any, input: Any, shifts: Any, dims: Any = (), *, dim: Any = ()) -> int:
    dims = dims if dims not in ((), []) else dim
    by = [shifts] if isinstance(shifts, int) else list(shifts)
    along = [dims] if isinstance(dims, int) else list(dims)
    if along:
        return int(e.add("roll", [e.node(input)], shifts=by, axes=[axis_of(input, one) for one in along]))
    flat = reshaped(e, e.node(input), input.shape, [input.numel()])
    return reshaped(e, e.add("roll", [flat], shifts=by, axes=[0]), [input.numel()], input.shape)


@rule("flip fliplr flipud")
def _flip(e: Any, input: Any, *dims: Any, **named: Any) -> int:
    given = named.get("dims", named.get("dim", dims))
    given = [given] if isinstance(given, int) else given
    given = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    if not given:
        raise Unknown("uses `torch.flip` without axes, which recipes do not know")
    return int(e.add("flip", [e.node(input)], axes=sorted(axis_of(input, one) for one in given)))


@rule("repeat tile")
def _tile(e: Any, input: Any, *times: Any, **named: Any) -> int:
    given = named.get("repeats", named.get("dims", times))
    given = list(given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given)
    given = [1] * (input.dim() - len(given)) + [int(one) for one in given]
    node = reshaped(e, e.node(input), input.shape, [1] * (len(given) - input.dim()) + list(input.shape))
    return node if all(one == 1 for one in given) else int(e.add("tile", [node], times=given))


@rule("repeat_interleave")
def _repeat_interleave(e: Any, input: Any, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> int:
    if repeats is None:
        raise Unknown("uses `torch.repeat_interleave` for indices, which recipes do not know")
    node, shape = e.node(input), list(input.shape)
    if dim is None:
        node, shape, dim = reshaped(e, node, shape, [math.prod(shape)]), [math.prod(shape)], 0
    axis = int(dim) % len(shape)
    if isinstance(repeats, torch.Tensor) and repeats.numel() == 1:
        repeats = int(repeats)
    if isinstance(repeats, int):
        return node if repeats == 1 else int(e.add("repeat_interleave", [node], repeats=repeats, axis=axis))
    indices = torch.arange(shape[axis], device=repeats.device).repeat_interleave(repeats)
    return int(e.add("take", [node, e.constant(indices)], axis=axis))


@rule("tril")
def _tril(e: Any, input: Any, diagonal: int = 0) -> int:
    return int(e.add("tril", [e.node(input)], diagonal=int(diagonal)))


@rule("triu")
def _triu(e: Any, input: Any, diagonal: int = 0) -> int:
    return int(e.add("triu", [e.node(input)], diagonal=int(diagonal)))


@rule("meshgrid")
def _meshgrid(e: Any, *tensors: Any, indexing: str | None = None) -> list[int]:
    given = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors)
    nodes = []
    for at, (old, new) in enumerate(zip(given, e.out, strict=True)):
        where = {0: 1, 1: 0}.get(at, at) if indexing == "xy" and len(given) > 1 else at
        shape = [1] * len(given)
        shape[where] = old.numel()
        nodes.append(expanded(e, reshaped(e, e.node(old), old.shape, shape), shape, new.shape))
    return nodes


@rule("complex")
def _complex(e: Any, real: Any, imag: Any) -> int:
    return int(e.add("complex", [e.node(real), e.node(imag)]))


@rule("polar")
def _polar(e: Any, abs: Any, angle: Any) -> int:
    return int(e.add("polar", [e.node(abs), e.node(angle)]))


@rule("view_as_complex")
def _view_as_complex(e: Any, input: Any) -> int:
    return int(e.add("view_as_complex", [e.node(input)]))


@rule("view_as_real")
def _view_as_real(e: Any, input: Any) -> int:
    return int(e.add("view_as_real", [e.node(input)]))


@rule("real get_real")
def _real(e: Any, input: Any) -> int:
    return int(e.add("real", [e.node(input)]) if is_complex(input) else e.node(input))


@rule("imag get_imag")
def _imag(e: Any, input: Any) -> int:
    return int(e.add("imag", [e.node(input)]))


@rule("conj conj_physical")
def _conj(e: Any, input: Any) -> int:
    return int(e.add("conj", [e.node(input)]) if is_complex(input) else e.node(input))


@rule("copy_")
def _copy(e: Any, input: Any, src: Any, non_blocking: bool = False) -> int:
    node = e.node(src)
    node = node if src.dtype == input.dtype else cast(e, node, input.dtype)
    return expanded(e, node, src.shape, input.shape)
