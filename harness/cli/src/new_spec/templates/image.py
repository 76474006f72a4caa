{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, height=60, width=50, side=24):
    """What a model is given of a picture, step by step."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its steps from bytes to the input of the model, and a name per step"
    )
    # bytes = rec.input("bytes", (255 * torch.rand(height, width, 3)).to(torch.uint8))
    # x = bytes.permute(2, 0, 1).to(torch.get_default_dtype())[None]
    # resized = torch.nn.functional.interpolate(x, size=(side, side), mode="bicubic", antialias=True)[0]
    # rec.save("resized", resized)
    # pixels = resized.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    # rec.save("pixels", pixels)
    # mean, deviation = torch.tensor([0.481, 0.458, 0.408]), torch.tensor([0.269, 0.261, 0.276])
    # normalised = rec.save("normalised", (pixels.to(x.dtype) / 255 - mean) / deviation)
    # rec.save("pixel_values", normalised.permute(2, 0, 1).contiguous())
    # Compare the pixels with those of the library itself, and assert that they agree.


if __name__ == "__main__":
    main(reference)
