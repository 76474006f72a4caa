//! Rotary embeddings: which features are pairs, which way, from which position and by which base they are turned.
//!
//! Where the rotated tensor is the tap, its input before tells the angles: a rotation keeps the length of each pair, which
//! also tells which features are pairs. Tables of cosines and sines are looked at in `rope_table.rs`.

use std::ops::{Add, Mul};

use super::field::{Field, row_major};
use super::residual::Prediction;
use super::scene::Pair;
use super::{Found, Kind, Looked, rope_input, rope_table};
use crate::compare::number::Short;

/// Positions that a sequence may begin at.
const MOST_POSITIONS: u32 = 1 << 14;
/// Rows that angles are averaged over.
const ROWS: usize = 128;

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    let width = pair.actual.width();
    if !pair.same_shape() || pair.bar.eps() == 0.0 || width < 4 && pair.shape().len() < 2 {
        return Vec::new();
    }
    let turned = || {
        rope_input::inputs(looked).find_map(|(name, tensor)| {
            let view = tensor.view();
            turned(pair, &Field::new(&view), &name)
        })
    };
    rope_table::look(looked).or_else(turned).into_iter().collect()
}

/// A pair of features as a number in the plane.
#[derive(Clone, Copy)]
struct Complex(f64, f64);

impl Complex {
    fn conj(self) -> Self {
        Self(self.0, -self.1)
    }

    fn square(self) -> f64 {
        self.0 * self.0 + self.1 * self.1
    }

    fn unit(self) -> Self {
        let size = self.square().sqrt();
        if size > 0.0 { Self(self.0 / size, self.1 / size) } else { Self(1.0, 0.0) }
    }

    fn angle(self) -> f64 {
        self.1.atan2(self.0)
    }

    fn of_angle(angle: f64) -> Self {
        Self(angle.cos(), angle.sin())
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0, self.1 + other.1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pairs {
    /// Feature `f` with feature `f + width / 2`.
    Halves,
    /// Feature `2 f` with feature `2 f + 1`.
    Interleaved,
}

impl Pairs {
    fn words(self) -> &'static str {
        match self {
            Self::Halves => "halves",
            Self::Interleaved => "interleaved pairs",
        }
    }

    /// The features of pair `f`.
    fn features(self, f: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Halves => (f, f + width / 2),
            Self::Interleaved => (2 * f, 2 * f + 1),
        }
    }

    /// The pair of a feature, and whether it is its second.
    fn pair(self, feature: usize, width: usize) -> (usize, bool) {
        match self {
            Self::Halves => (feature % (width / 2), feature >= width / 2),
            Self::Interleaved => (feature / 2, feature % 2 == 1),
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Halves => Self::Interleaved,
            Self::Interleaved => Self::Halves,
        }
    }
}

/// Where in the input the row of the golden with that number begins.
type Start<'p> = Box<dyn Fn(usize) -> usize + 'p>;

/// Golden, actual and input of a rotation, by rows of features.
struct Turn<'p, 'a, 'f> {
    pair: &'p Pair<'a>,
    x: &'p Field<'f>,
    start: Start<'p>,
    width: usize,
}

