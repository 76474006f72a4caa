//! A linear layer whose input and weight are known: rounded on the way, or made with another weight.

use half::f16;

use super::field::Field;
use super::function::is_golden;
use super::scene::{Other, Pair};
use super::{Found, Kind, Looked};
use crate::tensor::nearest_bf16;

/// So many tensors before are tried as the input.
const INPUTS: usize = 8;
/// Rows that are looked at, and most products that one try may take: of a large layer only some outputs are looked at.
const ROWS: usize = 16;
const MOST_PRODUCTS: usize = 1 << 20;

type Rounding = (&'static str, fn(f64) -> f64);

pub(super) const ROUNDINGS: &[Rounding] = &[
    ("rounded to TF32", |x| {
        let bits = (x as f32).to_bits();
        // Ten bits of fraction, to nearest even.
        f64::from(f32::from_bits(bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff))
    }),
    ("cut off to TF32", |x| cut(x, 10)),
    ("rounded to float16", |x| f16::from_f64(x).to_f64()),
    ("rounded to bfloat16", |x| nearest_bf16(x).to_f64()),
    ("cut off to bfloat16", |x| cut(x, 7)),
];

/// The number without what is behind so many bits of its fraction.
pub(super) fn cut(x: f64, bits: u32) -> f64 {
    f64::from(f32::from_bits((x as f32).to_bits() & (u32::MAX << (23 - bits))))
}

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    // With one row, any weight and some bias would do.
    let rows = pair.actual.len() / pair.actual.width().max(1);
    if !pair.same_shape() || pair.bar.eps() == 0.0 || rows < 2 {
        return Vec::new();
    }
    let others = looked.scene.others;
    let fits =
        |input: &&Other| input.shape.last().is_some_and(|last| input.len() == last * rows && *last > 1);
    let inputs = others.before().iter().filter(fits).take(INPUTS);
    inputs.into_iter().find_map(|input| of_input(looked, input, rows)).into_iter().collect()
}

fn of_input(looked: &Looked, input: &Other, rows: usize) -> Option<Found> {
    let others = looked.scene.others;
    let (width, inputs) = (looked.pair.actual.width(), *input.shape.last()?);
    let weights = || others.weights().iter().filter(|weight| weight.shape == [width, inputs]);
    weights().next()?;
    let grid = Grid::new(looked, input, rows, inputs)?;
    weights().find_map(|weight| {
        let layer = grid.layer(looked, weight).filter(|layer| grid.is_golden(layer))?;
        rounded(&grid, &layer, input, weight).or_else(|| {
            let another = weights().filter(|other| other.name != weight.name);
            another.into_iter().find_map(|other| crossed(looked, &grid, weight, other))
        })
    })
}

/// Some rows and some outputs of a layer, every row with every output.
struct Grid<'a> {
    pair: Pair<'a>,
    /// The input's rows, one after the other.
    x: Vec<f64>,
    outputs: Vec<usize>,
    inputs: usize,
}

/// The weight's rows for the outputs of a grid.
struct Layer {
    w: Vec<f64>,
    /// What is added to each output.
    bias: Vec<f64>,
}

impl<'a> Grid<'a> {
    fn new(looked: &Looked<'_, 'a>, input: &Other, rows: usize, inputs: usize) -> Option<Self> {
        let width = looked.pair.actual.width();
        let spread = |count: usize, most: usize| -> Vec<usize> {
            let taken = count.min(most.max(1));
            (0..taken).map(|i| i * count / taken).collect()
        };
        let rows = spread(rows, ROWS);
        let outputs = spread(width, MOST_PRODUCTS / inputs / rows.len());
        let positions =
            rows.iter().flat_map(|row| outputs.iter().map(move |out| row * width + out)).collect();
        let tensor = looked.tensor(input)?;
        let view = tensor.view();
        let field = Field::new(&view);
        let x = rows
            .iter()
            .flat_map(|row| (0..inputs).map(move |k| row * inputs + k))
            .map(|at| field.at(at))
            .collect();
        Some(Self { pair: looked.pair.at(positions), x, outputs, inputs })
    }

    /// The layer with that weight, and with the bias that makes it the golden on average.
    fn layer(&self, looked: &Looked, weight: &Other) -> Option<Layer> {
        let tensor = looked.tensor(weight)?;
        let view = tensor.view();
        let field = Field::new(&view);
        let row =
            |out: &usize| (0..self.inputs).map(|k| field.at(out * self.inputs + k)).collect::<Vec<f64>>();
        let first = row(self.outputs.first()?);
        // The difference of two rows has no bias in it, and tells most layers apart.
        let dot = |at: usize| (0..self.inputs).map(|k| self.x[at * self.inputs + k] * first[k]).sum::<f64>();
        let last = self.x.len() / self.inputs - 1;
        let difference = dot(last) - dot(0);
        let near = |values: &[f64]| {
            let found = values[last * self.outputs.len()] - values[0];
            (found - difference).abs()
                <= 0.05 * (found.abs() + difference.abs()) + 8.0 * self.pair.bar.typical()
        };
        if !near(&self.pair.e) && !near(&self.pair.a) {
            return None;
        }
        let w = self.outputs.iter().flat_map(row).collect();
        Some(self.biased(Layer { w, bias: vec![0.0; self.outputs.len()] }, &self.pair.e))
    }

    /// The layer with the bias that makes it these values on average.
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

    /// An output, with input and weight changed first.
    fn at(&self, layer: &Layer, index: usize, of_x: impl Fn(f64) -> f64, of_w: impl Fn(f64) -> f64) -> f64 {
        let (row, out) = (index / self.outputs.len(), index % self.outputs.len());
        let (x, w) =
            (&self.x[row * self.inputs..][..self.inputs], &layer.w[out * self.inputs..][..self.inputs]);
        x.iter().zip(w).map(|(x, w)| of_x(*x) * of_w(*w)).sum::<f64>() + layer.bias[out]
    }
}

/// Input, weight or both rounded to a narrower format.
fn rounded(grid: &Grid, layer: &Layer, input: &Other, weight: &Other) -> Option<Found> {
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
        let text = format!("what the layer makes of {what}: precision, not structure");
        Some(Found::new(Kind::Rounded, 2, residual, text))
    })
}

/// The same layer with another weight, and with the bias of the one or of the other.
fn crossed(looked: &Looked, grid: &Grid, weight: &Other, other: &Other) -> Option<Found> {
    let layer = grid.layer(looked, other)?;
    let layer = grid.biased(layer, &grid.pair.a);
    let parameters = layer.bias.len();
    let residual = grid.pair.explained(parameters, |index| grid.at(&layer, index, |x| x, |w| w))?;
    let text = format!("what the layer makes with the weight `{}` in place of `{}`", other.name, weight.name);
    Some(Found::new(Kind::Crossed, 2, residual, text))
}
