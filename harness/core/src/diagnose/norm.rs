//! Another normalisation of the same input: another kind, other groups, another eps. The input must be known.

use super::activation::{gap, tolerance};
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, KnownTensor, Search};
use crate::number::Short;

/// At most this many earlier tensors of the same shape are tried as the input.
const INPUTS: usize = 4;
/// At most this many rows of a large tensor are read. Group norms are not tried there, since they would need all of it.
const ROWS: usize = 64;
/// At most this many elements of a large tensor are read, however long its rows are.
const ELEMENTS: usize = 1 << 20;
/// At most this many vectors among the weights are tried as the weight of the norm.
const MOST_VECTORS: usize = 512;
/// With about the right eps, the golden is this close to a norm of its input.
const ABOUT: f64 = 0.02;
/// The values of eps in common use.
const USUAL_EPS: [f64; 9] = [0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

/// The elements that share a mean and a variance.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Over {
    /// Each row of the last axis.
    Row,
    /// This many groups of neighbouring channels, over all positions of a batch.
    Groups(usize),
    /// This many groups of every nth channel, as MLX has them without `pytorch_compatible`.
    EveryNth(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Normalisation {
    over: Over,
    /// Whether the mean is subtracted.
    centred: bool,
}

impl Normalisation {
    fn name(self) -> String {
        match (self.over, self.centred) {
            (Over::Row, true) => "layer norm".to_owned(),
            (Over::Row, false) => "RMS norm".to_owned(),
            (Over::Groups(n), _) => format!("group norm of {n} groups"),
            (Over::EveryNth(n), _) => format!("group norm of {n} groups of every {n}th channel"),
        }
    }

    /// The number of groups that are sampled.
    fn count(self, pair: &SampledPair) -> usize {
        let shape = pair.shape();
        match self.over {
            Over::Row => pair.positions.len().div_ceil(shape.last().copied().unwrap_or(1)),
            Over::Groups(n) | Over::EveryNth(n) => shape[0] * n,
        }
    }

    /// The group of a sampled element. Rows are sampled completely, so they are counted in the sample.
    fn group(self, pair: &SampledPair, index: usize) -> usize {
        let (shape, position) = (pair.shape(), pair.positions[index]);
        let width = shape.last().copied().unwrap_or(1);
        let batch = shape[1..].iter().product::<usize>().max(1);
        match self.over {
            Over::Row => index / width,
            Over::Groups(n) => position / batch * n + position % width / (width / n),
            Over::EveryNth(n) => position / batch * n + position % width % n,
        }
    }
}

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let shape = search.pair.shape();
    let width = search.pair.actual.width();
    if !search.pair.same_shape() || search.pair.bound.eps() == 0.0 || shape.len() < 2 || width < 4 {
        return Vec::new();
    }
    let rows = search.pair.actual.len() / width;
    let most = ROWS.min(rows).min(ELEMENTS / width);
    if search.pair.sampled().is_some() && most == 0 {
        return Vec::new();
    }
    let some = search.pair.sampled().map(|_| {
        let rows = (0..most).map(|i| i * rows / most);
        search.pair.at(rows.flat_map(|row| row * width..(row + 1) * width).collect())
    });
    let pair = some.as_ref().unwrap_or(&search.pair);
    let inputs = search.checkpoint.known.before().iter().filter(|other| same(other, shape)).take(INPUTS);
    let known = Affine::known(search);
    inputs.into_iter().find_map(|other| against(search, pair, &known, other)).into_iter().collect()
}

/// Whether the tensor has this shape, or this shape with all positions in one axis, as before an attention over pixels.
fn same(other: &KnownTensor, shape: &[usize]) -> bool {
    let flat =
        |shape: &[usize]| (shape.first().copied(), shape.iter().product::<usize>(), shape.last().copied());
    flat(&other.float64_shape()) == flat(shape)
}

/// Mean and variance of each group of the input.
struct Moments {
    normalisation: Normalisation,
    mean: Vec<f64>,
    /// The variance without eps; the mean square if the mean is not subtracted.
    variance: Vec<f64>,
}

impl Moments {
    /// The moments of `x` at the pair's positions. Each group must be sampled completely or not at all.
    fn new(normalisation: Normalisation, pair: &SampledPair, x: &[f64]) -> Self {
        let groups = normalisation.count(pair);
        let (mut count, mut sum, mut squares) = (vec![0f64; groups], vec![0.0; groups], vec![0.0; groups]);
        for (index, x) in x.iter().enumerate() {
            let group = normalisation.group(pair, index);
            count[group] += 1.0;
            sum[group] += x;
            squares[group] += x * x;
        }
        count.iter_mut().for_each(|count| *count = count.max(1.0));
        let mean = |group: usize| if normalisation.centred { sum[group] / count[group] } else { 0.0 };
        let variance = |group: usize| squares[group] / count[group] - mean(group).powi(2);
        Self {
            normalisation,
            mean: (0..groups).map(mean).collect(),
            variance: (0..groups).map(variance).collect(),
        }
    }

    /// The normalised input at each sampled element.
    fn normalised(&self, pair: &SampledPair, x: &[f64], eps: f64) -> Vec<f64> {
        let at = |(index, x): (usize, &f64)| {
            let group = self.normalisation.group(pair, index);
            (x - self.mean[group]) / (self.variance[group] + eps).sqrt()
        };
        x.iter().enumerate().map(at).collect()
    }
}

/// The normalisations that the golden may be.
fn candidates(pair: &SampledPair) -> Vec<Normalisation> {
    let shape = pair.shape();
    let width = shape.last().copied().unwrap_or(1);
    let small = pair.sampled().is_none();
    let rows = [false, true].map(|centred| Normalisation { over: Over::Row, centred });
    let groups = [32, 16, 8, 4, 2, 1]
        .into_iter()
        .filter(|n| small && shape.len() >= 3 && width.is_multiple_of(*n) && *n < width);
    let groups = groups
        .flat_map(|n| [Over::Groups(n), Over::EveryNth(n)])
        .map(|over| Normalisation { over, centred: true });
    rows.into_iter().chain(groups).collect()
}

fn against(
    search: &Search,
    pair: &SampledPair,
    known: &[Affine],
    other: &KnownTensor,
) -> Option<Explanation> {
    search.with_values(other, |numbers| {
        let x: Vec<f64> = pair.positions.iter().map(|&position| numbers.at(position)).collect();
        let in_budget = |_: &Normalisation| !search.checkpoint.budget.is_spent();
        let candidates = candidates(pair).into_iter().take_while(in_budget);
        let all: Vec<Moments> = candidates.map(|n| Moments::new(n, pair, &x)).collect();
        // The golden's own normalisation, its weight and bias, and its eps.
        let (right, affine, eps) = all.iter().find_map(|moments| {
            let known = Affine::nearest(pair, &moments.normalised(pair, &x, USUAL_EPS[4]), known);
            let of_eps = |eps: f64| {
                if search.checkpoint.budget.is_spent() {
                    return None;
                }
                let normal = moments.normalised(pair, &x, eps);
                let affine = match known {
                    Some(known) => known.clone(),
                    None => Affine::fitted(pair, moments.normalisation, &normal)?,
                };
                Some((gap(pair, |index| affine.at(pair, index, normal[index])), affine, eps))
            };
            let best = USUAL_EPS.into_iter().filter_map(of_eps).min_by(|a, b| a.0.total_cmp(&b.0))?;
            (best.0 <= tolerance(pair)).then_some((moments, best.1, best.2))
        })?;
        let own = right.normalised(pair, &x, eps);
        let twice = || again(pair, right, &affine, eps, &other.name);
        let turned = || along_another_axis(pair, &own, &affine);
        other_eps(pair, right, &affine, eps, &other.name).or_else(twice).or_else(turned).or_else(|| {
            all.iter().filter(|moments| moments.normalisation != right.normalisation).find_map(|wrong| {
                let normal = wrong.normalised(pair, &x, eps);
                let residual = pair.explained(0, |index| affine.at(pair, index, normal[index]))?;
                let (wrong, right) = (wrong.normalisation.name(), right.normalisation.name());
                let text = format!("the {wrong} of `{}`, where the golden is its {right}", other.name);
                Some(Explanation::new(CauseKind::NormKind, 1, residual, text))
            })
        })
    })
}

/// The same normalisation with another eps: each group is multiplied by `sqrt((variance + eps) / (variance + wrong eps))`.
fn other_eps(
    pair: &SampledPair,
    right: &Moments,
    affine: &Affine,
    eps: f64,
    input: &str,
) -> Option<Explanation> {
    let groups = right.variance.len();
    let (mut ee, mut ea) = (vec![0.0; groups], vec![0.0; groups]);
    for (index, &position) in pair.positions.iter().enumerate().filter(|(index, _)| pair.is_plain(*index)) {
        let group = right.normalisation.group(pair, index);
        let bias = affine.bias[position % affine.bias.len()];
        let (e, a) = (pair.e[index] - bias, pair.a[index] - bias);
        ee[group] += e * e;
        ea[group] += e * a;
    }
    // The eps that each group implies, weighted by how precisely it does.
    let (mut sum, mut weights) = (0.0, 0.0);
    for group in (0..groups).filter(|&group| ee[group] > 0.0 && ea[group] > 0.0) {
        let factor = ea[group] / ee[group];
        let variance = right.variance[group];
        let weight = ee[group] / (variance + eps).powi(2);
        sum += weight * ((variance + eps) / (factor * factor) - variance);
        weights += weight;
    }
    let found = sum / weights;
    let nearest = USUAL_EPS
        .into_iter()
        .find(|usual| *usual != eps && (found - usual).abs() <= 0.1 * usual.max(0.01 * eps));
    let wrong = nearest.unwrap_or(found);
    if !wrong.is_finite() || wrong < 0.0 || wrong == eps {
        return None;
    }
    let residual = pair.explained(usize::from(nearest.is_none()), |index| {
        let position = pair.positions[index];
        let group = right.normalisation.group(pair, index);
        let bias = affine.bias[position % affine.bias.len()];
        let factor = ((right.variance[group] + eps) / (right.variance[group] + wrong)).sqrt();
        (pair.e[index] - bias) * factor + bias
    })?;
    let name = right.normalisation.name();
    let text =
        format!("the {name} of `{input}` with eps {}, where the golden has {}", Short(wrong), Short(eps));
    Some(Explanation::new(CauseKind::NormEps, 1, residual, text))
}

/// The normalisation applied to the golden: it ran twice.
fn again(pair: &SampledPair, right: &Moments, affine: &Affine, eps: f64, input: &str) -> Option<Explanation> {
    let moments = Moments::new(right.normalisation, pair, &pair.e);
    let normal = moments.normalised(pair, &pair.e, eps);
    let residual = pair.explained(0, |index| affine.at(pair, index, normal[index]))?;
    let text = format!("the {} of `{input}`, applied twice", right.normalisation.name());
    Some(Explanation::new(CauseKind::ExecutedTwice, 1, residual, text))
}

/// Weight and bias along another axis of the same length.
fn along_another_axis(pair: &SampledPair, normal: &[f64], affine: &Affine) -> Option<Explanation> {
    let (shape, strides) = (pair.shape(), crate::tensor::row_major(pair.shape()));
    let width = pair.actual.width();
    (0..shape.len() - 1).filter(|&axis| shape[axis] == width).find_map(|axis| {
        let at = |index: usize| pair.positions[index] / strides[axis] % width;
        let channel = |index: usize| pair.positions[index] % width;
        let weight_only =
            |index: usize| affine.weight[at(index)] * normal[index] + affine.bias[channel(index)];
        let both = |index: usize| affine.weight[at(index)] * normal[index] + affine.bias[at(index)];
        let residual = pair.explained(0, both).or_else(|| pair.explained(0, weight_only))?;
        let text = format!("a norm with its weight along axis {axis} in place of the last axis");
        Some(Explanation::new(CauseKind::BroadcastAxis, 1, residual, text))
    })
}

/// A weight and a bias per channel.
#[derive(Clone)]
struct Affine {
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Affine {
    /// No weight at all, then every vector among the weights with the bias of the same layer.
    fn known(search: &Search) -> Vec<Self> {
        let width = search.pair.actual.width();
        let others = search.checkpoint.known;
        let vector = |other: &KnownTensor| -> Option<Vec<f64>> {
            search.with_values(other, |numbers| Some((0..width).map(|at| numbers.at(at)).collect()))
        };
        let vectors = || others.weights().iter().filter(|other| other.shape == [width]).take(MOST_VECTORS);
        let weights = vectors().filter(|other| !other.name.ends_with("bias")).filter_map(|other| {
            let bias = other.name.strip_suffix("weight").map(|stem| format!("{stem}bias"));
            let bias = bias.and_then(|name| vectors().find(|other| other.name == name));
            Some(Self {
                weight: vector(other)?,
                bias: bias.and_then(vector).unwrap_or_else(|| vec![0.0; width]),
            })
        });
        [Self { weight: vec![1.0; width], bias: vec![0.0; width] }].into_iter().chain(weights).collect()
    }

    /// The known weight and bias that bring the normalised input nearest to the golden, if that is near enough.
    fn nearest<'k>(pair: &SampledPair, normal: &[f64], known: &'k [Self]) -> Option<&'k Self> {
        let far = |affine: &Self| gap(pair, |index| affine.at(pair, index, normal[index]));
        let near = known.iter().map(|affine| (far(affine), affine)).min_by(|a, b| a.0.total_cmp(&b.0));
        near.filter(|(gap, _)| *gap < ABOUT).map(|(_, affine)| affine)
    }

    /// The best weight and bias per channel, for norms over rows only: fitted channels would make any grouping right.
    fn fitted(pair: &SampledPair, normalisation: Normalisation, normal: &[f64]) -> Option<Self> {
        let width = pair.actual.width();
        if normalisation.over != Over::Row || pair.positions.len() < 4 * width {
            return None;
        }
        let mut sums = vec![[0.0; 5]; width];
        for (index, &position) in pair.positions.iter().enumerate() {
            let (n, v) = (normal[index], pair.e[index]);
            let [count, sn, sv, snn, snv] = &mut sums[position % width];
            *count += 1.0;
            *sn += n;
            *sv += v;
            *snn += n * n;
            *snv += n * v;
        }
        let weight: Vec<f64> = sums
            .iter()
            .map(|[count, sn, sv, snn, snv]| (count * snv - sn * sv) / (count * snn - sn * sn))
            .collect();
        let bias = sums.iter().zip(&weight).map(|([count, sn, sv, ..], w)| (sv - w * sn) / count).collect();
        weight.iter().all(|w| w.is_finite()).then_some(Self { weight, bias })
    }

    fn at(&self, pair: &SampledPair, index: usize, normal: f64) -> f64 {
        let channel = pair.positions[index] % self.weight.len();
        self.weight[channel] * normal + self.bias[channel]
    }
}
