//! Logits compared as the probabilities that they stand for.

use std::num::NonZeroUsize;

use super::{Choices, Divergence, Found, OtherChoice, SHOWN, brief, counted, index_of};
use crate::gate::{Class, DistributionLimits};
use crate::number::percent;
use crate::tensor::{Dtype, Float64View, Tensor, TensorView};

/// A probability of all other ids below this is rounding.
const NO_REST: f64 = 1e-9;

/// A golden that has the most probable ids of each row.
///
/// Its last two axes are `[n + 1, 2]`: `n` pairs of a log-probability and an id, the most probable first, then the
/// log-sum-exp of the logits and the number of all ids.
#[derive(Debug, Clone)]
pub struct TopRows<'a> {
    view: Float64View<'a>,
    axes: Vec<usize>,
    kept: usize,
}

impl<'a> TopRows<'a> {
    /// Reads a golden that should have `top` ids per row.
    ///
    /// # Errors
    /// What the golden has instead, in words.
    pub fn new(golden: &TensorView<'a>, top: u32) -> Result<Self, String> {
        let advice = format!("export it with `rec.distribution(…, top={top})`");
        let found = || format!("the golden is {} {:?}", golden.dtype(), golden.shape());
        let [axes @ .., kept, 2] = golden.shape() else {
            return Err(format!("the spec declares `top: {top}`, but {}: {advice}", found()));
        };
        if golden.dtype() != Dtype::Float64 || *kept != top as usize + 1 {
            return Err(format!("the spec declares `top: {top}`, but {}: {advice}", found()));
        }
        let rows = Self { axes: axes.to_vec(), kept: top as usize, view: Float64View::new(golden) };
        let is_id = |row: usize, at: usize| {
            let (score, id) = rows.pair(row, at);
            score <= NO_REST && id >= 0.0 && id.fract() == 0.0 && id < rows.pair(row, rows.kept).1
        };
        match (0..rows.count()).find(|&row| !(0..rows.kept).all(|at| is_id(row, at))) {
            Some(row) => Err(format!("row {row} of the golden has no log-probabilities with ids: {advice}")),
            None => Ok(rows),
        }
    }

    pub(super) fn axes(&self) -> &[usize] {
        &self.axes
    }

    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    fn count(&self) -> usize {
        self.axes.iter().product()
    }

    fn pair(&self, row: usize, at: usize) -> (f64, f64) {
        let place = (row * (self.kept + 1) + at) * 2;
        (self.view.at(place), self.view.at(place + 1))
    }

    /// A log-probability and its id.
    pub(super) fn entry(&self, row: usize, at: usize) -> (f64, usize) {
        let (score, id) = self.pair(row, at);
        (score, id as usize)
    }

    /// How many ids there are in all.
    pub(super) fn vocabulary(&self, row: usize) -> usize {
        self.entry(row, self.kept).1
    }

    /// The log-probability of an id, if the golden has it.
    pub(super) fn of(&self, row: usize, id: usize) -> Option<f64> {
        (0..self.kept).map(|at| self.entry(row, at)).find(|(_, other)| *other == id).map(|(score, _)| score)
    }

    /// The largest magnitude of a log-probability or a log-sum-exp.
    pub(super) fn largest(&self) -> f64 {
        let all = (0..self.count()).flat_map(|row| (0..=self.kept).map(move |at| (row, at)));
        all.map(|(row, at)| self.pair(row, at).0.abs()).fold(0.0, f64::max)
    }

    /// The shape that logits of all ids must have.
    pub fn whole_shape(&self) -> Vec<usize> {
        let all = if self.count() == 0 { 0 } else { self.vocabulary(0) };
        self.axes.iter().copied().chain([all]).collect()
    }

    /// The log-probabilities of the golden and, for the same ids, those of the actual, whose shape is right. Both are
    /// float64, with one row per row.
    pub fn beside(&self, actual: &TensorView<'_>) -> Option<(Tensor, Tensor)> {
        let shape: Vec<usize> = self.axes.iter().copied().chain([self.kept]).collect();
        let logits = Float64View::new(actual);
        let (mut golden, mut own) = (Vec::new(), Vec::new());
        for row in 0..self.count() {
            let logits: Vec<f64> =
                (0..logits.width()).map(|id| logits.at(row * logits.width() + id)).collect();
            let sum = log_sum_exp(&logits);
            for (score, id) in (0..self.kept).map(|at| self.entry(row, at)) {
                golden.extend(score.to_le_bytes());
                own.extend((logits.get(id).copied().unwrap_or(f64::NAN) - sum).to_le_bytes());
            }
        }
        let tensor = |bytes| Tensor::from_vec(Dtype::Float64, shape.clone(), bytes).ok();
        Some((tensor(golden)?, tensor(own)?))
    }
}