impl Turn<'_, '_, '_> {
    fn input(&self, row: usize, pairs: Pairs, f: usize) -> Complex {
        let (one, two) = pairs.features(f, self.width);
        let start = (self.start)(row);
        Complex(self.x.at(start + one), self.x.at(start + two))
    }

    fn golden(&self, row: usize, pairs: Pairs, f: usize) -> Complex {
        let (one, two) = pairs.features(f, self.width);
        Complex(self.pair.expected.at(row * self.width + one), self.pair.expected.at(row * self.width + two))
    }

    fn actual(&self, row: usize, pairs: Pairs, f: usize) -> Complex {
        let (one, two) = pairs.features(f, self.width);
        Complex(self.pair.actual.at(row * self.width + one), self.pair.actual.at(row * self.width + two))
    }

    /// What turns the input's pair into the golden's.
    fn turn(&self, row: usize, pairs: Pairs, f: usize) -> Complex {
        (self.golden(row, pairs, f) * self.input(row, pairs, f).conj()).unit()
    }

    fn rows(&self) -> usize {
        self.pair.actual.len() / self.width
    }

    /// Some rows from all over, with every pair in each.
    fn some(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let step = self.rows().div_ceil(ROWS);
        (0..self.rows()).step_by(step).flat_map(|row| (0..self.width / 2).map(move |f| (row, f)))
    }

    /// Whether pairs keep their length from the input to the golden, and are turned at all.
    fn is_rotation(&self, pairs: Pairs) -> bool {
        let (mut gap, mut turned, mut size) = (0.0, 0.0, 0.0);
        for (row, f) in self.some() {
            let (x, e) = (self.input(row, pairs, f), self.golden(row, pairs, f));
            gap += (e.square() - x.square()).powi(2);
            turned += (e.0 - x.0).powi(2) + (e.1 - x.1).powi(2);
            size += x.square().powi(2);
        }
        let tolerance = (4.0 * self.pair.bar.eps()).clamp(1e-5, 3e-2);
        gap <= size * tolerance.powi(2) && turned > size.sqrt() * tolerance
    }

    /// The element that a sampled index has in a row of pairs turned by `turn`.
    fn predicted(
        &self,
        index: usize,
        pairs: Pairs,
        turn: impl Fn(usize, usize) -> Option<Complex>,
    ) -> Prediction {
        let position = self.pair.positions[index];
        let (row, feature) = (position / self.width, position % self.width);
        let (f, second) = pairs.pair(feature, self.width);
        match turn(row, f) {
            Some(turn) => {
                let Complex(one, two) = self.input(row, pairs, f) * turn;
                Prediction::Value(if second { two } else { one })
            }
            None => Prediction::Silent,
        }
    }

    /// The row that is `step` further along `axis`, if there is one.
    fn along(&self, row: usize, axis: usize, step: isize) -> Option<usize> {
        let shape = &self.pair.shape()[..self.pair.shape().len() - 1];
        let stride = row_major(shape)[axis];
        let at = (row / stride % shape[axis]) as isize + step;
        (0..shape[axis] as isize).contains(&at).then(|| (row as isize + step * stride as isize) as usize)
    }
}

fn turned(pair: &Pair, x: &Field, name: &str) -> Option<Found> {
    let width = pair.actual.width();
    if width < 4 || width % 2 == 1 || x.width() != width {
        return None;
    }
    let starts = starts(pair.shape(), x.shape())?;
    starts.into_iter().find_map(|start| {
        let turn = Turn { pair, x, start, width };
        let pairs = [Pairs::Halves, Pairs::Interleaved].into_iter().find(|&pairs| turn.is_rotation(pairs))?;
        wrong_pairs(&turn, pairs, name)
            .or_else(|| wrong_way(&turn, pairs, name))
            .or_else(|| twice(&turn, pairs, name))
            .or_else(|| wrong_position(&turn, pairs, name))
            .or_else(|| wrong_base(&turn, pairs, name))
    })
}

/// How a row of the golden is found in the input: as it lies, or with two axes exchanged, as heads and tokens are.
fn starts<'p>(golden: &'p [usize], input: &'p [usize]) -> Option<Vec<Start<'p>>> {
    let width = *golden.last()?;
    let mut found: Vec<Start> = Vec::new();
    if golden == input {
        found.push(Box::new(move |row| row * width));
    }
    let rows = &golden[..golden.len() - 1];
    for (p, q) in (0..rows.len()).flat_map(|p| (p + 1..rows.len()).map(move |q| (p, q))) {
        let mut swapped = golden.to_vec();
        swapped.swap(p, q);
        if swapped != input || golden == input {
            continue;
        }
        let mut strides = row_major(&swapped);
        strides.swap(p, q);
        let lengths = rows.to_vec();
        found.push(Box::new(move |row| {
            let (mut rest, mut place) = (row, 0);
            for (&length, &stride) in lengths.iter().zip(&strides).rev() {
                place += rest % length * stride;
                rest /= length;
            }
            place
        }));
    }
    Some(found)
}

