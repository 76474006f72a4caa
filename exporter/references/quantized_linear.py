# parity: environment = "mlx"
"""Goldens of a linear layer and of what Python MLX makes of it in 4 and 8 bits, in groups of each size that it has.

Run with: cargo xtask regenerate-fixtures quantized/linear
"""

import mlx.core as mx
import mlx.nn as nn

from parity_export import main


class Twins(nn.Module):
    """One linear layer, and quantised copies of it."""

    def __init__(self, inputs, outputs, packings, dtype):
        super().__init__()
        self.float = nn.Linear(inputs, outputs)
        # As trained layers have them; a fresh one is uniform, and so easier to round.
        self.float.weight = mx.random.normal((outputs, inputs)) * inputs**-0.5
        self.float.set_dtype(dtype)
        self.packed = [nn.QuantizedLinear.from_linear(self.float, **packing) for packing in packings]


def reference(rec, inputs, outputs, tokens, packings, dtype):
    """The layer as it is, and quantised in each way."""
    dtype = getattr(mx, dtype)
    twins = rec.weights(Twins(inputs, outputs, packings, dtype))
    rec.accept("same-bytes", "packed.*.bias", why="a layer keeps its bias when it is quantised")
    edge = "a group's bias is its weight that is furthest from zero, in however many bits"
    rec.accept("same-bytes", "packed.*.biases", why=edge)
    rec.accept("same-bytes", "b8.*.biases", why=edge)
    if dtype == mx.bfloat16:
        exact = "a scale of 8 bits times a weight of 8 bits, and a bias: their float64 has no more digits than a float32"
        rec.accept("truth-rounded", "**.dequantized", why=exact)
    rec.watch(nn.QuantizedLinear)
    x = rec.input("x", mx.random.normal((1, tokens, inputs)).astype(dtype))
    rec.save("float.out", twins.float(x))
    for packing, packed in zip(packings, twins.packed):
        with rec.scope(f"b{packing['bits']}"), rec.scope(f"g{packing['group_size']}"):
            rec.save("weight", packed.weight)
            rec.save("scales", packed.scales)
            rec.save("biases", packed.biases)
            rec.save("dequantized", mx.dequantize(packed.weight, packed.scales, packed.biases, **packing))
            rec.save("out", packed(x))


if __name__ == "__main__":
    main(reference, source="mlx.nn:QuantizedLinear")
