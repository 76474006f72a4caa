//! The systematic part of an error: a factor or an offset that rounding does not explain, even if the error is small.
//!
//! Rounding errors point in all directions, so a factor fitted to `n` of them is about `sqrt(n)` times smaller than they are.
//! A wrong constant moves every element the same way. Its error stays visible in the fit far below the value gate.

use serde::{Deserialize, Serialize};

use super::BLOCK;
use super::element::Element;
use super::spans::Blocks;
use super::totals::counted;
use crate::number::{self, Short, percent};
use crate::tensor::{Dtype, TensorView};

/// Elements that are used whole. A larger tensor is sampled in [`RANGES`] ranges.
const WHOLE: usize = RANGES * BLOCK;
/// Ranges of a sampled tensor, of one block each.
const RANGES: usize = 256;
/// The longest last axis with a factor per index.
const MOST_CHANNELS: usize = 4096;
/// Elements per fitted number. With fewer, a fit follows the noise.
const PER_NUMBER: u64 = 16;

/// Errors below this many floors are not searched.
pub(super) const SEARCHED: f64 = 1.0;
/// The least share of the error's energy in a clear part.
const LEAST_SHARE: f64 = 0.6;
/// The least `z` of a clear part. It keeps small tensors out and proves little alone: a norm rounds one number per token, so
/// errors of right ports are not independent, and their `z` reaches 39.
const LEAST_Z: f64 = 16.0;

/// The least size of a clear part in floors, at least four times the largest of right ports.
///
/// Over the bundled specs, right ports have factors of up to 1.08 floors in float32 and 0.57 in bfloat16, offsets of 0.67 and
/// 0.30, and factors per channel of 1.41 and 0.47. `None` for dtypes in which no right ports were counted.
fn least_size(kind: SystematicKind, dtype: Dtype) -> Option<f64> {
    match (dtype, kind) {
        (Dtype::Float32, SystematicKind::Factor | SystematicKind::Offset) => Some(4.5),
        (Dtype::Float32, SystematicKind::ChannelFactor) => Some(6.0),
        (Dtype::Bfloat16, _) => Some(2.5),
        _ => None,
    }
}

/// The part of an error that is a multiple of the golden, or a constant.
///
/// The fit is by least squares over pairs that are finite on both sides and whose golden is below 1e30. A tensor of more than
/// a million elements is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Systematic {
    /// The form of the part.
    pub kind: SystematicKind,
    /// The fitted number, such as -0.01 for an actual that is 1 % too small. With several numbers, their root mean square,
    /// weighted by the golden's energy.
    #[serde(with = "number")]
    pub value: f64,
    /// The explained share of the sum of squared errors.
    #[serde(with = "number")]
    pub share: f64,
    /// The root mean square of the part, in multiples of the floor.
    #[serde(with = "number")]
    pub times_floor: f64,
    /// `times_floor * sqrt(n / numbers)`: about 1 for independent rounding errors of the size of the floor.
    #[serde(with = "number")]
    pub z: f64,
    /// Whether rounding cannot explain the part. It then is at least 60 % of the error's energy, and `z` is at least 16. In
    /// float32 it is at least 4.5 floors, 6 with a factor per channel, and in bfloat16 2.5 floors. Other dtypes have no clear
    /// parts, because no right ports were counted.
    pub clear: bool,
}

/// The form of the systematic part of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystematicKind {
    /// The golden times a number.
    Factor,
    /// A constant.
    Offset,
    /// The golden times a number per index of the last axis.
    ChannelFactor,
}

impl Systematic {
    /// Finds the systematic part of `actual - expected`: the kind with the fewest numbers that is clear, else the one with
    /// the largest z. `unit` is the floor's root mean square. `None` when nothing can be fitted.
    pub(super) fn find<T: Element>(expected: &TensorView, actual: &TensorView, unit: f64) -> Option<Self> {
        if T::PARTS != 1 || unit <= 0.0 || !unit.is_finite() {
            return None;
        }
        let fits = Sums::of::<T>(expected, actual).fits(unit, expected.dtype());
        let clear = fits.iter().find(|fit| fit.clear);
        clear.or_else(|| fits.iter().max_by(|a, b| a.z.total_cmp(&b.z))).copied()
    }

