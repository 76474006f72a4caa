"""Rules for windows, Fourier transforms and resizing: replaying what was traced gives what torch computed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from recipe_tools import Traced, draw  # noqa: E402

F = torch.nn.functional
SIGNAL = draw(300)
SIGNALS = draw(2, 300)
IMAGE = draw(1, 3, 13, 10)


def stft(x: Any, n_fft: int = 64, length: int = 64, **more: Any) -> Any:
    window = torch.hann_window(length, dtype=torch.float64)
    return torch.stft(x, n_fft, hop_length=16, win_length=length, window=window, return_complex=True, **more)


def back(x: Any, n_fft: int = 64, length: int = 64, **more: Any) -> Any:
    window = torch.hann_window(length, dtype=torch.float64)
    found = torch.stft(x, n_fft, hop_length=16, win_length=length, window=window, return_complex=True)
    return torch.istft(found, n_fft, hop_length=16, win_length=length, window=window, **more)


CASES: dict[str, tuple[Any, Any]] = {
    "periodic window": (lambda x: x * torch.hann_window(300, dtype=torch.float64), SIGNAL),
    "symmetric window": (lambda x: x * torch.hamming_window(300, periodic=False, dtype=torch.float64), SIGNAL),
    "blackman": (lambda x: x * torch.blackman_window(300, dtype=torch.float64), SIGNAL),
    "frames": (lambda x: x.unfold(-1, 40, 7), SIGNALS),
    "frames of the first axis": (lambda x: x.unfold(0, 2, 1), SIGNALS),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), SIGNALS),
    "odd rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x[:, :99], norm="ortho")), SIGNALS),
    "irfft": (lambda x: torch.fft.irfft(torch.view_as_complex(x.reshape(2, 50, 3, 2))[..., 0]), SIGNALS),
    "odd irfft": (lambda x: torch.fft.irfft(torch.view_as_complex(x.reshape(2, 150, 2)), n=299), SIGNALS),
    "stft": (lambda x: torch.view_as_real(stft(x)), SIGNALS),
    "stft of a short window": (lambda x: torch.view_as_real(stft(x, length=50, normalized=True)), SIGNAL),
    "stft without padding": (lambda x: torch.view_as_real(stft(x, center=False)), SIGNAL),
    "stft with zeros around": (lambda x: torch.view_as_real(stft(x, pad_mode="constant")), SIGNAL),
    "istft": (back, SIGNALS),
    "istft of a short window": (lambda x: back(x, length=50, normalized=True), SIGNAL),
    "istft with a length": (lambda x: back(x, length=64) if x.dim() == 1 else back(x), SIGNAL),
    "bilinear with antialias": (lambda x: F.interpolate(x, size=(6, 14), mode="bilinear", antialias=True), IMAGE),
    "bicubic with antialias": (lambda x: F.interpolate(x, size=(5, 7), mode="bicubic", antialias=True), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_replay_gives_what_torch_computed(name: str) -> None:
    function, given = CASES[name]
    traced = Traced(function, given)
    assert "unknown" not in traced.ops
    traced.check()


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x: torch.fft.rfft(x, n=64).real, SIGNAL),
        (lambda x: torch.fft.rfft(x, dim=0).real, SIGNALS),
        (lambda x: torch.stft(x, 64, window=torch.ones(64).double(), onesided=False, return_complex=True).real, SIGNAL),
    ],
)
def test_other_transforms_are_unknown(function: Any, given: Any) -> None:
    assert Traced(function, given).node().op != "complex"
    assert "unknown" in Traced(function, given).ops
