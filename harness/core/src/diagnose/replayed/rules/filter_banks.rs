//! Another mel filter bank: on another scale, with or without its norm, for other frequencies.
//!
//! A filter bank is recognised by its numbers, so that it does not matter whether the reference computes or loads it.

use std::fmt;

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Leaf, Op, Product};
use crate::replay::{Array, Change};

/// The fewest frequencies and filters of a bank.
const FEWEST: usize = 4;
/// The most numbers of a bank.
const MOST: usize = 1 << 20;
/// How far the numbers of a bank may be from their formula, as a share of the largest one: the rounding of float32.
const NEAR: f64 = 2e-5;
/// Numbers that are compared first.
const SAMPLE: usize = 16;

const RATES: [f64; 7] = [16000.0, 22050.0, 24000.0, 44100.0, 48000.0, 8000.0, 32000.0];
const LOWEST: [f64; 8] = [0.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 125.0];
/// Highest frequencies besides half the sample rate.
const HIGHEST: [f64; 10] =
    [8000.0, 7600.0, 4000.0, 3800.0, 11025.0, 7000.0, 10000.0, 11000.0, 12000.0, 16000.0];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let factors: Vec<usize> = match stage.op(node) {
        Op::Product(Product::Matmul | Product::Linear | Product::Einsum { .. }) => {
            stage.operands(node).map(|(_, operand)| operand).collect()
        }
        _ => Vec::new(),
    };
    let own = (node == stage.target).then_some(node);
    factors.into_iter().chain(own).flat_map(|at| of_value(stage, at)).collect()
}

/// Other filter banks in place of a node, if its value is one.
fn of_value(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some(value) = stage.value(node) else { return Vec::new() };
    let Some(own) = recognised(&value) else { return Vec::new() };
    (own.others().into_iter())
        .map(|other| {
            let table = Leaf::Table { shape: value.shape().to_vec(), numbers: other.numbers().into() };
            let change = Change::node(node, Op::Leaf(table), Vec::new());
            Candidate::new(CauseKind::FilterBank, 1, change, format!("{other} in place of {own}"))
        })
        .collect()
}

/// The filter bank with these numbers.
fn recognised(value: &Array) -> Option<Bank> {
    let &[rows, columns] = value.shape() else { return None };
    let numbers = value.values();
    if rows < FEWEST || columns < FEWEST || numbers.len() > MOST || value.is_complex() {
        return None;
    }
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    let zeros = numbers.iter().filter(|number| **number == 0.0).count();
    // Filters overlap with their neighbours only.
    if largest <= 0.0 || zeros < numbers.len() / 4 || numbers.iter().any(|number| *number < 0.0) {
        return None;
    }
    let is_near = |bank: &Bank, at: usize| (bank.number(at) - numbers[at]).abs() <= NEAR * largest;
    let positive: Vec<usize> = (0..numbers.len()).filter(|at| numbers[*at] > 0.0).collect();
    let sample: Vec<usize> =
        positive.iter().copied().step_by(positive.len().div_ceil(SAMPLE).max(1)).collect();
    let shapes = [(rows, columns, false), (columns, rows, true)];
    let all = shapes.into_iter().flat_map(|(bins, filters, is_turned)| Bank::all(bins, filters, is_turned));
    all.filter(|bank| sample.iter().all(|at| is_near(bank, *at)))
        .find(|bank| (0..numbers.len()).all(|at| is_near(bank, at)))
}

/// How frequencies become mels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Logarithmic: `2595 log10(1 + f / 700)`.
    Htk,
    /// Linear up to 1000 Hz, then logarithmic.
    Slaney,
}

impl Scale {
    fn mel(self, hertz: f64) -> f64 {
        match self {
            Self::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            Self::Slaney if hertz < 1000.0 => 3.0 * hertz / 200.0,
            Self::Slaney => 15.0 + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln(),
        }
    }

    fn hertz(self, mel: f64) -> f64 {
        match self {
            Self::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            Self::Slaney if mel < 15.0 => 200.0 * mel / 3.0,
            Self::Slaney => 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp(),
        }
    }
}

/// Triangular filters for frequencies from 0 to half the sample rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bank {
    bins: usize,
    filters: usize,
    /// Whether the filters are the rows.
    is_turned: bool,
    rate: f64,
    lowest: f64,
    highest: f64,
    scale: Scale,
    /// Whether each filter is divided by half its width, as Slaney does it.
    has_norm: bool,
    /// Whether filters are triangles over mels, not over frequencies.
    over_mels: bool,
}

impl Bank {
    fn all(bins: usize, filters: usize, is_turned: bool) -> impl Iterator<Item = Self> {
        let ranges = RATES.into_iter().flat_map(|rate| {
            let highest =
                [rate / 2.0].into_iter().chain(HIGHEST.into_iter().filter(move |high| *high < rate / 2.0));
            highest.flat_map(move |high| LOWEST.into_iter().map(move |low| (rate, low, high)))
        });
        ranges.flat_map(move |(rate, lowest, highest)| {
            let kinds = [Scale::Slaney, Scale::Htk].into_iter().flat_map(|scale| {
                [(true, false), (false, false), (false, true), (true, true)]
                    .map(|(norm, mels)| (scale, norm, mels))
            });
            kinds.map(move |(scale, has_norm, over_mels)| Self {
                bins,
                filters,
                is_turned,
                rate,
                lowest,
                highest,
                scale,
                has_norm,
                over_mels,
            })
        })
    }

