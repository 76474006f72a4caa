//! Actuals that are another function of the same input.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32};
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

fn rounded(dtype: Dtype, values: Vec<f64>) -> Vec<f64> {
    let round =
        |x: f64| if dtype == Bfloat16 { half::bf16::from_f64(x).to_f64() } else { f64::from(x as f32) };
    values.into_iter().map(round).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x.powi(3))).tanh())
}

fn quick_gelu(x: f64) -> f64 {
    x / (1.0 + (-1.702 * x).exp())
}

#[rstest]
fn activations(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let x = rounded(dtype, Dice::new(60).normals(8 * 24));
    let of = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
    let case = Case::new(dtype, &[8, 24], &of(gelu_tanh)).named("mlp.act").before("mlp.fc1", &[8, 24], &x);
    case.is(&of(silu), "activation", &["silu of `mlp.fc1`", "gelu by"]);
    case.is(&of(|x| x.max(0.0)), "activation", &["relu of"]);
    case.is(&x, "not_executed", &["`mlp.fc1`"]);
    if dtype == Float32 {
        case.is(&of(quick_gelu), "activation", &["quick gelu of"]);
        case.is(&of(|x| gelu_tanh(gelu_tanh(x))), "executed_twice", &["applied twice"]);
    }
}

#[rstest]
fn gated_units(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let shape = [6, 16];
    let (gate, up) = (rounded(dtype, Dice::new(61).normals(96)), rounded(dtype, Dice::new(62).normals(96)));
    let of = |f: &dyn Fn(f64, f64) -> f64| gate.iter().zip(&up).map(|(&g, &u)| f(g, u)).collect::<Vec<_>>();
    let case = Case::new(dtype, &shape, &of(&|g, u| silu(g) * u)).named("mlp.gated");
    let case = case.before("mlp.up", &shape, &up).before("mlp.gate", &shape, &gate);
    case.is(&of(&|g, u| g * silu(u)), "gate_swapped", &["silu of `mlp.up`"]);
    case.is(&of(&|g, u| gelu_tanh(g) * u), "activation", &["of `mlp.gate`"]);
    case.is(&of(&|g, u| g * u), "activation", &["no activation of"]);
    // The same with one fused projection.
    let fused: Vec<f64> = gate.chunks(16).zip(up.chunks(16)).flat_map(|(g, u)| [g, u].concat()).collect();
    let case = Case::new(dtype, &shape, &of(&|g, u| silu(g) * u)).before("mlp.fused", &[6, 32], &fused);
    case.is(&of(&|g, u| g * silu(u)), "gate_swapped", &["half of `mlp.fused`"]);
}

struct Norm {
    centred: bool,
    eps: f64,
}