fn wrong_pairs(turn: &Turn, pairs: Pairs, name: &str) -> Option<Found> {
    let other = pairs.other();
    let width = turn.width;
    let text = |more: &str| {
        format!("`{name}` rotated as {}, where the golden rotates {}{more}", other.words(), pairs.words())
    };
    let clean = turn
        .pair
        .explained_where(0, |index| turn.predicted(index, other, |row, f| Some(turn.turn(row, pairs, f))));
    if let Some(residual) = clean {
        return Some(Found::new(Kind::RopePairs, 1, residual, text("")));
    }
    // The pairs of one kind with the table of the other: cosine and sine go by the feature's own place.
    for (by, table, more) in
        [(other, pairs, ""), (pairs, other, ": its angles alone are those of the other kind")]
    {
        let residual = turn.pair.explained(0, |index| {
            let position = turn.pair.positions[index];
            let (row, feature) = (position / width, position % width);
            let (f, second) = by.pair(feature, width);
            let Complex(one, two) = turn.input(row, by, f);
            let Complex(cos, sin) = turn.turn(row, pairs, table.pair(feature, width).0);
            if second { two * cos + one * sin } else { one * cos - two * sin }
        });
        if let Some(residual) = residual {
            return Some(Found::new(Kind::RopePairs, 1, residual, text(more)));
        }
    }
    None
}

fn wrong_way(turn: &Turn, pairs: Pairs, name: &str) -> Option<Found> {
    let residual = turn.pair.explained_where(0, |index| {
        turn.predicted(index, pairs, |row, f| Some(turn.turn(row, pairs, f).conj()))
    })?;
    Some(Found::new(Kind::RopeSign, 1, residual, format!("`{name}` rotated by the opposite angles")))
}

fn twice(turn: &Turn, pairs: Pairs, name: &str) -> Option<Found> {
    let residual = turn.pair.explained_where(0, |index| {
        turn.predicted(index, pairs, |row, f| Some(turn.turn(row, pairs, f) * turn.turn(row, pairs, f)))
    })?;
    Some(Found::new(Kind::ExecutedTwice, 1, residual, format!("`{name}` rotated twice")))
}

fn wrong_position(turn: &Turn, pairs: Pairs, name: &str) -> Option<Found> {
    let axes = turn.pair.shape().len() - 1;
    let steps = [1, -1, 2, -2].into_iter().flat_map(|step| (0..axes).map(move |axis| (step, axis)));
    let shifted = steps.into_iter().find_map(|(step, axis)| {
        let residual = turn.pair.explained_where(0, |index| {
            turn.predicted(index, pairs, |row, f| Some(turn.turn(turn.along(row, axis, step)?, pairs, f)))
        })?;
        let text = format!("`{name}` rotated as if positions along axis {axis} were {step:+}");
        Some(Found::new(Kind::RopePosition, 1, residual, text))
    });
    shifted.or_else(|| {
        // One more turn for each pair, the same at every position.
        let half = turn.width / 2;
        let mut more = vec![Complex(0.0, 0.0); half];
        for (row, f) in turn.some() {
            let x = turn.input(row, pairs, f);
            more[f] = more[f] + turn.actual(row, pairs, f) * (x * turn.turn(row, pairs, f)).conj();
        }
        let more: Vec<Complex> = more.into_iter().map(Complex::unit).collect();
        let residual = turn.pair.explained_where(half, |index| {
            turn.predicted(index, pairs, |row, f| Some(turn.turn(row, pairs, f) * more[f]))
        })?;
        let by = Short(more[0].angle());
        let text = format!(
            "`{name}` rotated from another position, the same for all: the fastest pair by {by} more"
        );
        Some(Found::new(Kind::RopePosition, 2, residual, text))
    })
}

