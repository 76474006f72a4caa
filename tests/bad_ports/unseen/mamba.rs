//! Variants of the mixer of Mamba.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::{Ellipsis, TryIndexOp};
use mlx_rs::{Array, nn, ops};
use parity_tests::mamba::{Config, Mamba, Mixer, MixerState, tap_states};
use parity_tests::qwen3::choose;
use serde::Deserialize;

use super::ops::{Computed, linear, rms_norm, scalar};
use super::{Variant, add};
use crate::change::plus;

const NAMES: &[&str] = &[
    "bias_after_softplus",
    "exp_for_softplus",
    "decay_without_dt",
    "decay_linear",
    "sign_of_a_left_out",
    "input_without_dt",
    "b_and_c_exchanged",
    "skip_of_unconvolved",
    "gate_without_silu",
    "conv_without_silu",
    "conv_of_gate",
    "conv_one_late",
    "conv_state_one_early",
    "output_before_update",
    "step_from_zero",
    // Rewrites.
    "scan_in_chunks",
    "softplus_by_logarithm",
    "conv_by_product",
    "decay_by_power",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "mamba::decoder", NAMES, generate)
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Mamba::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut states = model.new_states();
    let mut tokens = run.input("input_ids")?;
    for step in 0..steps {
        let _scope = scope("step", step);
        tokens = choose(&logits(&mut model, &tokens, &mut states, v)?)?.token.expand_dims(1)?;
        tap_states(&mut states)?;
    }
    Ok(())
}

fn logits(model: &mut Mamba, tokens: &Array, states: &mut [MixerState], v: &Variant) -> Computed {
    let backbone = &mut model.backbone;
    let mut x = tap("embeddings", backbone.embeddings.forward(tokens)?)?;
    for (i, (layer, state)) in backbone.layers.iter().zip(states).enumerate() {
        let _scope = scope("layers", i);
        let normed = tap("norm", rms_norm(&layer.norm, &x)?)?;
        x = tap("out", x.add(mixer(&layer.mixer, &normed, state, v)?)?)?;
    }
    let normed = tap("norm_f", rms_norm(&backbone.norm_f, &x)?)?;
    tap("lm_head", backbone.embeddings.as_linear(&normed)?)
}

fn mixer(layer: &Mixer, x: &Array, state: &mut MixerState, v: &Variant) -> Computed {
    let _scope = scope("mixer", None);
    let projected = tap("in_proj", linear(&layer.in_proj, x)?)?.transpose_axes(&[0, 2, 1])?;
    let halves = projected.split_equal(2, 1)?;
    let (raw, gate) = if v.is("conv_of_gate") { (&halves[1], &halves[0]) } else { (&halves[0], &halves[1]) };
    let convolved = conv(layer, raw, state, v)?;
    let x = tap("conv", if v.is("conv_without_silu") { convolved } else { nn::silu(convolved)? })?;
    let selected = tap("x_proj", linear(&layer.x_proj, &x.transpose_axes(&[0, 2, 1])?)?)?;
    let (rank, size) = (layer.dt_proj.weight.dim(1), layer.A_log.dim(1));
    let parts = selected.split_at_indices(&[rank, rank + size], -1)?;
    let (b, c) = if v.is("b_and_c_exchanged") { (&parts[2], &parts[1]) } else { (&parts[1], &parts[2]) };
    let dt = step_size(layer, &layer.dt_proj.weight.matmul(parts[0].transpose_axes(&[0, 2, 1])?)?, v)?;
    let skip = if v.is("skip_of_unconvolved") { raw } else { &x };

    let is_step = state.scan.is_some() && x.dim(2) == 1;
    let dt = tap("dt", if is_step { dt.try_index((Ellipsis, 0))? } else { dt })?;
    let dt = if is_step { dt.expand_dims(-1)? } else { dt };
    let decay = decay(layer, &dt.expand_dims(-1)?, v)?;
    let decay = tap("decay", if is_step { decay.try_index((.., .., 0))? } else { decay })?;
    let scaled = match v.is("input_without_dt") {
        true => b.expand_dims(1)?,
        false => dt.expand_dims(-1)?.multiply(b.expand_dims(1)?)?,
    };
    let input = scaled.multiply(x.expand_dims(-1)?)?;
    let input = tap("input", if is_step { input.try_index((.., .., 0))? } else { input })?;
    let (decay, input) =
        if is_step { (decay.expand_dims(2)?, input.expand_dims(2)?) } else { (decay, input) };

    let old = match state.scan.take() {
        Some(old) if v.is("step_from_zero") => ops::zeros_like(old)?,
        Some(old) => old,
        None => ops::zeros_like(input.try_index((.., .., 0))?)?,
    };
    let tokens = x.dim(2);
    let (y, held) = if v.is("scan_in_chunks") && tokens > 2 {
        let (first, half) = scan(&decay, &input, c, 0..2, old, v)?;
        let (second, held) = scan(&decay, &input, c, 2..tokens, half, v)?;
        (concatenate(&[first, second], -1)?, held)
    } else {
        scan(&decay, &input, c, 0..tokens, old, v)?
    };
    state.scan = Some(held);
    let y = y.add(skip.multiply(layer.D.expand_dims(-1)?)?)?;
    let y = if is_step { y } else { tap("skipped", y)? };
    let active = if v.is("gate_without_silu") { gate.clone() } else { nn::silu(gate)? };
    let gated = tap("gated", y.multiply(active)?.transpose_axes(&[0, 2, 1])?)?;
    tap("out_proj", linear(&layer.out_proj, &gated)?)
}

