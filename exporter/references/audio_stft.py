"""Goldens of torch's short-time Fourier transform and of its inverse.

Run with: cargo xtask regenerate-fixtures audio/stft
"""

import torch

from parity_export import main

SHAPES = {"hann": torch.hann_window, "hamming": torch.hamming_window}


def reference(rec, samples, cases):
    """Each case transforms a signal, changes its spectrum, and transforms it back."""
    audio = rec.input("audio", torch.randn(samples))
    for case in cases:
        with rec.scope(case["name"]):
            transform(rec, audio, **case)


def transform(rec, audio, name, n_fft, hop, window, padding, normalized):
    shape = SHAPES[window["shape"]](window["length"], periodic=window["periodic"])
    given = {"hop_length": hop, "win_length": window["length"], "window": shape, "normalized": normalized}
    spectrum = torch.stft(audio, n_fft, center=True, pad_mode=padding, return_complex=True, **given)
    rec.save("spectrum", spectrum)
    # A filter, so that the inverse is no identity.
    gain = torch.linspace(1.5, 0.25, n_fft // 2 + 1)
    changed = rec.save("changed", spectrum * gain[:, None])
    rec.save("waveform", torch.istft(changed, n_fft, center=True, length=len(audio), **given))


if __name__ == "__main__":
    main(reference, source="torch")
