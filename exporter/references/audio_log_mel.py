"""Goldens of log-mel spectrograms: of Whisper, of NeMo's speech models, and of vocoders.

The steps are written out, so that each is a golden. The filters are compared with those of transformers, and the features of
Whisper with those of its feature extractor.

Run with: cargo xtask regenerate-fixtures audio
"""

import math

import numpy as np
import torch
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from parity_export import main


def reference(
    rec,
    seconds,
    rate,
    n_fft,
    hop,
    window,
    pad,
    padding,
    power,
    mel,
    logarithm,
    guard,
    normalise,
    preemphasis=0.0,
    drop_last=False,
):
    """The steps from samples to features, one row per frame."""
    audio = rec.input("audio", sound(int(seconds * rate), rate))
    signal = audio
    if preemphasis:
        signal = torch.cat([signal[:1], signal[1:] - preemphasis * signal[:-1]])
    signal = torch.nn.functional.pad(signal[None], (pad, pad), mode=padding)[0]
    shape = torch.hann_window(window["length"], periodic=window["periodic"])
    rest = n_fft - window["length"]
    shape = torch.nn.functional.pad(shape, (rest // 2, rest - rest // 2))
    frames = signal.unfold(0, n_fft, hop)
    if drop_last:
        frames = frames[:-1]
    frames = rec.save("frames", frames * shape)
    magnitudes = torch.fft.rfft(frames).abs()
    energy = rec.save("power", magnitudes**power)
    filters = rec.save("filters", filter_bank(n_fft // 2 + 1, rate, **mel).to(audio.dtype))
    energy = rec.save("mel", energy @ filters)
    energy = energy + guard["added"] if "added" in guard else torch.clamp(energy, min=guard["at_least"])
    log = rec.save("log", energy.log10() if logarithm == "ten" else energy.log())
    if normalise == "none":
        return
    rec.save("features", normalised(log, normalise))
    if "whisper" in normalise:
        check(audio, (torch.maximum(log, log.max() - 8.0) + 4.0) / 4.0, rate, n_fft, hop, mel["filters"])


def sound(samples, rate):
    """A tone that rises, with noise, and silence at the end: where energies are zero, the guard decides."""
    time = torch.arange(samples) / rate
    tone = torch.sin(2 * math.pi * (200 + 5000 * time) * time) + 0.1 * torch.randn(samples)
    return 0.4 * tone * (torch.arange(samples) < samples * 3 // 4)


def to_mels(hertz, scale):
    """Mels of a frequency."""
    if scale == "htk":
        return 2595.0 * math.log10(1.0 + hertz / 700.0)
    return 3.0 * hertz / 200.0 if hertz < 1000.0 else 15.0 + math.log(hertz / 1000.0) * 27.0 / math.log(6.4)


def to_hertz(mels, scale):
    """Frequencies of mels."""
    if scale == "htk":
        return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    return torch.where(mels < 15.0, 200.0 * mels / 3.0, 1000.0 * torch.exp((mels - 15.0) * math.log(6.4) / 27.0))


def filter_bank(bins, rate, filters, low, high, scale, norm):
    """Triangular filters, computed in float64 as libraries do."""
    hertz = torch.linspace(0, rate / 2, bins, dtype=torch.float64)[:, None]
    mels = torch.linspace(to_mels(low, scale), to_mels(high, scale), filters + 2, dtype=torch.float64)
    edges = to_hertz(mels, scale)
    start, peak, end = edges[:-2], edges[1:-1], edges[2:]
    triangles = torch.clamp(torch.minimum((hertz - start) / (peak - start), (end - hertz) / (end - peak)), min=0.0)
    if norm:
        triangles = triangles * (2.0 / (end - start))
    kind = "slaney" if norm else None
    expected = mel_filter_bank(bins, filters, low, high, rate, norm=kind, mel_scale=scale)
    far = np.abs(triangles.numpy() - expected).max()
    assert far < 1e-9, f"the filters are off by {far} from those of transformers"
    return triangles


def normalised(log, how):
    """The last step."""
    if "whisper" in how:
        log = torch.maximum(log, log.max() - how["whisper"]["range"])
        return (log + 4.0) / 4.0
    given = how["per_filter"]
    deviation = log.std(dim=0, keepdim=True, correction=given["ddof"]) + given["eps"]
    return (log - log.mean(dim=0, keepdim=True)) / deviation


def check(audio, features, rate, n_fft, hop, filters):
    """Compares features with those of Whisper's own extractor."""
    extractor = WhisperFeatureExtractor(filters, rate, hop, n_fft=n_fft)
    given = extractor(audio.float().numpy(), sampling_rate=rate, padding="longest", return_tensors="np")
    far = np.abs(given["input_features"][0].T - features.float().numpy()).max()
    assert far < 1e-4, f"the features are off by {far} from those of WhisperFeatureExtractor"


if __name__ == "__main__":
    main(reference, source="transformers:WhisperFeatureExtractor")
