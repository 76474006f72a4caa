"""Rules for torch's windows, Fourier transforms and short-time Fourier transforms.

Recipes have no operation for a Fourier transform. It becomes a product with a table of cosines and sines, and
overlapping frames are added by a transposed convolution.
"""

from __future__ import annotations

import math
from typing import Any

from .recipe import Unknown
from .torch_rule import axis_of, is_complex, permuted, reshaped, rule, sliced


def _counted(e: Any, length: int) -> int:
    return int(e.add("arange", [], start=0, end=length, step=1))


def _cosines(e: Any, length: int, periodic: bool, terms: tuple[float, ...]) -> int:
    """Adds a window: the first term less the second times a cosine, plus the third times one of twice the angle."""
    if length < 2:
        return int(e.add("full", [], shape=[length], value=1))
    angle = e.add("mul", [_counted(e, length), [2 * math.pi / (length if periodic else length - 1)]])
    node = e.add("sub", [[terms[0]], e.add("mul", [e.add("cos", [angle]), [terms[1]]])])
    if len(terms) < 3:
        return int(node)
    twice = e.add("cos", [e.add("mul", [angle, [2.0]])])
    return int(e.add("add", [node, e.add("mul", [twice, [terms[2]]])]))


@rule("hann_window")
def _hann(e: Any, window_length: int, periodic: bool = True, **_: Any) -> int:
    return _cosines(e, int(window_length), bool(periodic), (0.5, 0.5))


@rule("hamming_window")
def _hamming(
    e: Any, window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **_: Any
) -> int:
    return _cosines(e, int(window_length), bool(periodic), (float(alpha), float(beta)))


@rule("blackman_window")
def _blackman(e: Any, window_length: int, periodic: bool = True, **_: Any) -> int:
    return _cosines(e, int(window_length), bool(periodic), (0.42, 0.5, 0.08))


def framed(e: Any, node: int, axis: int, length: int, size: int, step: int) -> int:
    """Adds the frames of an axis, which become two axes in its place: the frames, and their elements."""
    count = (length - size) // step + 1
    starts = reshaped(e, e.add("mul", [_counted(e, count), [step]]), [count], [count, 1])
    return int(e.add("take", [node, e.add("add", [starts, _counted(e, size)])], axis=axis))


@rule("unfold")
def _unfold(e: Any, input: Any, dimension: Any, size: Any, step: Any) -> int:
    if not all(isinstance(one, int) for one in (dimension, size, step)) or e.out.dim() != input.dim() + 1:
        raise Unknown("uses `torch.unfold` in a way that recipes do not know")
    axis = axis_of(input, dimension)
    node = framed(e, e.node(input), axis, input.shape[axis], size, step)
    # Torch puts the elements of a frame last.
    rank = input.dim() + 1
    return permuted(e, node, [at for at in range(rank) if at != axis + 1] + [axis + 1])


def _angles(e: Any, rows: int, columns: int, length: int) -> int:
    counted = reshaped(e, _counted(e, rows), [rows], [rows, 1])
    return int(e.add("mul", [e.add("mul", [counted, _counted(e, columns)]), [2 * math.pi / length]]))


def _scaled(e: Any, node: int, factor: float) -> int:
    return node if factor == 1 else int(e.add("mul", [node, [factor]]))


def _norm(norm: Any, length: int, is_inverse: bool) -> float:
    """The factor of a transform, as torch's `norm` names it."""
    if norm == "ortho":
        return 1 / math.sqrt(length)
    return 1 / length if (norm == "forward") != is_inverse else 1.0


