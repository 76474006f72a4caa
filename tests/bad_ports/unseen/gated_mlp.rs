//! Variants of the gated MLP.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::tap;
use mlx_rs::{Array, ops};
use parity_tests::gated_mlp::Block;

use super::ops::{exact_gelu, fused, linear, linear_of, rms_norm, rms_norm_over, silu};
use super::{Variant, add};
use crate::change::{plus, times};

const NAMES: &[&str] = &[
    "divided_by_one_less",
    "gelu_for_silu",
    "activated_after_product",
    "up_of_unnormed",
    "down_reshaped",
    "residual_of_normed",
    "sigmoid_without_minus",
    // Rewrites.
    "gate_and_up_fused",
    "silu_by_sigmoid",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "gated_mlp::block", NAMES, forward)
}

fn forward(run: &Run, v: &Variant) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    let x = &run.input("x")?;

    let normed = if v.is("divided_by_one_less") {
        // The mean square as the standard deviation of a sample divides it.
        let share = ((x.dim(-1) - 1) as f32 / x.dim(-1) as f32).sqrt();
        times(&rms_norm_over(x, -1, block.norm.eps)?, share)?.multiply(&*block.norm.weight)?
    } else {
        rms_norm(&block.norm, x)?
    };
    let normed = &tap("norm", normed)?;

    let (gate, up) = if v.is("gate_and_up_fused") {
        let parts = fused(&[&block.gate, &block.up], normed)?;
        (parts[0].clone(), parts[1].clone())
    } else {
        let up_of = if v.is("up_of_unnormed") { x } else { normed };
        (linear(&block.gate, normed)?, linear(&block.up, up_of)?)
    };
    let gated = if v.is("gelu_for_silu") {
        exact_gelu(&gate)?.multiply(up)?
    } else if v.is("activated_after_product") {
        silu(&gate.multiply(up)?)?
    } else if v.is("sigmoid_without_minus") {
        // `x / (1 + exp(x))`.
        gate.divide(plus(&gate.exp()?, 1.0)?)?.multiply(up)?
    } else if v.is("silu_by_sigmoid") {
        ops::sigmoid(&gate)?.multiply(&gate)?.multiply(up)?
    } else {
        silu(&gate)?.multiply(up)?
    };
    let gated = &tap("gated", gated)?;

    let down = if v.is("down_reshaped") {
        // The file was taken to hold `[in, out]`, as in TensorFlow.
        let weight: Array = block.down.weight.reshape(&[48, 32])?.transpose_axes(&[1, 0])?;
        linear_of(&weight, block.down.bias.value.as_ref(), gated)?
    } else {
        linear(&block.down, gated)?
    };
    tap("out", if v.is("residual_of_normed") { normed } else { x }.add(down)?)?;
    Ok(())
}