fn wrong_base(turn: &Turn, pairs: Pairs, name: &str) -> Option<Found> {
    let (half, axes) = (turn.width / 2, turn.pair.shape().len() - 1);
    let actual =
        |row: usize, f: usize| (turn.actual(row, pairs, f) * turn.input(row, pairs, f).conj()).unit();
    (0..axes).filter(|&axis| turn.pair.shape()[axis] >= 2).find_map(|axis| {
        // How far each pair turns from one position to the next.
        let speed = |of: &dyn Fn(usize, usize) -> Complex| -> Vec<f64> {
            let mut sums = vec![Complex(0.0, 0.0); half];
            for (row, f) in turn.some() {
                if let Some(next) = turn.along(row, axis, 1) {
                    sums[f] = sums[f] + of(next, f) * of(row, f).conj();
                }
            }
            sums.into_iter().map(Complex::angle).collect()
        };
        let right = speed(&|row, f| turn.turn(row, pairs, f));
        let wrong = speed(&actual);
        let (golden, found) = (base_of(&right, turn.width)?, base_of(&wrong, turn.width)?);
        let golden = usual_bases(golden).first().copied().unwrap_or(golden);
        let angle =
            |position: f64, base: f64, f: usize| position * base.powf(-2.0 * f as f64 / turn.width as f64);
        let first = first_position(|position| {
            let gap = |f: usize| {
                let (found, wanted) = (turn.turn(0, pairs, f), Complex::of_angle(angle(position, golden, f)));
                (found.0 - wanted.0).powi(2) + (found.1 - wanted.1).powi(2)
            };
            (0..half).map(gap).sum()
        });
        let stride = row_major(&turn.pair.shape()[..axes])[axis];
        let explained = |base: f64| {
            turn.pair.explained_where(1, |index| {
                turn.predicted(index, pairs, |row, f| {
                    let position = first + (row / stride % turn.pair.shape()[axis]) as f64;
                    Some(Complex::of_angle(angle(position, base, f)))
                })
            })
        };
        let candidates = usual_bases(found).into_iter().chain([found]);
        let (found, residual) = candidates
            .filter_map(|base| Some((base, explained(base)?)))
            .min_by(|x, y| x.1.rms.total_cmp(&y.1.rms))?;
        let golden = usual_bases(golden).first().copied().unwrap_or(golden);
        let text = format!(
            "`{name}` rotated with a base of {}, where the golden has {}",
            Short(found),
            Short(golden)
        );
        Some(Found::new(Kind::RopeBase, 1, residual, text))
    })
}

/// The whole number at which something is least.
fn first_position(gap: impl Fn(f64) -> f64) -> f64 {
    let gaps = (0..MOST_POSITIONS).map(|position| (f64::from(position), gap(f64::from(position))));
    gaps.min_by(|x, y| x.1.total_cmp(&y.1)).map_or(0.0, |best| best.0)
}

/// The base of speeds `base^(-2 f / width)`: the slope of their logarithms, the faster ones counting for more, since they
/// are measured better.
fn base_of(speeds: &[f64], width: usize) -> Option<f64> {
    let fast: Vec<f64> = speeds.iter().copied().take_while(|speed| *speed > 0.01).collect();
    if fast.len() < 2 || !fast.is_sorted_by(|a, b| a > b) {
        return None;
    }
    let (mut up, mut down) = (0.0, 0.0);
    for (f, speed) in fast.iter().enumerate().skip(1) {
        let exponent = 2.0 * f as f64 / width as f64;
        up -= speed * speed * exponent * speed.ln();
        down += speed * speed * exponent * exponent;
    }
    Some((up / down).exp()).filter(|base| base.is_finite())
}

/// The bases near one that people write, nearest first.
pub(super) fn usual_bases(found: f64) -> Vec<f64> {
    let magnitude = 10f64.powf(found.log10().floor());
    let digits = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0].map(|digit| digit * magnitude);
    let off = |base: &f64| (found / base - 1.0).abs();
    let mut near: Vec<f64> =
        digits.into_iter().chain([256.0, 512.0, 1024.0]).filter(|base| off(base) < 0.08).collect();
    near.sort_by(|x, y| off(x).total_cmp(&off(y)));
    near
}
