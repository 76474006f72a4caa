//! A linear layer whose input and weight are known: rounded on the way, or made with another weight.

use half::f16;

use super::field::Field;
use super::function::is_golden;
use super::scene::{Other, Pair};
use super::{Found, Kind, Looked};
use crate::tensor::nearest_bf16;

/// So many tensors before are tried as the input.
const INPUTS: usize = 8;
/// Most products that one try may take; of a larger layer fewer elements are looked at.
const MOST_PRODUCTS: usize = 1 << 22;

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
    if !pair.same_shape() || pair.bar.eps() == 0.0 || pair.shape().is_empty() {
        return Vec::new();
    }
    let width = pair.actual.width();
    let rows = pair.actual.len() / width;
    let others = looked.scene.others;
    let fits =
        |input: &&Other| input.shape.last().is_some_and(|last| input.len() == last * rows && *last > 1);
    let weights =
        |inputs: usize| others.weights().iter().filter(move |weight| weight.shape == [width, inputs]);
    others
        .before()
        .iter()
        .filter(fits)
        .take(INPUTS)
        .find_map(|input| {
            let inputs = *input.shape.last()?;
            let x = others.tensor(input)?;
            let view = x.view();
            let x = Field::new(&view);
            let part = pair.part(MOST_PRODUCTS / inputs);
            weights(inputs).find_map(|weight| {
                let w = others.tensor(weight)?;
                let layer = Layer::of_golden(&part, &x, &Field::new(&w.view()), inputs)?;
                rounded(&part, &layer, input, weight).or_else(|| {
                    weights(inputs)
                        .filter(|other| other.name != weight.name)
                        .find_map(|other| crossed(looked, &part, &layer, weight, other))
                })
            })
        })
        .into_iter()
        .collect()
}

/// A linear layer that makes the golden: the rows of input and weight that each sampled element is made of.
struct Layer {
    inputs: usize,
    /// The input's rows, one after the other, and the weight's.
    x: Vec<f64>,
    w: Vec<f64>,
    /// What is added to each output.
    bias: Vec<f64>,
}

impl Layer {
    /// The layer with that input and weight and whatever bias is left, if the golden is what it makes.
    fn of_golden(pair: &Pair, x: &Field, w: &Field, inputs: usize) -> Option<Self> {
        let width = pair.actual.width();
        let values = |field: &Field| (0..field.len()).map(|at| field.at(at)).collect::<Vec<f64>>();
        // A few products tell most layers apart.
        let first = pair.positions.first()?;
        let last = first / width * width + width - 1;
        let rows = pair.actual.len() / width;
        let gap = |row: usize| {
            let position = row * width + last % width;
            let dot: f64 =
                (0..inputs).map(|k| x.at(row * inputs + k) * w.at(last % width * inputs + k)).sum();
            pair.expected.at(position) - dot
        };
        let (one, two) = (gap(0), gap(rows - 1));
        if rows > 1 && (one - two).abs() > 1e-2 * (one.abs() + two.abs() + pair.bar.typical()) {
            return None;
        }
        let mut layer = Self { inputs, x: values(x), w: values(w), bias: vec![0.0; width] };
        let (mut sums, mut counts) = (vec![0.0; width], vec![0.0; width]);
        for (index, &position) in pair.positions.iter().enumerate() {
            sums[position % width] += pair.e[index] - layer.at(position, |x| x, |w| w);
            counts[position % width] += 1.0;
        }
        layer.bias = sums.iter().zip(&counts).map(|(sum, n)| if *n > 0.0 { sum / n } else { 0.0 }).collect();
        // With one row, any weight and some bias would do.
        (rows >= 2 && is_golden(pair, |index| layer.at(pair.positions[index], |x| x, |w| w))).then_some(layer)
    }

    /// The output at a position, with input and weight changed first.
    fn at(&self, position: usize, of_x: impl Fn(f64) -> f64, of_w: impl Fn(f64) -> f64) -> f64 {
        let width = self.bias.len();
        let (row, out) = (position / width * self.inputs, position % width * self.inputs);
        let products = (0..self.inputs).map(|k| of_x(self.x[row + k]) * of_w(self.w[out + k]));
        products.sum::<f64>() + self.bias[position % width]
    }
}

/// Input, weight or both rounded to a narrower format.
fn rounded(pair: &Pair, layer: &Layer, input: &Other, weight: &Other) -> Option<Found> {
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
        let residual = pair.explained(0, |index| layer.at(pair.positions[index], of_x, of_w))?;
        let text = format!("what the layer makes of {what}: precision, not structure");
        Some(Found::new(Kind::Rounded, 2, residual, text))
    })
}

/// The same layer with another weight, and with the bias of the one or of the other.
fn crossed(looked: &Looked, pair: &Pair, layer: &Layer, weight: &Other, other: &Other) -> Option<Found> {
    let tensor = looked.scene.others.tensor(other)?;
    let view = tensor.view();
    let field = Field::new(&view);
    let w: Vec<f64> = (0..field.len()).map(|at| field.at(at)).collect();
    let width = layer.bias.len();
    let other_layer = Layer { inputs: layer.inputs, x: layer.x.clone(), w, bias: layer.bias.clone() };
    let own = |index: usize| other_layer.at(pair.positions[index], |x| x, |w| w);
    // The other's own bias is what is left of the actual, the same in each row.
    let (mut sums, mut counts) = (vec![0.0; width], vec![0.0; width]);
    for (index, &position) in pair.positions.iter().enumerate() {
        sums[position % width] += pair.a[index] - own(index);
        counts[position % width] += 1.0;
    }
    let more = |position: usize| sums[position % width] / f64::max(counts[position % width], 1.0);
    let residual = pair
        .explained(0, own)
        .or_else(|| pair.explained(width, |index| own(index) + more(pair.positions[index])))?;
    let text = format!("what the layer makes with the weight `{}` in place of `{}`", other.name, weight.name);
    Some(Found::new(Kind::Crossed, 2, residual, text))
}
