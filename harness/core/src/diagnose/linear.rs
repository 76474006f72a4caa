//! A linear layer with rounded values or with another weight. Input and weight must be known.

use half::f16;

use super::activation::is_golden;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, KnownTensor, Search};
use crate::tensor::Float64View;
use crate::tensor::nearest_bf16;

/// At most this many earlier tensors are tried as the input.
const INPUTS: usize = 8;
/// Rows that are computed, and the most products per attempt: of a large layer, only some outputs are computed.
const ROWS: usize = 16;
const MOST_PRODUCTS: usize = 1 << 20;

type Rounding = (&'static str, fn(f64) -> f64);

pub(super) const ROUNDINGS: &[Rounding] = &[
    ("rounded to TF32", |x| {
        let bits = (x as f32).to_bits();
        // Ten bits of fraction, to nearest even.
        f64::from(f32::from_bits(bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff))
    }),
    ("truncated to TF32", |x| cut(x, 10)),
    ("rounded to float16", |x| f16::from_f64(x).to_f64()),
    ("rounded to bfloat16", |x| nearest_bf16(x).to_f64()),
    ("truncated to bfloat16", |x| cut(x, 7)),
];

/// The number with only this many bits of its fraction.
pub(super) fn cut(x: f64, bits: u32) -> f64 {
    f64::from(f32::from_bits((x as f32).to_bits() & (u32::MAX << (23 - bits))))
}

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    // With one row, some bias would make any weight right.
    let rows = pair.actual.len() / pair.actual.width().max(1);
    if !pair.same_shape() || pair.bound.eps() == 0.0 || rows < 2 {
        return Vec::new();
    }
    let others = search.checkpoint.known;
    let fits =
        |input: &&KnownTensor| input.shape.last().is_some_and(|last| input.len() == last * rows && *last > 1);
    let inputs = others.before().iter().filter(fits).take(INPUTS);
    inputs.into_iter().find_map(|input| of_input(search, input, rows)).into_iter().collect()
}

fn of_input(search: &Search, input: &KnownTensor, rows: usize) -> Option<Explanation> {
    let others = search.checkpoint.known;
    let (width, inputs) = (search.pair.actual.width(), *input.shape.last()?);
    let weights = || others.weights().iter().filter(|weight| weight.shape == [width, inputs]);
    weights().next()?;
    let grid = Grid::new(search, input, rows, inputs)?;
    weights().find_map(|weight| {
        let layer = grid.layer(search, weight).filter(|layer| grid.is_golden(layer))?;
        rounded(&grid, &layer, input, weight).or_else(|| {
            let another = weights().filter(|other| other.name != weight.name);
            another.into_iter().find_map(|other| crossed(search, &grid, weight, other))
        })
    })
}

/// Some rows and some outputs of a layer, all combinations of them.
struct Grid<'a> {
    pair: SampledPair<'a>,
    /// The rows of the input, one after the other.
    x: Vec<f64>,
    outputs: Vec<usize>,
    inputs: usize,
}

/// The rows of the weight for the outputs of a grid.
struct Layer {
    w: Vec<f64>,
    /// Bias per output.
    bias: Vec<f64>,
}

impl<'a> Grid<'a> {
    fn new(search: &Search<'_, 'a>, input: &KnownTensor, rows: usize, inputs: usize) -> Option<Self> {
        let width = search.pair.actual.width();
        let spread = |count: usize, most: usize| -> Vec<usize> {
            let taken = count.min(most.max(1));
            (0..taken).map(|i| i * count / taken).collect()
        };
        let rows = spread(rows, ROWS);
        let outputs = spread(width, MOST_PRODUCTS / inputs / rows.len());
        let positions =
            rows.iter().flat_map(|row| outputs.iter().map(move |out| row * width + out)).collect();
        let tensor = search.tensor(input)?;
        let view = tensor.view();
        let numbers = Float64View::new(&view);
        let x = rows
            .iter()
            .flat_map(|row| (0..inputs).map(move |k| row * inputs + k))
            .map(|at| numbers.at(at))
            .collect();
        Some(Self { pair: search.pair.at(positions), x, outputs, inputs })
    }