fn norm(x: &[f64], width: usize, weight: &[f64], Norm { centred, eps }: Norm) -> Vec<f64> {
    x.chunks(width)
        .flat_map(|row| {
            let mean = if centred { row.iter().sum::<f64>() / width as f64 } else { 0.0 };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            row.iter()
                .zip(weight)
                .map(move |(x, w)| (x - mean) / (variance + eps).sqrt() * w)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[rstest]
#[case(false)]
#[case(true)]
fn norms(#[case] weighted: bool) {
    let weight: Vec<f64> = match weighted {
        true => Dice::new(63).normals(16).iter().map(|x| 1.0 + 0.2 * x).collect(),
        false => vec![1.0; 16],
    };
    // Rows of different sizes, so that eps has an effect.
    let mut dice = Dice::new(64);
    let x: Vec<f64> = (0..24)
        .flat_map(|row| {
            let size = 0.05 * f64::from(1 + row % 5);
            dice.normals(16).into_iter().map(move |x| size * (x + 0.3)).collect::<Vec<_>>()
        })
        .collect();
    let x = rounded(Float32, x);
    let of = |centred, eps| norm(&x, 16, &weight, Norm { centred, eps });
    let case = Case::new(Float32, &[2, 12, 16], &of(false, 1e-6)).before("x", &[2, 12, 16], &x);
    case.is(&of(false, 1e-5), "norm_eps", &["RMS norm of `x` with eps 1e-5", "has 1e-6"]);
    case.is(&of(true, 1e-6), "norm_kind", &["layer norm of `x`", "RMS norm"]);
    let case = Case::new(Float32, &[2, 12, 16], &of(true, 1e-5)).before("x", &[2, 12, 16], &x);
    case.is(&of(false, 1e-5), "norm_kind", &["RMS norm of `x`"]);
    case.is(&of(true, 1e-6), "norm_eps", &["eps 1e-6"]);
}

#[rstest]
fn modulations(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let shape = [2, 10, 8];
    let x = rounded(dtype, Dice::new(65).normals(160));
    let (scale, shift) = (Dice::new(66).normals(16), Dice::new(67).normals(16));
    let of = |f: &dyn Fn(f64, f64, f64) -> f64| -> Vec<f64> {
        x.iter()
            .enumerate()
            .map(|(i, &x)| f(x, scale[i / 80 * 8 + i % 8], shift[i / 80 * 8 + i % 8]))
            .collect()
    };
    let case = Case::new(dtype, &shape, &of(&|x, scale, shift| x * (1.0 + scale) + shift))
        .before("norm", &shape, &x);
    case.is(&of(&|x, scale, shift| x * (1.0 + shift) + scale), "modulation", &["scale and shift exchanged"]);
    case.is(&of(&|x, scale, shift| x * scale + shift), "modulation", &["1 + scale"]);
    case.is(&of(&|x, scale, _| x * (1.0 + scale)), "modulation", &["without the shift"]);
}

fn softmax(scores: &[f64], width: usize, times: f64, seen: impl Fn(usize) -> bool) -> Vec<f64> {
    scores
        .chunks(width)
        .enumerate()
        .flat_map(|(row, scores)| {
            let exps: Vec<f64> = scores
                .iter()
                .enumerate()
                .map(|(at, x)| if seen(row * width + at) { (times * x).exp() } else { 0.0 })
                .collect();
            let sum: f64 = exps.iter().sum();
            exps.into_iter().map(move |x| x / sum).collect::<Vec<_>>()
        })
        .collect()
}

#[rstest]
fn softmaxes(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let scores: Vec<f64> = Dice::new(68).normals(2 * 8 * 8).iter().map(|x| 1.5 * x).collect();
    let of = |times, seen: fn(usize) -> bool| softmax(&scores, 8, times, seen);
    let causal: fn(usize) -> bool = |i| i % 8 <= i / 8 % 8;
    let case = Case::new(dtype, &[2, 8, 8], &of(1.0, |_| true)).named("attn.probs");
    case.is(&of(8f64.sqrt(), |_| true), "softmax_scale", &["sqrt(8)"]);
    case.is(&of(1.0, causal), "mask", &["masks keys which the golden attends to"]);
    case.is(&of(0.0, |_| true), "uniform_attention", &["attention spread"]);
    let masked = Case::new(dtype, &[2, 8, 8], &of(1.0, causal)).named("attn.probs");
    masked.is(&of(1.0, |_| true), "mask", &["keys which the golden masks"]);
    let fill: Vec<f64> = scores.iter().enumerate().map(|(i, &x)| if causal(i) { x } else { -1e9 }).collect();
    let case = Case::new(dtype, &[2, 8, 8], &fill).named("attn.scores");
    case.is(&scores, "mask", &["without its mask"]);
}

/// `x` `[6, 16]` through a layer of 20 outputs.
fn linear(x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let dot = |i: usize| (0..16).map(|k| x[i / 20 * 16 + k] * w[i % 20 * 16 + k]).sum::<f64>();
    (0..120).map(|i| dot(i) + bias[i % 20]).collect()
}

#[test]
fn linear_layers() {
    let x = rounded(Float32, Dice::new(90).normals(96));
    let (w, other) =
        (rounded(Float32, Dice::new(91).normals(320)), rounded(Float32, Dice::new(92).normals(320)));
    let (bias, other_bias) = (Dice::new(93).normals(20), Dice::new(94).normals(20));
    let case =
        Case::new(Float32, &[1, 6, 20], &linear(&x, &w, &bias)).named("up").before("x", &[1, 6, 16], &x);
    let case = case.weight_shaped("up.weight", &[20, 16], &w).weight_shaped("gate.weight", &[20, 16], &other);
    let narrow =
        |values: &[f64]| values.iter().map(|x| half::bf16::from_f64(*x).to_f64()).collect::<Vec<_>>();
    case.is(&linear(&x, &narrow(&w), &bias), "rounded", &["the weight `up.weight` rounded to bfloat16"]);
    case.is(&linear(&narrow(&x), &w, &bias), "rounded", &["`x` rounded to bfloat16"]);
    case.is(&linear(&x, &other, &other_bias), "crossed", &["`gate.weight` in place of `up.weight`"]);
}