    /// Banks that a port may have in place of this one. Scale and norm may both differ, because libraries pair them.
    fn others(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for scale in [Scale::Htk, Scale::Slaney] {
            for has_norm in [true, false] {
                found.push(Self { scale, has_norm, ..*self });
            }
        }
        found.push(Self { over_mels: !self.over_mels, ..*self });
        found.extend(LOWEST.map(|lowest| Self { lowest, ..*self }));
        let highest = HIGHEST.into_iter().chain([self.rate / 2.0]).filter(|high| *high <= self.rate / 2.0);
        found.extend(highest.map(|highest| Self { highest, ..*self }));
        for rate in RATES {
            found.push(Self { rate, ..*self });
            // The highest frequency often follows from the rate.
            if self.highest == self.rate / 2.0 {
                found.push(Self { rate, highest: rate / 2.0, ..*self });
            }
        }
        found.retain(|other| other != self);
        found
    }

    /// The edges of a filter: where it starts, its peak, and where it ends.
    fn edges(&self, filter: usize) -> [f64; 3] {
        let (from, to) = (self.scale.mel(self.lowest), self.scale.mel(self.highest));
        [0, 1, 2].map(|edge| {
            let mel = from + (to - from) * (filter + edge) as f64 / (self.filters + 1) as f64;
            self.scale.hertz(mel)
        })
    }

    fn weight(&self, hertz: f64, edges: [f64; 3]) -> f64 {
        let [start, peak, end] = if self.over_mels { edges.map(|edge| self.scale.mel(edge)) } else { edges };
        let at = if self.over_mels { self.scale.mel(hertz) } else { hertz };
        let triangle = ((at - start) / (peak - start)).min((end - at) / (end - peak)).max(0.0);
        if self.has_norm { triangle * 2.0 / (edges[2] - edges[0]) } else { triangle }
    }

    /// The number at a position in row-major order.
    fn number(&self, at: usize) -> f64 {
        let (filter, bin) = match self.is_turned {
            true => (at / self.bins, at % self.bins),
            false => (at % self.filters, at / self.filters),
        };
        self.weight(self.hertz(bin), self.edges(filter))
    }

    fn hertz(&self, bin: usize) -> f64 {
        bin as f64 * self.rate / 2.0 / (self.bins - 1) as f64
    }

    fn numbers(&self) -> Vec<f64> {
        let edges: Vec<[f64; 3]> = (0..self.filters).map(|filter| self.edges(filter)).collect();
        let of = |bin: usize, filter: usize| self.weight(self.hertz(bin), edges[filter]);
        match self.is_turned {
            true => (0..self.filters)
                .flat_map(|filter| (0..self.bins).map(move |bin| (bin, filter)))
                .map(|(b, f)| of(b, f))
                .collect(),
            false => (0..self.bins)
                .flat_map(|bin| (0..self.filters).map(move |filter| (bin, filter)))
                .map(|(b, f)| of(b, f))
                .collect(),
        }
    }
}

impl fmt::Display for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = match self.scale {
            Scale::Htk => "HTK",
            Scale::Slaney => "Slaney",
        };
        let norm = if self.has_norm { "with Slaney's norm" } else { "without norm" };
        let (low, high, rate) = (Short(self.lowest), Short(self.highest), Short(self.rate));
        write!(f, "{} filters on the {scale} scale {norm}, {low} to {high} Hz of {rate} Hz", self.filters)?;
        if self.over_mels { f.write_str(", as triangles over mels") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(scale: Scale, has_norm: bool, is_turned: bool) -> Bank {
        let (lowest, highest) = (0.0, 8000.0);
        Bank {
            bins: 201,
            filters: 80,
            is_turned,
            rate: 16000.0,
            lowest,
            highest,
            scale,
            has_norm,
            over_mels: false,
        }
    }

    #[test]
    fn banks_are_recognised_by_their_numbers() {
        for scale in [Scale::Htk, Scale::Slaney] {
            for (has_norm, is_turned) in [(true, false), (false, true)] {
                let own = bank(scale, has_norm, is_turned);
                let shape = if is_turned { vec![80, 201] } else { vec![201, 80] };
                assert_eq!(recognised(&Array::new(shape, own.numbers()).unwrap()), Some(own), "{own}");
            }
        }
    }

    #[test]
    fn other_matrices_are_no_banks() {
        let eye = (0..64).map(|at| if at % 9 == 0 { 1.0 } else { 0.0 }).collect();
        for numbers in [eye, vec![0.0; 64], (0..64).map(f64::from).collect(), vec![1.0; 64]] {
            assert_eq!(recognised(&Array::new(vec![8, 8], numbers).unwrap()), None);
        }
    }

    // As printed by transformers.audio_utils.hertz_to_mel.
    #[test]
    fn scales_are_those_of_the_libraries() {
        for (scale, hertz, mel) in [
            (Scale::Htk, 440.0, 549.638_675_381_149_9),
            (Scale::Slaney, 440.0, 6.6),
            (Scale::Slaney, 4000.0, 35.163_760_314_616_646),
        ] {
            assert!((scale.mel(hertz) - mel).abs() < 1e-9, "{scale:?} {hertz}: {}", scale.mel(hertz));
            assert!((scale.hertz(mel) - hertz).abs() < 1e-9, "{scale:?} {mel}");
        }
    }
}
