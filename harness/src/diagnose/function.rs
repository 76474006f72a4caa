//! Another activation of the same input, told where the input is known: first it is found out which one the golden is.

use super::others::with;
use super::scene::{Other, Pair};
use super::{Explained, Found, Kind, Looked};

/// So many tensors of the same shape before are tried as the input.
const INPUTS: usize = 5;

type Function = (&'static str, fn(f64) -> f64);

const ACTIVATIONS: &[Function] = &[
    ("gelu by erf", |x| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))),
    ("gelu by tanh", |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    }),
    ("quick gelu", |x| x * sigmoid(1.702 * x)),
    ("the gelu by sigmoid(1.773 x) that mlx-rs calls fast", |x| x * sigmoid(1.773 * x)),
    ("silu", |x| x * sigmoid(x)),
    ("relu", |x| x.max(0.0)),
    ("squared relu", |x| x.max(0.0).powi(2)),
    ("leaky relu", |x| if x > 0.0 { x } else { 0.01 * x }),
    ("elu", |x| if x > 0.0 { x } else { x.exp_m1() }),
    ("sigmoid", sigmoid),
    ("tanh", f64::tanh),
    ("softplus", |x| if x > 30.0 { x } else { x.exp().ln_1p() }),
    ("mish", |x| x * x.exp().ln_1p().tanh()),
    ("no activation", |x| x),
];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() || pair.bar.eps() == 0.0 || pair.actual.len() < 16 {
        return Vec::new();
    }
    plain(looked).or_else(|| gated(looked)).or_else(|| halves(looked)).into_iter().collect()
}

fn values(looked: &Looked, other: &Other) -> Option<Vec<f64>> {
    with(looked, other, |field| {
        Some(looked.pair.positions.iter().map(|&position| field.at(position)).collect())
    })
}

/// `activation(x)`.
fn plain(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    looked.inputs(INPUTS).find_map(|other| {
        let x = values(looked, other)?;
        let (right, function) = golden(pair, |f, index| f(x[index]))?;
        let name = &other.name;
        let another = ACTIVATIONS.iter().filter(|(name, _)| *name != right && *name != "no activation");
        if let Some((wrong, residual)) = best(pair, another, |f, index| f(x[index])) {
            let text = format!("{wrong} of `{name}`, where the golden is {right} of it");
            return Some(Found::new(Kind::Activation, 1, residual, text));
        }
        let twice = pair.explained(0, |index| function(pair.e[index]))?;
        (right != "no activation")
            .then(|| Found::new(Kind::ExecutedTwice, 1, twice, format!("{right} of `{name}`, applied twice")))
    })
}

/// `activation(gate) * up`, both of them tensors before.
fn gated(looked: &Looked) -> Option<Found> {
    let loaded: Vec<(&str, Vec<f64>)> = looked
        .inputs(INPUTS)
        .filter_map(|other| Some((other.name.as_str(), values(looked, other)?)))
        .collect();
    loaded.iter().enumerate().find_map(|(g, (gate, x))| {
        let ups = loaded.iter().enumerate().filter(|(u, _)| *u != g);
        ups.into_iter()
            .find_map(|(_, (up, y))| product(&looked.pair, x, y, &format!("`{gate}`"), &format!("`{up}`")))
    })
}

/// `activation(first half) * second half` of one tensor before, or the other way round.
fn halves(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    let (&width, outer) = pair.shape().split_last()?;
    let fused = |other: &&Other| {
        other.field_shape().split_last().is_some_and(|(last, rest)| *last == 2 * width && rest == outer)
    };
    looked.scene.others.before().iter().filter(fused).take(2).find_map(|other| {
        let half = |second: usize| {
            with(looked, other, |field| {
                let at = |&position: &usize| {
                    field.at(position / width * 2 * width + second * width + position % width)
                };
                Some(pair.positions.iter().map(at).collect::<Vec<f64>>())
            })
        };
        let (first, second) = (half(0)?, half(1)?);
        let (one, two) =
            (format!("the first half of `{}`", other.name), format!("its second half in `{}`", other.name));
        product(pair, &first, &second, &one, &two).or_else(|| product(pair, &second, &first, &two, &one))
    })
}

/// Finds out whether the golden is `activation(gate) * up`, and if so, what else of them the actual is.
fn product(pair: &Pair, gate: &[f64], up: &[f64], gate_name: &str, up_name: &str) -> Option<Found> {
    let (right, function) = golden(pair, |f, index| f(gate[index]) * up[index])?;
    let told = |kind, residual: Explained, text| Some(Found::new(kind, 1, residual, text));
    if let Some(residual) = pair.explained(0, |index| function(up[index]) * gate[index]) {
        let text = format!(
            "{right} of {up_name} times {gate_name}, where the golden has {right} of {gate_name} times {up_name}"
        );
        return told(Kind::GateSwapped, residual, text);
    }
    let another = ACTIVATIONS.iter().filter(|(name, _)| *name != right);
    if let Some((wrong, residual)) = best(pair, another, |f, index| f(gate[index]) * up[index]) {
        let text = format!("{wrong} of {gate_name} times {up_name}, where the golden has {right}");
        return told(Kind::Activation, residual, text);
    }
    if let Some(residual) = pair.explained(0, |index| function(gate[index])) {
        let text = format!("{right} of {gate_name} alone, without {up_name}");
        return told(Kind::Term, residual, text);
    }
    None
}

/// The activation that the golden is made with, if it is one of these.
fn golden(pair: &Pair, of: impl Fn(fn(f64) -> f64, usize) -> f64) -> Option<Function> {
    let gaps = ACTIVATIONS.iter().map(|&(name, f)| (gap(pair, |index| of(f, index)), (name, f)));
    let (gap, best) = gaps.min_by(|x, y| x.0.total_cmp(&y.0))?;
    (gap <= tolerance(pair)).then_some(best)
}

/// The activation that the actual is made with, if it is one of these.
fn best<'f>(
    pair: &Pair,
    candidates: impl Iterator<Item = &'f Function>,
    of: impl Fn(fn(f64) -> f64, usize) -> f64,
) -> Option<(&'static str, Explained)> {
    let explained =
        candidates.filter_map(|&(name, f)| Some((name, pair.explained(0, |index| of(f, index))?)));
    explained.min_by(|x, y| x.1.rms.total_cmp(&y.1.rms))
}

/// Whether the golden is what `of` says, as well as its dtype lets that be told from 16-bit inputs too.
pub(super) fn is_golden(pair: &Pair, of: impl Fn(usize) -> f64) -> bool {
    gap(pair, of) <= tolerance(pair)
}

/// How far the golden may be from what makes it, as a part of its size.
pub(super) fn tolerance(pair: &Pair) -> f64 {
    (2.0 * pair.bar.eps()).max(6.0 * pair.bar.relative()).clamp(1e-6, 1e-2)
}

/// How far the golden is from what `of` says, as a part of its size.
pub(super) fn gap(pair: &Pair, of: impl Fn(usize) -> f64) -> f64 {
    let step = (pair.positions.len() / 4096).max(1);
    let (mut left, mut size) = (0.0, 0.0);
    for index in (0..pair.positions.len()).step_by(step).filter(|&index| super::scene::plain(pair.e[index])) {
        left += (pair.e[index] - of(index)).powi(2);
        size += pair.e[index].powi(2);
    }
    if left == 0.0 { 0.0 } else { (left / size).sqrt() }
}
