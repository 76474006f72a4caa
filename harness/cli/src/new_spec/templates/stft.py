{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, samples=1600, n_fft=256, hop=64):
    """A transform, a change of the spectrum, and the transform back."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its transform, what it does with the spectrum, and the inverse"
    )
    # audio = rec.input("audio", torch.randn(samples))
    # window = torch.hann_window(n_fft)
    # spectrum = torch.stft(audio, n_fft, hop_length=hop, window=window, return_complex=True)
    # rec.save("spectrum", spectrum)
    # gain = torch.linspace(1.5, 0.25, n_fft // 2 + 1)
    # changed = rec.save("changed", spectrum * gain[:, None])
    # rec.save("waveform", torch.istft(changed, n_fft, hop_length=hop, window=window, length=samples))


if __name__ == "__main__":
    main(reference)
