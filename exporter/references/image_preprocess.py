"""Goldens of the front-ends of vision models: pictures resized, cropped, normalised, and cut into patches.

Where torch resizes with antialiasing, it does what Pillow does. Pictures of floats show this: of bytes, Pillow rounds and clips
the result of one axis before it resizes the other.

Run with: cargo xtask regenerate-fixtures image
"""

import numpy as np
import torch
from PIL import Image

from parity_export import main

KERNELS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def reference(rec, seed, height, width, size, resampler, mean, deviation, crop=None, patches=None):
    """The steps from bytes (height, width, 3) to what a model is given. Channels come first while resizing."""
    given = picture(height, width, seed)
    picture_bytes = rec.input("bytes", given)
    height, width = resized_to(size, height, width)
    x = picture_bytes.permute(2, 0, 1).to(torch.get_default_dtype())
    resized = torch.nn.functional.interpolate(
        x[None], size=(height, width), mode=resampler["kernel"], antialias=resampler["antialias"]
    )[0]
    rec.save("resized", resized)
    # A number halfway between two bytes may be rounded to either. Choose another seed then.
    is_unsure = ((resized % 1) - 0.5).abs().min() < 1e-4
    assert not (is_unsure and torch.equal(picture_bytes, given)), "a pixel is halfway between two bytes"
    pixels = rec.save("pixels", resized.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).contiguous())
    if resampler["antialias"]:
        check(picture_bytes, resized, KERNELS[resampler["kernel"]])
    if crop is not None:
        top, left = (height - crop) // 2, (width - crop) // 2
        pixels = pixels[top : top + crop, left : left + crop]
    scaled = pixels.to(x.dtype) * (1 / 255)
    normalised = rec.save("normalised", (scaled - torch.tensor(mean)) / torch.tensor(deviation))
    if patches is None:
        rec.save("pixel_values", normalised.permute(2, 0, 1).contiguous())
    else:
        rec.save("patches", cut(normalised, **patches))


def picture(height, width, seed):
    """A picture with edges, slopes and noise. Its three channels differ."""
    y, x = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    stripes = ((6 * x + 4 * y) % 1 < 0.5).float()
    channels = torch.stack([0.7 * stripes + 0.3 * x, 0.6 * y + 0.4 * stripes * x, 1 - 0.8 * x * y], dim=-1)
    return (255 * (0.9 * channels + 0.1 * torch.rand(height, width, 3, generator=torch.Generator().manual_seed(seed)))).to(torch.uint8)


def resized_to(size, height, width):
    """The new size, as CLIP's and Qwen2-VL's image processors compute it."""
    if "shortest" in size:
        short = size["shortest"]
        return (short, int(short * width / height)) if height <= width else (int(short * height / width), short)
    factor = size["multiple_of"]
    return tuple(max(factor, round(side / factor) * factor) for side in (height, width))


def check(before, after, kernel):
    """Compares a resized picture with Pillow's, channel by channel."""
    height, width = after.shape[1:]
    for channel, resized in zip(before.permute(2, 0, 1), after, strict=True):
        image = Image.fromarray(channel.numpy().astype(np.float32)).resize((width, height), kernel)
        far = np.abs(np.asarray(image) - resized.numpy()).max()
        assert far < 1e-3, f"pixels are off by {far} from Pillow's"


def cut(x, size, merge, frames):
    """Patches as rows, in the order of Qwen2-VL's image processor."""
    height, width, channels = x.shape
    side = size * merge
    x = x.permute(2, 0, 1).expand(frames, channels, height, width)
    x = x.reshape(frames, channels, height // side, merge, size, width // side, merge, size)
    return x.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, channels * frames * size * size)


if __name__ == "__main__":
    main(reference, source="transformers.models.qwen2_vl.image_processing_qwen2_vl:Qwen2VLImageProcessor")