    /// The part in words: what it is, how large, and how much of the error.
    pub(super) fn text(&self) -> String {
        let (sign, size) = (if self.value < 0.0 { '-' } else { '+' }, Short(self.value.abs()));
        let what = match self.kind {
            SystematicKind::Factor => format!("the actual is the golden times (1 {sign} {size})"),
            SystematicKind::Offset => format!("the actual is the golden {sign} {size}"),
            SystematicKind::ChannelFactor => {
                format!(
                    "each channel of the actual is the golden times a factor of its own, off by {size} (rms)"
                )
            }
        };
        let (times, share, z) = (Short(self.times_floor), percent(self.share), Short(self.z));
        format!("{what}: {times}x the floor, {share} of the error, {z} standard deviations of rounding")
    }
}

/// `x / y`, and 0 without anything to divide by.
fn over(x: f64, y: f64) -> f64 {
    if y > 0.0 { x / y } else { 0.0 }
}

/// The sums of all fits.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    error: f64,
    error_squares: f64,
    factor: Regression,
    channels: Vec<Regression>,
}

/// The sums of a fit of `error = number * golden`.
#[derive(Debug, Clone, Copy, Default)]
struct Regression {
    products: f64,
    squares: f64,
}

impl Regression {
    #[inline(always)]
    fn add(&mut self, golden: f64, error: f64) {
        self.products += golden * error;
        self.squares += golden * golden;
    }

    /// The energy of the fitted part.
    fn explained(&self) -> f64 {
        if self.squares > 0.0 { self.products * self.products / self.squares } else { 0.0 }
    }
}

impl Sums {
    fn of<T: Element>(expected: &TensorView, actual: &TensorView) -> Self {
        let (len, last) = (expected.len(), expected.shape().last().copied().unwrap_or(1));
        let by_channel = (2..=MOST_CHANNELS).contains(&last) && len / last >= PER_NUMBER as usize;
        let channels = if by_channel { vec![Regression::default(); last] } else { Vec::new() };
        let mut sums = Self { channels, ..Self::default() };
        let (expected, actual) = (Blocks::<T>::new(expected), Blocks::<T>::new(actual));
        let (mut e, mut a) = (Vec::new(), Vec::new());
        let step = if len <= WHOLE { BLOCK } else { len / RANGES };
        for start in (0..len).step_by(step) {
            let range = start..(start + BLOCK).min(len);
            sums.push(expected.get(range.clone(), &mut e), actual.get(range, &mut a), start);
        }
        sums
    }

    fn push<T: Element>(&mut self, expected: &[T], actual: &[T], first: usize) {
        let last = self.channels.len();
        let mut channel = if last > 0 { first % last } else { 0 };
        for (&e, &a) in expected.iter().zip(actual) {
            if counted(e, a) {
                let (golden, error) = (e.number(), a.number() - e.number());
                self.count += 1;
                self.error += error;
                self.error_squares += error * error;
                self.factor.add(golden, error);
                if let Some(sums) = self.channels.get_mut(channel) {
                    sums.add(golden, error);
                }
            }
            channel += 1;
            if channel == last {
                channel = 0;
            }
        }
    }

    /// One fit per kind that has enough elements, fewest numbers first.
    fn fits(&self, unit: f64, dtype: Dtype) -> Vec<Systematic> {
        let n = self.count as f64;
        let fit = |kind, value: f64, explained: f64, numbers: usize| {
            let times_floor = (explained / n).sqrt() / unit;
            let share = over(explained, self.error_squares).min(1.0);
            let z = times_floor * (n / numbers as f64).sqrt();
            let clear = least_size(kind, dtype).is_some_and(|least| times_floor >= least)
                && share >= LEAST_SHARE
                && z >= LEAST_Z;
            let fit = Systematic { kind, value, share, times_floor, z, clear };
            let numbers_are_few = numbers > 0 && self.count >= PER_NUMBER * numbers as u64;
            (numbers_are_few && fit.z.is_finite() && fit.value.is_finite()).then_some(fit)
        };
        let factor = self.factor.explained();
        let of_channels: f64 = self.channels.iter().map(Regression::explained).sum();
        let value = over(self.factor.products, self.factor.squares);
        [
            fit(SystematicKind::Factor, value, factor, 1),
            fit(SystematicKind::Offset, self.error / n, self.error * self.error / n, 1),
            fit(
                SystematicKind::ChannelFactor,
                over(of_channels, self.factor.squares).sqrt(),
                of_channels,
                self.channels.len(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