/// What is measured about one row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// NaN when the golden has no probabilities.
    divergence: f64,
    /// The golden's and the actual's most probable id, when these differ.
    other: Option<(usize, usize)>,
    /// Ids among the most probable ones of both.
    common: usize,
}

/// Compares the logits of all ids.
pub(super) fn whole(
    threads: NonZeroUsize,
    expected: &TensorView<'_>,
    actual: &TensorView<'_>,
    limits: &DistributionLimits,
) -> Found {
    let Some((&width, axes)) = expected.shape().split_last() else {
        return Found::failed(
            Class::Spec,
            "`compare: distribution` needs rows of logits, but this is a single number",
        );
    };
    let (expected, actual) = (Float64View::new(expected), Float64View::new(actual));
    let k = limits.topk.map_or(0, |topk| topk.k as usize);
    let measure = |row: usize| {
        let read =
            |view: &Float64View<'_>| (0..width).map(|id| view.at(row * width + id)).collect::<Vec<_>>();
        let (e, a) = (read(&expected), read(&actual));
        let (sum_e, sum_a) = (log_sum_exp(&e), log_sum_exp(&a));
        let divergence = e.iter().zip(&a).map(|(e, a)| term(e - sum_e, a - sum_a)).sum();
        let divergence = if sum_e.is_finite() { or_infinite(divergence) } else { f64::NAN };
        let (best, own) = (largest(&e, 1), largest(&a, 1));
        let other = best.first().copied().zip(own.first().copied()).filter(|&(best, own)| e[own] != e[best]);
        let (all, chosen) = (largest(&e, k), largest(&a, k));
        Row { divergence, other, common: chosen.iter().filter(|id| all.contains(id)).count() }
    };
    verdict(axes, each(threads, axes.iter().product(), &measure), limits)
}

/// Compares the logits of all ids with a golden that has the most probable ones.
pub(super) fn top(
    threads: NonZeroUsize,
    golden: &TopRows<'_>,
    actual: &TensorView<'_>,
    limits: &DistributionLimits,
) -> Found {
    let actual = Float64View::new(actual);
    let k = limits.topk.map_or(0, |topk| topk.k as usize);
    let measure = |row: usize| {
        let width = actual.width();
        let a: Vec<f64> = (0..width).map(|id| actual.at(row * width + id)).collect();
        let sum = log_sum_exp(&a);
        let (mut divergence, mut rest_e, mut rest_a) = (0.0, 1.0, 1.0);
        for (score, id) in (0..golden.kept()).map(|at| golden.entry(row, at)) {
            let own = a.get(id).map_or(f64::NAN, |logit| logit - sum);
            divergence += term(score, own);
            rest_e -= score.exp();
            rest_a -= own.exp();
        }
        // All other ids count as one.
        let (rest_e, rest_a) = (rest_e.max(0.0), rest_a.max(0.0));
        divergence +=
            if rest_e < NO_REST { (rest_a - rest_e).max(0.0) } else { term(rest_e.ln(), rest_a.ln()) };
        let divergence = or_infinite(divergence);
        let own = largest(&a, 1).first().copied();
        let best = golden.entry(row, 0);
        let other = own.filter(|own| golden.of(row, *own) != Some(best.0)).map(|own| (best.1, own));
        let chosen = largest(&a, k);
        let common = (0..k).filter(|&at| chosen.contains(&golden.entry(row, at).1)).count();
        Row { divergence, other, common }
    };
    verdict(golden.axes(), each(threads, golden.count(), &measure), limits)
}

/// Measures every row, on several threads. The result does not depend on their number.
fn each(threads: NonZeroUsize, rows: usize, measure: &(impl Fn(usize) -> Row + Sync)) -> Vec<Row> {
    let mut found = vec![Row::default(); rows];
    let part = rows.div_ceil(threads.get()).max(1);
    std::thread::scope(|scope| {
        for (index, part_of_rows) in found.chunks_mut(part).enumerate() {
            let mut fill = move || {
                for (at, row) in part_of_rows.iter_mut().enumerate() {
                    *row = measure(index * part + at);
                }
            };
            // A small tensor is done before a thread has started.
            if rows <= part { fill() } else { drop(scope.spawn(fill)) }
        }
    });
    found
}