fn conv(layer: &Mixer, x: &Array, state: &mut MixerState, v: &Variant) -> Computed {
    let (kernel, tokens) = (layer.conv1d.weight.dim(2), x.dim(2));
    let before = match state.conv.take() {
        Some(before) => before,
        None => ops::zeros::<f32>(&[x.dim(0), x.dim(1), kernel])?,
    };
    let all = concatenate(&[&before, x], 2)?;
    let late = i32::from(v.is("conv_one_late"));
    let parts: Vec<Array> = (0..kernel)
        .map(|at| all.try_index((.., .., at + 1 - late..at + 1 - late + tokens)))
        .collect::<Result<_, _>>()?;
    let sum = if v.is("conv_by_product") {
        // `[batch, channels, tokens, kernel]` times `[channels, kernel, 1]`.
        let columns = ops::stack(&parts, -1)?;
        columns.matmul(layer.conv1d.weight.transpose_axes(&[0, 2, 1])?)?.squeeze_axes(&[-1])?
    } else {
        let weight = |at: usize| layer.conv1d.weight.try_index((.., .., at as i32));
        let mut sum = parts[0].multiply(weight(0)?)?;
        for (at, part) in parts.iter().enumerate().skip(1) {
            sum = sum.add(part.multiply(weight(at)?)?)?;
        }
        sum
    };
    let early = i32::from(v.is("conv_state_one_early"));
    state.conv = Some(all.try_index((.., .., tokens - early..tokens - early + kernel))?);
    sum.add(layer.conv1d.bias.expand_dims(-1)?)
}

fn step_size(layer: &Mixer, dt: &Array, v: &Variant) -> Computed {
    let bias = layer.dt_proj.bias.value.as_ref().ok_or_else(|| Exception::custom("no bias"))?;
    let bias = bias.expand_dims(-1)?;
    if v.is("bias_after_softplus") {
        return nn::softplus(dt)?.add(bias);
    }
    let dt = dt.add(bias)?;
    if v.is("exp_for_softplus") {
        dt.exp()
    } else if v.is("softplus_by_logarithm") {
        dt.exp()?.log1p()
    } else {
        nn::softplus(dt)
    }
}

/// The decay of `[batch, channels, tokens, 1]`.
fn decay(layer: &Mixer, dt: &Array, v: &Variant) -> Computed {
    let rate = layer.A_log.exp()?;
    let a = if v.is("sign_of_a_left_out") { rate } else { rate.negative()? };
    let a = a.expand_dims(1)?;
    if v.is("decay_without_dt") {
        return ops::broadcast_to(a.exp()?, &[dt.dim(0), dt.dim(1), dt.dim(2), a.dim(-1)]);
    }
    if v.is("decay_linear") {
        return plus(&a.multiply(dt)?, 1.0);
    }
    if v.is("decay_by_power") {
        return scalar(std::f32::consts::E, dt.dtype())?.power(a.multiply(dt)?);
    }
    a.multiply(dt)?.exp()
}

/// Goes through these tokens, and returns their outputs and the last state.
fn scan(
    decay: &Array,
    input: &Array,
    c: &Array,
    tokens: std::ops::Range<i32>,
    old: Array,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let (mut held, mut outs) = (old, Vec::new());
    for token in tokens {
        let _scope = scope("scan", token as usize);
        let before = held.clone();
        let kept = decay.try_index((.., .., token))?.multiply(&held)?;
        held = tap("state", kept.add(input.try_index((.., .., token))?)?)?;
        let seen = if v.is("output_before_update") { &before } else { &held };
        outs.push(tap("out", seen.matmul(c.try_index((.., token))?.expand_dims(-1)?)?)?);
    }
    Ok((concatenate(&outs, -1)?, held))
}
