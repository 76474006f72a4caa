{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, samples=4000, rate=16000, n_fft=400, hop=160, filters=80):
    """The features of a signal, step by step."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its steps from samples to features, and a name per step"
    )
    # audio = rec.input("audio", 0.4 * torch.randn(samples) * (torch.arange(samples) < 3 * samples // 4))
    # signal = torch.nn.functional.pad(audio[None], (n_fft // 2, n_fft // 2), mode="reflect")[0]
    # frames = rec.save("frames", signal.unfold(0, n_fft, hop) * torch.hann_window(n_fft))
    # power = rec.save("power", torch.fft.rfft(frames).abs() ** 2)
    # bank = rec.save("filters", filter_bank(…))                       # written in torch, so that it has a recipe
    # mel = rec.save("mel", power @ bank)
    # log = rec.save("log", torch.clamp(mel, min=1e-10).log10())
    # rec.save("features", (torch.maximum(log, log.max() - 8.0) + 4.0) / 4.0)
    # Compare the features with those of the library itself, and assert that they agree.


if __name__ == "__main__":
    main(reference)