fn verdict(axes: &[usize], rows: Vec<Row>, limits: &DistributionLimits) -> Found {
    let count = rows.len() as u64;
    let divergences: Vec<f64> = rows.iter().map(|row| row.divergence).filter(|x| !x.is_nan()).collect();
    let differ: Vec<(usize, (usize, usize))> =
        rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.other?))).collect();
    let share = |part: f64, of: f64| if of == 0.0 { 1.0 } else { part / of };
    let equal = count - differ.len() as u64;
    let top1 = share(equal as f64, count as f64);
    let overlap = limits
        .topk
        .map(|topk| share(rows.iter().map(|row| row.common as f64).sum(), f64::from(topk.k) * count as f64));
    let id = |id: usize| i64::try_from(id).unwrap_or(-1);
    let other = differ.iter().take(SHOWN).map(|&(at, (expected, actual))| OtherChoice {
        index: index_of(axes, at),
        expected: vec![id(expected)],
        actual: vec![id(actual)],
        apart: None,
        tie: false,
    });
    let divergence = Divergence::of(&divergences);
    let choices = Choices {
        rows: count,
        equal,
        reordered: 0,
        ties: 0,
        decided: differ.len() as u64,
        near: 0,
        divergence,
        overlap,
        other: other.collect(),
    };
    let mut words = counted(count, "row", "rows");
    words += ": ";
    words += &divergence.map(|divergence| divergence.text() + ", ").unwrap_or_default();
    words += &format!("top-1 equal in {equal}");
    if let (Some(topk), Some(overlap)) = (limits.topk, overlap) {
        words += &format!(", top-{} overlap {}", topk.k, percent(overlap));
    }
    let (mut used, mut faults) = (0f64, Vec::new());
    let measured = divergence.map_or([0.0; 3], |found| [found.mean, found.p99, found.max]);
    for ((name, limit), found) in limits.divergences().into_iter().zip(measured) {
        let Some(limit) = limit else { continue };
        used = used.max(part(found, limit));
        if found > limit {
            faults.push(format!("KL {name} {} is above {}", brief(found), brief(limit)));
        }
    }
    let shares = [
        limits.top1.map(|limit| ("top-1 agreement".to_owned(), limit, top1)),
        limits
            .topk
            .zip(overlap)
            .map(|(topk, found)| (format!("top-{} overlap", topk.k), topk.overlap, found)),
    ];
    for (name, limit, found) in shares.into_iter().flatten() {
        used = used.max(part(1.0 - found, 1.0 - limit));
        if found < limit {
            faults.push(format!("{name} {} is below {}", percent(found), percent(limit)));
        }
    }
    let fault = (!faults.is_empty()).then(|| (Class::Value, format!("{}; {words}", faults.join(", "))));
    Found { choices: Some(choices), used: Some(used), mismatched: None, fault, agreement: words }
}

/// The used part of a limit; infinite when nothing is allowed.
fn part(found: f64, limit: f64) -> f64 {
    if found <= 0.0 { 0.0 } else { found / limit.max(0.0) }
}

/// What one id adds to the divergence, from both log-probabilities: `p * ln(p / q) + q - p`, which is never negative and
/// keeps its digits where `p` and `q` are nearly equal. The sum over all ids is the divergence, since both sum to one.
fn term(expected: f64, actual: f64) -> f64 {
    let (p, q) = (expected.exp(), actual.exp());
    if p == 0.0 {
        return q;
    }
    let off = expected - actual;
    p * (off + (-off).exp_m1())
}

/// An actual without probabilities is as far away as possible.
fn or_infinite(divergence: f64) -> f64 {
    if divergence.is_nan() { f64::INFINITY } else { divergence }
}

fn log_sum_exp(logits: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    largest + logits.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

/// The indices of the `count` largest numbers, the largest first and the first of equals.
fn largest(numbers: &[f64], count: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::with_capacity(count + 1);
    for (at, number) in numbers.iter().enumerate().filter(|(_, number)| !number.is_nan()) {
        let enters = found.len() < count || found.last().is_some_and(|&least| *number > numbers[least]);
        if enters && count > 0 {
            let place = found.partition_point(|&other| numbers[other] >= *number);
            found.insert(place, at);
            found.truncate(count);
        }
    }
    found
}