def _forward(e: Any, node: int, length: int, factor: float) -> int:
    """Adds the transform of the last axis, of real numbers."""
    angles = _angles(e, length, length // 2 + 1, length)
    real = e.add("matmul", [node, e.add("cos", [angles])])
    imaginary = e.add("neg", [e.add("matmul", [node, e.add("sin", [angles])])])
    return int(e.add("complex", [_scaled(e, real, factor), _scaled(e, imaginary, factor)]))


def _inverse(e: Any, node: int, length: int, factor: float) -> int:
    """Adds the transform of the last axis back to real numbers. Frequencies that stand for two count twice."""
    bins = length // 2 + 1
    counted = _counted(e, bins)
    single = e.add("eq", [counted, [0]])
    if length % 2 == 0:
        single = e.add("or", [single, e.add("eq", [counted, [length // 2]])])
    times = reshaped(e, e.add("where", [single, [1], [2]]), [bins], [bins, 1])
    angles = _angles(e, bins, length, length)
    parts = [
        e.add("matmul", [e.add(part, [node]), e.add("mul", [e.add(wave, [angles]), times])])
        for part, wave in (("real", "cos"), ("imag", "sin"))
    ]
    return _scaled(e, int(e.add("sub", parts)), factor)


def _last(e: Any, input: Any, dim: Any, length: Any) -> tuple[int, int]:
    """Returns the node of a transform's input and its length, if the last axis is transformed whole."""
    if axis_of(input, dim) != input.dim() - 1:
        raise Unknown("uses a Fourier transform along another axis than the last, which recipes do not know")
    if length is not None and int(length) != input.shape[-1]:
        raise Unknown("uses a Fourier transform that pads or cuts its input, which recipes do not know")
    return e.node(input), int(input.shape[-1])


@rule("fft_rfft")
def _rfft(e: Any, input: Any, n: Any = None, dim: Any = -1, norm: Any = None) -> int:
    node, length = _last(e, input, dim, n)
    return _forward(e, node, length, _norm(norm, length, is_inverse=False))


@rule("fft_irfft")
def _irfft(e: Any, input: Any, n: Any = None, dim: Any = -1, norm: Any = None) -> int:
    length = int(e.out.shape[axis_of(input, dim)])
    node, bins = _last(e, input, dim, None)
    if bins != length // 2 + 1:
        raise Unknown("uses a Fourier transform that pads or cuts its input, which recipes do not know")
    return _inverse(e, node, length, _norm(norm, length, is_inverse=True))


def _window(e: Any, window: Any, win_length: int, n_fft: int) -> int | None:
    """Returns the node of a window in the middle of a frame; none if every element counts fully."""
    if window is None:
        if win_length == n_fft:
            return None
        node = int(e.add("full", [], shape=[win_length], value=1))
    else:
        node = e.node(window)
    if win_length == n_fft:
        return node
    before = (n_fft - win_length) // 2
    return int(e.add("pad", [node], pads=[[before, n_fft - win_length - before]], mode="constant", value=0))


def _exchanged(e: Any, node: int, rank: int) -> int:
    return permuted(e, node, [*range(rank - 2), rank - 1, rank - 2])


@rule("stft")
def _stft(
    e: Any,
    input: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> int:
    if not is_complex(e.out) or is_complex(input) or onesided is False or align_to_window:
        raise Unknown("uses `torch.stft` in a way that recipes do not know")
    hop, win = int(hop_length or n_fft // 4), int(win_length or n_fft)
    node, rank, length = e.node(input), input.dim(), int(input.shape[-1])
    if center:
        pads = [[0, 0]] * (rank - 1) + [[n_fft // 2, n_fft // 2]]
        node = e.add("pad", [node], pads=pads, mode=pad_mode, value=0)
        length += 2 * (n_fft // 2)
    node = framed(e, node, rank - 1, length, n_fft, hop)
    shape = _window(e, window, win, n_fft)
    node = node if shape is None else e.add("mul", [node, shape])
    node = _forward(e, node, n_fft, n_fft**-0.5 if normalized else 1.0)
    return _exchanged(e, node, rank + 1)


def _overlapped(e: Any, node: int, batch: int, frames: int, n_fft: int, hop: int) -> int:
    """Adds the sum of overlapping frames: (batch, frames, n_fft) to (batch, length)."""
    columns = reshaped(e, _counted(e, n_fft), [n_fft], [n_fft, 1])
    same = e.add("eq", [columns, _counted(e, n_fft)])
    weight = reshaped(e, same, [n_fft, n_fft], [n_fft, 1, n_fft])
    moved = permuted(e, node, [0, 2, 1])
    found = e.add(
        "conv_transpose",
        [moved, weight, None],
        stride=[hop],
        padding=[0],
        output_padding=[0],
        dilation=[1],
        groups=1,
    )
    length = (frames - 1) * hop + n_fft
    return reshaped(e, found, [batch, 1, length], [batch, length])


@rule("istft")
def _istft(
    e: Any,
    input: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> int:
    if is_complex(e.out) or onesided is False or input.dim() not in (2, 3):
        raise Unknown("uses `torch.istft` in a way that recipes do not know")
    hop, win = int(hop_length or n_fft // 4), int(win_length or n_fft)
    frames = int(input.shape[-1])
    batch = int(input.shape[0]) if input.dim() == 3 else 1
    node = reshaped(e, e.node(input), input.shape, [batch, *input.shape[-2:]])
    node = _inverse(e, permuted(e, node, [0, 2, 1]), n_fft, (n_fft**0.5 if normalized else 1.0) / n_fft)
    shape = _window(e, window, win, n_fft)
    shape = int(e.add("full", [], shape=[n_fft], value=1)) if shape is None else shape
    total = (frames - 1) * hop + n_fft
    start = n_fft // 2 if center else 0
    end = start + int(e.out.shape[-1])
    if end > total:
        raise Unknown("uses `torch.istft` beyond the last frame, which recipes do not know")
    added = _overlapped(e, e.add("mul", [node, shape]), batch, frames, n_fft, hop)
    squares = reshaped(e, e.add("square", [shape]), [n_fft], [1, 1, n_fft])
    squares = e.add("expand", [squares], shape=[1, frames, n_fft]) if frames > 1 else squares
    weights = _overlapped(e, squares, 1, frames, n_fft, hop)
    node = e.add("div", [sliced(e, one, 1, start, end, 1, total) for one in (added, weights)])
    return reshaped(e, node, [batch, end - start], e.out.shape)
