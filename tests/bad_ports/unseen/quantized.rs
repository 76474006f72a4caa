//! Variants of quantised layers.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::module::Module;
use mlx_rs::nn::QuantizedLinear;
use mlx_rs::{Array, Dtype, ops};
use parity_tests::quantized::linear::{Packing, Twins, quantize};

use super::ops::{Computed, linear, linear_of};
use super::{Variant, add};
use crate::change::{later, through, wide};

const NAMES: &[&str] = &[
    "bias_twice",
    "zero_point_before_scale",
    "scales_of_next_group",
    "scales_in_half_precision",
    "zero_point_subtracted",
    // In bfloat16.
    "float_bias_left_out",
    "zero_point_left_out",
    "first_weight_in_high_bits",
    "groups_interleaved",
    // Rewrites.
    "product_of_dequantized",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "quantized::linear", NAMES, forward)
}

fn forward(run: &Run, v: &Variant) -> PortResult {
    let mut twins = Twins::new(&run.params()?)?;
    run.weights()?.load_into(&mut twins)?;
    let x = run.input("x")?;
    {
        let _scope = scope("float", None);
        let layer = &twins.float;
        let bias = layer.bias.value.as_ref().filter(|_| !v.is("float_bias_left_out"));
        let mut out = linear_of(&layer.weight, bias, &x)?;
        if let Some(bias) = bias.filter(|_| v.is("bias_twice")) {
            out = out.add(bias)?;
        }
        tap("out", out)?;
    }
    for packed in &mut twins.packed {
        let packing = Packing { bits: packed.bits, group_size: packed.group_size };
        let _bits = scope(&format!("b{}", packing.bits), None);
        let _group = scope(&format!("g{}", packing.group_size), None);
        quantize(&twins.float, packing)?;
        let weight = tap("dequantized", dequantized(packed, v)?)?;
        let out = if v.is("product_of_dequantized") {
            let mut layer = twins.float.clone();
            layer.weight.value = weight;
            layer.bias.value = packed.inner.bias.value.clone();
            linear(&layer, &x)?
        } else {
            packed.forward(&x)?
        };
        tap("out", tap("lost", out)?)?;
    }
    Ok(())
}

fn dequantized(packed: &QuantizedLinear, v: &Variant) -> Computed {
    let (weight, scales, biases) = (&*packed.inner.weight, &*packed.scales, &*packed.biases);
    let of = |weight: &Array, scales: &Array, biases: &Array| {
        ops::dequantize(weight, scales, biases, packed.group_size, packed.bits)
    };
    if v.is("zero_point_left_out") {
        of(weight, scales, &ops::zeros_like(biases)?)
    } else if v.is("zero_point_before_scale") {
        // `(q + bias) * scale`, as formats with a zero point have it.
        of(weight, scales, &biases.multiply(scales)?)
    } else if v.is("zero_point_subtracted") {
        of(weight, scales, &biases.negative()?)
    } else if v.is("groups_interleaved") {
        // A group has every n-th weight of a row, not neighbouring ones.
        let levels = wide(&of(weight, &ops::ones_like(scales)?, &ops::zeros_like(biases)?)?)?;
        let spread = |x: &Array| ops::tile(wide(x)?, &[1, packed.group_size]);
        levels.multiply(spread(scales)?)?.add(spread(biases)?)?.as_dtype(scales.dtype())
    } else if v.is("scales_of_next_group") {
        of(weight, &later(scales, 1, -1)?, biases)
    } else if v.is("scales_in_half_precision") {
        of(weight, &through(scales, Dtype::Float16)?, biases)
    } else if v.is("first_weight_in_high_bits") {
        let found = of(weight, scales, biases)?;
        let per_word = 32 / packed.bits;
        let words = found.reshape(&[found.dim(0), -1, per_word])?;
        crate::change::backwards(&words, 2)?.reshape(found.shape())
    } else {
        of(weight, scales, biases)
    }
}
