//! Another activation of the same input. The input must be known: it shows which activation the golden is.

use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, KnownTensor, Search, SmallResidual};

/// At most this many earlier tensors of the same shape are tried as the input.
const INPUTS: usize = 5;

type Function = (&'static str, fn(f64) -> f64);

const ACTIVATIONS: &[Function] = &[
    ("gelu by erf", |x| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))),
    ("gelu by tanh", |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    }),
    ("quick gelu", |x| x * sigmoid(1.702 * x)),
    ("gelu by sigmoid(1.773 x), which mlx-rs calls fast", |x| x * sigmoid(1.773 * x)),
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

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.bound.eps() == 0.0 || pair.actual.len() < 16 {
        return Vec::new();
    }
    plain(search).or_else(|| gated(search)).or_else(|| halves(search)).into_iter().collect()
}

fn values(search: &Search, other: &KnownTensor) -> Option<Vec<f64>> {
    search.with_values(other, |numbers| {
        Some(search.pair.positions.iter().map(|&position| numbers.at(position)).collect())
    })
}

/// `activation(x)`.
fn plain(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    search.inputs(INPUTS).find_map(|other| {
        let x = values(search, other)?;
        let (right, function) = golden(pair, |f, index| f(x[index]))?;
        let name = &other.name;
        let another = ACTIVATIONS.iter().filter(|(name, _)| *name != right && *name != "no activation");
        if let Some((wrong, residual)) = best(pair, another, |f, index| f(x[index])) {
            let text = format!("{wrong} of `{name}`, where the golden is {right}");
            return Some(Explanation::new(CauseKind::Activation, 1, residual, text));
        }
        let twice = pair.explained(0, |index| function(pair.e[index]))?;
        (right != "no activation").then(|| {
            Explanation::new(
                CauseKind::ExecutedTwice,
                1,
                twice,
                format!("{right} of `{name}`, applied twice"),
            )
        })
    })
}

/// `activation(gate) * up`, both of them earlier tensors.
fn gated(search: &Search) -> Option<Explanation> {
    let loaded: Vec<(&str, Vec<f64>)> = search
        .inputs(INPUTS)
        .filter_map(|other| Some((other.name.as_str(), values(search, other)?)))
        .collect();
    loaded.iter().enumerate().find_map(|(g, (gate, x))| {
        let ups = loaded.iter().enumerate().filter(|(u, _)| *u != g);
        ups.into_iter()
            .find_map(|(_, (up, y))| product(&search.pair, x, y, &format!("`{gate}`"), &format!("`{up}`")))
    })
}

/// `activation(first half) * second half` of one earlier tensor, or with the halves exchanged.
fn halves(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    let (&width, outer) = pair.shape().split_last()?;
    let fused = |other: &&KnownTensor| {
        other.float64_shape().split_last().is_some_and(|(last, rest)| *last == 2 * width && rest == outer)
    };
    search.checkpoint.known.before().iter().filter(fused).take(2).find_map(|other| {
        let half = |second: usize| {
            search.with_values(other, |numbers| {
                let at = |&position: &usize| {
                    numbers.at(position / width * 2 * width + second * width + position % width)
                };
                Some(pair.positions.iter().map(at).collect::<Vec<f64>>())
            })
        };
        let (first, second) = (half(0)?, half(1)?);
        let (one, two) =
            (format!("the first half of `{}`", other.name), format!("the second half of `{}`", other.name));
        product(pair, &first, &second, &one, &two).or_else(|| product(pair, &second, &first, &two, &one))
    })
}

/// If the golden is `activation(gate) * up`, explains the actual by the same two tensors.
fn product(
    pair: &SampledPair,
    gate: &[f64],
    up: &[f64],
    gate_name: &str,
    up_name: &str,
) -> Option<Explanation> {
    let (right, function) = golden(pair, |f, index| f(gate[index]) * up[index])?;
    let explanation = |kind, residual: SmallResidual, text| Some(Explanation::new(kind, 1, residual, text));
    if let Some(residual) = pair.explained(0, |index| function(up[index]) * gate[index]) {
        let text = format!(
            "{right} of {up_name} times {gate_name}, where the golden has {right} of {gate_name} times {up_name}"
        );
        return explanation(CauseKind::GateSwapped, residual, text);
    }
    let another = ACTIVATIONS.iter().filter(|(name, _)| *name != right);
    let (wrong, residual) = best(pair, another, |f, index| f(gate[index]) * up[index])?;
    let text = format!("{wrong} of {gate_name} times {up_name}, where the golden has {right}");
    explanation(CauseKind::Activation, residual, text)
}

/// The activation that the golden was computed with, if it is a known one.
fn golden(pair: &SampledPair, of: impl Fn(fn(f64) -> f64, usize) -> f64) -> Option<Function> {
    let gaps = ACTIVATIONS.iter().map(|&(name, f)| (gap(pair, |index| of(f, index)), (name, f)));
    let (gap, best) = gaps.min_by(|x, y| x.0.total_cmp(&y.0))?;
    (gap <= tolerance(pair)).then_some(best)
}

/// The activation that explains the actual best, if one does.
fn best<'f>(
    pair: &SampledPair,
    candidates: impl Iterator<Item = &'f Function>,
    of: impl Fn(fn(f64) -> f64, usize) -> f64,
) -> Option<(&'static str, SmallResidual)> {
    let explained =
        candidates.filter_map(|&(name, f)| Some((name, pair.explained(0, |index| of(f, index))?)));
    explained.min_by(|x, y| x.1.rms.total_cmp(&y.1.rms))
}

/// Whether the golden is what `of` computes, within [`tolerance`].
pub(super) fn is_golden(pair: &SampledPair, of: impl Fn(usize) -> f64) -> bool {
    gap(pair, of) <= tolerance(pair)
}

/// How far the golden may be from its recomputation, as a part of its size. Inputs may have 16 bits only.
pub(super) fn tolerance(pair: &SampledPair) -> f64 {
    (2.0 * pair.bound.eps()).max(6.0 * pair.bound.relative()).clamp(1e-6, 1e-2)
}

/// How far the golden is from what `of` computes, as a part of its size.
pub(super) fn gap(pair: &SampledPair, of: impl Fn(usize) -> f64) -> f64 {
    let step = (pair.positions.len() / 4096).max(1);
    let (mut left, mut size) = (0.0, 0.0);
    for index in (0..pair.positions.len()).step_by(step).filter(|&index| super::numbers::plain(pair.e[index]))
    {
        left += (pair.e[index] - of(index)).powi(2);
        size += pair.e[index].powi(2);
    }
    if left == 0.0 { 0.0 } else { (left / size).sqrt() }
}