    /// The layer with this weight, and with the bias that makes it equal the golden on average.
    fn layer(&self, search: &Search, weight: &KnownTensor) -> Option<Layer> {
        let tensor = search.tensor(weight)?;
        let view = tensor.view();
        let numbers = Float64View::new(&view);
        let row =
            |out: &usize| (0..self.inputs).map(|k| numbers.at(out * self.inputs + k)).collect::<Vec<f64>>();
        let first = row(self.outputs.first()?);
        // The difference of two rows is free of the bias, and enough to rule out most layers.
        let dot = |at: usize| (0..self.inputs).map(|k| self.x[at * self.inputs + k] * first[k]).sum::<f64>();
        let last = self.x.len() / self.inputs - 1;
        let difference = dot(last) - dot(0);
        let near = |values: &[f64]| {
            let found = values[last * self.outputs.len()] - values[0];
            (found - difference).abs()
                <= 0.05 * (found.abs() + difference.abs()) + 8.0 * self.pair.bound.typical()
        };
        if !near(&self.pair.e) && !near(&self.pair.a) {
            return None;
        }
        let w = self.outputs.iter().flat_map(row).collect();
        Some(self.biased(Layer { w, bias: vec![0.0; self.outputs.len()] }, &self.pair.e))
    }

    /// The layer with the bias that makes it equal these values on average.
    fn biased(&self, layer: Layer, values: &[f64]) -> Layer {
        let outputs = self.outputs.len();
        let mut sums = vec![0.0; outputs];
        for (index, value) in values.iter().enumerate() {
            sums[index % outputs] += value - self.at(&layer, index, |x| x, |w| w);
        }
        let rows = (values.len() / outputs) as f64;
        let bias = sums.iter().zip(&layer.bias).map(|(sum, bias)| sum / rows + bias).collect();
        Layer { bias, ..layer }
    }

    fn is_golden(&self, layer: &Layer) -> bool {
        is_golden(&self.pair, |index| self.at(layer, index, |x| x, |w| w))
    }

    /// One output, with `of_x` applied to the input and `of_w` to the weight.
    fn at(&self, layer: &Layer, index: usize, of_x: impl Fn(f64) -> f64, of_w: impl Fn(f64) -> f64) -> f64 {
        let (row, out) = (index / self.outputs.len(), index % self.outputs.len());
        let (x, w) =
            (&self.x[row * self.inputs..][..self.inputs], &layer.w[out * self.inputs..][..self.inputs]);
        x.iter().zip(w).map(|(x, w)| of_x(*x) * of_w(*w)).sum::<f64>() + layer.bias[out]
    }
}

/// The layer with its input, its weight or both rounded to a narrower format.
fn rounded(grid: &Grid, layer: &Layer, input: &KnownTensor, weight: &KnownTensor) -> Option<Explanation> {
    let own: fn(f64) -> f64 = |x| x;
    let (input, weight) = (&input.name, &weight.name);
    let tries = ROUNDINGS.iter().flat_map(|&(format, round)| {
        [
            (own, round, format!("the weight `{weight}` {format}")),
            (round, own, format!("`{input}` {format}")),
            (round, round, format!("both `{input}` and the weight `{weight}` {format}")),
        ]
    });
    tries.into_iter().find_map(|(of_x, of_w, what)| {
        let residual = grid.pair.explained(0, |index| grid.at(layer, index, of_x, of_w))?;
        let text = format!("the golden's layer with {what}, which is a loss of precision only");
        Some(Explanation::new(CauseKind::Rounded, 2, residual, text))
    })
}

/// The same layer with another weight and any bias.
fn crossed(search: &Search, grid: &Grid, weight: &KnownTensor, other: &KnownTensor) -> Option<Explanation> {
    let layer = grid.layer(search, other)?;
    let layer = grid.biased(layer, &grid.pair.a);
    let parameters = layer.bias.len();
    let residual = grid.pair.explained(parameters, |index| grid.at(&layer, index, |x| x, |w| w))?;
    let text = format!("the golden's layer with the weight `{}` in place of `{}`", other.name, weight.name);
    Some(Explanation::new(CauseKind::Crossed, 2, residual, text))
}
