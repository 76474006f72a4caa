//! From measurements to the class of a verdict.

use std::num::NonZeroUsize;

use half::{bf16, f16};
use num_complex::Complex32;

use super::choices::{self, Beside, TopRows};
use super::comparison::Comparison;
use super::element::{Bool, Element};
use super::metrics::{Difference, Metrics, Stats, TimesFloor, over, rms};
use super::pair_tally::{ElementRule, SideTally};
use super::systematic::{SEARCHED, Systematic};
use super::tier::BlockElement;
use super::totals::{Totals, count_above, measure, measure_side};
use super::{HUGE, all_cores};
use crate::gate::{Class, DistributionLimits, Floor, Gate, Rule};
use crate::number::Short;
use crate::tensor::{Dtype, TensorView};
use crate::text::program::program;

/// Runs a generic function with the element type of a dtype.
macro_rules! with_element {
    ($dtype:expr, $function:ident ($($argument:expr),*)) => {
        match $dtype {
            Dtype::Bool => $function::<Bool>($($argument),*),
            Dtype::Uint8 => $function::<u8>($($argument),*),
            Dtype::Uint16 => $function::<u16>($($argument),*),
            Dtype::Uint32 => $function::<u32>($($argument),*),
            Dtype::Uint64 => $function::<u64>($($argument),*),
            Dtype::Int8 => $function::<i8>($($argument),*),
            Dtype::Int16 => $function::<i16>($($argument),*),
            Dtype::Int32 => $function::<i32>($($argument),*),
            Dtype::Int64 => $function::<i64>($($argument),*),
            Dtype::Float16 => $function::<f16>($($argument),*),
            Dtype::Bfloat16 => $function::<bf16>($($argument),*),
            Dtype::Float32 => $function::<f32>($($argument),*),
            Dtype::Float64 => $function::<f64>($($argument),*),
            Dtype::Complex64 => $function::<Complex32>($($argument),*),
        }
    };
}

impl Comparison {
    /// Compares `actual` with `expected` on all cores; see [`compare`](super::compare) for the rules.
    pub fn of(expected: &TensorView, actual: &TensorView, rule: &Rule) -> Self {
        compare(all_cores(), expected, actual, rule, &Beside::default())
    }
}

/// The verdict on two tensors whose shapes or dtypes differ, without their values; `None` when both agree.
pub(super) fn compare_forms(
    expected: (Dtype, &[usize]),
    actual: (Dtype, &[usize]),
    rule: &Rule,
) -> Option<Comparison> {
    // The golden of the most probable ids has a form of its own.
    let is_top = rule.gate.as_ref().is_some_and(|gate| gate.top().is_some());
    let other_length = || choices::is_text_of_another_length(rule.gate.as_ref(), expected.1, actual.1);
    if is_top || expected.0 == actual.0 && other_length() {
        return None;
    }
    let found = if expected.1 != actual.1 {
        (Class::Shape, format!("expected shape {:?}, actual {:?}", expected.1, actual.1))
    } else if expected.0 != actual.0 {
        (Class::Dtype, format!("expected {}, actual {}", expected.0, actual.0))
    } else {
        return None;
    };
    let (class, detail) = floor_fault(rule).unwrap_or(found);
    Some(Comparison::failed(class, detail))
}

pub(super) fn compare(
    threads: NonZeroUsize,
    expected: &TensorView,
    actual: &TensorView,
    rule: &Rule,
    beside: &Beside<'_>,
) -> Comparison {
    if let Some(Gate::Distribution(limits)) = &rule.gate
        && let Some(top) = limits.top
    {
        return compare_top(threads, expected, actual, rule, (limits, top));
    }
    let forms = compare_forms((expected.dtype(), expected.shape()), (actual.dtype(), actual.shape()), rule);
    let floor_fault = floor_fault(rule);
    if let Some(outcome) = forms {
        if expected.shape() != actual.shape() {
            return outcome;
        }
        let (expected_stats, _) = with_element!(expected.dtype(), stats(threads, expected));
        let (actual_stats, _) = with_element!(actual.dtype(), stats(threads, actual));
        let metrics = Metrics {
            elements: actual.len() as u64,
            expected: Some(expected_stats),
            actual: actual_stats,
            difference: None,
            choices: None,
        };
        return Comparison { metrics: Some(metrics), ..outcome };
    }
    if expected.shape() != actual.shape() {
        return other_length(threads, expected, actual);
    }
    let mut outcome = with_element!(expected.dtype(), values(threads, expected, actual, rule, beside));
    if let Some((class, detail)) = floor_fault {
        outcome = Comparison { class: Some(class), detail, ..outcome };
    }
    outcome
}

/// Compares logits with a golden of the most probable ids. Elements are the log-probabilities of these ids.
fn compare_top(
    threads: NonZeroUsize,
    expected: &TensorView,
    actual: &TensorView,
    rule: &Rule,
    (limits, top): (&DistributionLimits, u32),
) -> Comparison {
    let rows = match TopRows::new(expected, top) {
        Ok(rows) => rows,
        Err(problem) => return Comparison::failed(Class::Spec, problem),
    };
    let whole = rows.whole_shape();
    if whole != actual.shape() {
        let detail = format!("expected shape {whole:?}, actual {:?}", actual.shape());
        return Comparison::failed(Class::Shape, detail);
    }
    let (own_stats, own) = with_element!(actual.dtype(), stats(threads, actual));
    let Some((golden, same_ids)) = rows.beside(actual) else {
        return Comparison::failed(Class::Spec, "the golden's rows do not fit its shape");
    };
    // Half of the golden's numbers are ids, which have no error.
    let floor = rule.floor.map(|floor| Floor { rms: floor.rms * std::f64::consts::SQRT_2, ..floor });
    let bare = Rule { floor, nan_equal: rule.nan_equal, ..Rule::default() };
    let nothing = Beside::default();
    let mut outcome = values::<f64>(threads, &golden.view(), &same_ids.view(), &bare, &nothing);
    let found = choices::find_top(threads, &rows, actual, limits);
    let fault = found.fault.or_else(|| range_fault(rule, &own).map(|detail| (Class::Range, detail)));
    if outcome.class.is_none() {
        let (class, detail) = fault.map_or((None, found.agreement), |(class, detail)| (Some(class), detail));
        (outcome.class, outcome.detail) = (class, detail);
    }
    if let Some(metrics) = &mut outcome.metrics {
        metrics.elements = actual.len() as u64;
        metrics.actual = own_stats;
        // Log-probabilities beside logits would look like an error.
        metrics.expected = None;
        metrics.choices = found.choices;
        if let Some(difference) = &mut metrics.difference {
            difference.used = found.used;
        }
    }
    outcome
}

/// Compares two texts of different lengths.
fn other_length(threads: NonZeroUsize, expected: &TensorView, actual: &TensorView) -> Comparison {
    let (expected_stats, _) = with_element!(expected.dtype(), stats(threads, expected));
    let (actual_stats, _) = with_element!(actual.dtype(), stats(threads, actual));
    let found = choices::find(threads, expected, actual, &Gate::Text, &Beside::default());
    let fault = found.and_then(|found| found.fault);
    let metrics = Metrics {
        elements: actual.len() as u64,
        expected: Some(expected_stats),
        actual: actual_stats,
        difference: None,
        choices: None,
    };
    Comparison::measured(fault, String::new, metrics)
}

pub(super) fn examine(threads: NonZeroUsize, actual: &TensorView, rule: &Rule) -> Comparison {
    let (stats, side) = with_element!(actual.dtype(), stats(threads, actual));
    let fault = unwanted_fault(rule, &side)
        .map(|detail| (Class::Finite, detail))
        .or_else(|| range_fault(rule, &side).map(|detail| (Class::Range, detail)));
    let metrics = Metrics {
        elements: actual.len() as u64,
        expected: None,
        actual: stats,
        difference: None,
        choices: None,
    };
    Comparison::measured(fault, || "measured, no golden to compare with".to_owned(), metrics)
}

fn stats<T: Element>(threads: NonZeroUsize, view: &TensorView) -> (Stats, SideTally) {
    let (moments, side) = measure_side::<T>(view, threads);
    (Stats::new::<T>(view, &moments, &side), side)
}

fn values<T: BlockElement>(
    threads: NonZeroUsize,
    expected: &TensorView,
    actual: &TensorView,
    rule: &Rule,
    beside: &Beside<'_>,
) -> Comparison {
    let epsilon = expected.dtype().epsilon().unwrap_or(0.0);
    let judge = ElementRule::new(rule, epsilon);
    let mut totals = measure::<T>(expected, actual, &judge, threads);
    let mut difference = Difference::new::<T>(expected, actual, &mut totals, &judge);

    let noise = rule.floor.map(|floor| NoiseTest::new(&totals, floor, epsilon));
    difference.times_floor = noise.map(|noise| noise.times);
    let tally = &totals.tally;
    match rule.gate {
        Some(Gate::Tolerance { .. }) => {
            difference.mismatched = Some(tally.outside);
            let used = tally.worst.first().and_then(|bad| judge.used(bad)).unwrap_or(0.0);
            difference.used = Some(if sums_overflow(&difference) { f64::INFINITY } else { used });
        }
        Some(Gate::Noise { k }) => {
            if let Some(noise) = noise {
                // Counting takes a second pass, so it happens only when the gate is not met.
                let [_, bound] = noise.bounds(k);
                let above = if tally.max_abs_below <= bound && bound.is_finite() {
                    0
                } else {
                    count_above::<T>(expected, actual, bound, threads)
                };
                difference.mismatched = Some(above + tally.huge_outside + tally.nonfinite);
                difference.used = Some(noise.used(k));
                // Fitting takes a second pass, so it happens only when a systematic part could be clear.
                if noise.held(k) && noise.times.rms >= SEARCHED && epsilon > 0.0 {
                    difference.systematic = Systematic::find::<T>(expected, actual, noise.rms_unit);
                }
            }
        }
        Some(Gate::Distribution(_) | Gate::Tokens { .. } | Gate::Set { .. } | Gate::Text) | None => {}
    }
    let find = |gate| choices::find(threads, expected, actual, gate, beside);
    let found = rule.gate.as_ref().and_then(find).unwrap_or_default();
    if found.used.is_some() {
        (difference.used, difference.mismatched) = (found.used, found.mismatched);
    }
    let fraction = |mismatched: u64| over(mismatched as f64, expected.len() as f64);
    difference.mismatched_fraction = difference.mismatched.map(fraction);

    let fault = finite_fault(&difference)
        .or_else(|| value_fault(rule, &totals, &difference, noise))
        .or(found.fault)
        .or_else(|| systematic_fault(rule, &difference))
        .or_else(|| range_fault(rule, &tally.actual).map(|detail| (Class::Range, detail)));
    let words = match found.agreement.is_empty() {
        true => agreement(rule, &difference),
        false => found.agreement,
    };
    let [expected_side, actual_side] = totals.ordered.sides();
    let metrics = Metrics {
        elements: actual.len() as u64,
        expected: Some(Stats::new::<T>(expected, &expected_side, &tally.expected)),
        actual: Stats::new::<T>(actual, &actual_side, &tally.actual),
        difference: Some(difference),
        choices: found.choices,
    };
    Comparison::measured(fault, || words, metrics)
}

/// The numbers that a noise gate compares.
#[derive(Debug, Clone, Copy)]
struct NoiseTest {
    floor: Floor,
    expected_rms: f64,
    /// One multiple of the floor, for the root mean square.
    rms_unit: f64,
    /// One multiple of the floor, for single elements.
    max_unit: f64,
    times: TimesFloor,
}

impl NoiseTest {
    fn new(totals: &Totals, floor: Floor, epsilon: f64) -> Self {
        let Totals { ordered, tally } = totals;
        let expected_rms = rms(ordered.pairs()[0].sum_of_squares(), tally.counted);
        let rms_unit = floor.rms.max(0.1 * epsilon * expected_rms);
        let max_unit = floor.max.max(epsilon * tally.expected.absmax_below);
        let times = TimesFloor {
            rms: over(rms(ordered.error.sum_of_squares(), tally.counted), rms_unit),
            max: over(tally.max_abs_below, max_unit),
        };
        Self { floor, expected_rms, rms_unit, max_unit, times }
    }

    /// The bounds of the root mean square and of the largest distance.
    fn bounds(&self, k: f64) -> [f64; 2] {
        [k * self.rms_unit, k * self.max_unit]
    }

    /// Whether both parts are inside their bounds and neither bound overflows.
    fn held(&self, k: f64) -> bool {
        let finite = self.bounds(k).iter().all(|bound| bound.is_finite());
        finite && self.times.rms <= k && self.times.max <= k
    }

    /// The larger of the two parts divided by `k`; infinite when a sum or a bound overflows, which is never inside.
    fn used(&self, k: f64) -> f64 {
        let TimesFloor { rms, max } = self.times;
        let finite = self.bounds(k).iter().chain([&rms, &max]).all(|x| x.is_finite());
        if finite || self.held(k) { over(rms.max(max), k) } else { f64::INFINITY }
    }
}

fn floor_fault(rule: &Rule) -> Option<(Class, String)> {
    let Some(Gate::Noise { k }) = rule.gate else { return None };
    // A floor covers elements below the limit only, so no distance is above twice the limit.
    let usable = |x: f64| (0.0..=2.0 * HUGE).contains(&x);
    match rule.floor {
        None => Some((
            Class::Missing,
            format!(
                "gate `noise: {k}` needs the golden's floor, but the golden has none; run `{} regenerate-fixtures`",
                program()
            ),
        )),
        Some(Floor { max, rms }) if !usable(max) || !usable(rms) => Some((
            Class::Corrupt,
            format!(
                "the golden's floor is max {max}, rms {rms}, expected numbers from 0 to 2e30; run `{} \
                 regenerate-fixtures`",
                program()
            ),
        )),
        Some(_) => None,
    }
}

fn finite_fault(difference: &Difference) -> Option<(Class, String)> {
    let count = difference.nonfinite_mismatched;
    (count > 0).then(|| {
        let (elements, are) = if count == 1 { ("element", "is") } else { ("elements", "are") };
        let place = difference.worst.first().map_or_else(String::new, |first| {
            format!(", first {:?}: expected {}, actual {}", first.index, first.expected, first.actual)
        });
        (
            Class::Finite,
            format!("{count} {elements} {are} NaN or infinite on one side and different on the other{place}"),
        )
    })
}

fn value_fault(
    rule: &Rule,
    totals: &Totals,
    difference: &Difference,
    noise: Option<NoiseTest>,
) -> Option<(Class, String)> {
    match (&rule.gate, noise) {
        (Some(Gate::Tolerance { .. }), _) if totals.tally.outside > 0 => {
            let counted = format!("{} of {} elements outside", totals.tally.outside, totals.tally.elements);
            Some((Class::Value, counted + &worst_words(difference) + &overflow_words(totals)))
        }
        // No element is outside, but their measurements would be infinite.
        (Some(Gate::Tolerance { .. }), _) if sums_overflow(difference) => {
            let detail = "the sum of the squared distances overflows float64, so the tensors never agree";
            Some((Class::Value, detail.to_owned() + &worst_words(difference)))
        }
        (Some(Gate::Noise { .. }), Some(noise)) if noise.floor.rms > 0.1 * noise.expected_rms => {
            let (floor, golden) = (Short(noise.floor.rms), Short(noise.expected_rms));
            let detail = format!(
                "the floor's rms {floor} is above a tenth of the golden's rms {golden}: agreement would prove nothing"
            );
            Some((Class::Untestable, detail))
        }
        (Some(Gate::Noise { k }), Some(noise)) => {
            if noise.held(*k) && totals.tally.huge_outside == 0 {
                return None;
            }
            let TimesFloor { rms, max } = noise.times;
            let mut detail = times_words(rule, rms, max, *k);
            if totals.tally.huge_outside > 0 {
                let count = totals.tally.huge_outside;
                detail += &format!(
                    "; {count} {}",
                    if count == 1 { "fill value differs" } else { "fill values differ" }
                );
            }
            if noise.bounds(*k).iter().any(|bound| !bound.is_finite()) {
                detail += "; the bound overflows float64, so nothing agrees with it";
            }
            Some((Class::Value, detail + &worst_words(difference) + &overflow_words(totals)))
        }
        _ => None,
    }
}

/// The error in multiples of the floor, and how many are allowed.
fn times_words(rule: &Rule, rms: f64, max: f64, k: f64) -> String {
    let local = if rule.is_local { "local " } else { "" };
    format!("rms error {}x the {local}floor, largest {}x, {k}x allowed", Short(rms), Short(max))
}

fn systematic_fault(rule: &Rule, difference: &Difference) -> Option<(Class, String)> {
    let clear = difference.systematic.filter(|found| rule.judge_systematic && found.clear)?;
    Some((Class::Systematic, format!("inside the gate, but {}", clear.text())))
}

fn worst_words(difference: &Difference) -> String {
    difference.worst.first().map_or_else(String::new, |worst| {
        let times = worst.used.map_or_else(String::new, |used| format!(" ({}x the bound)", Short(used)));
        format!(
            ", worst {:?}: expected {}, actual {}, off by {}{times}",
            worst.index,
            worst.expected,
            worst.actual,
            Short(worst.distance)
        )
    })
}

/// Whether the sum of the distances or of their squares overflows float64.
fn sums_overflow(difference: &Difference) -> bool {
    !(difference.rms.is_finite() && difference.sum_abs.is_finite())
}

/// The number of elements whose distance or bound overflows float64, in words.
fn overflow_words(totals: &Totals) -> String {
    match totals.tally.overflowing {
        0 => String::new(),
        1 => "; the distance or the bound of 1 element overflows float64, so it never agrees".to_owned(),
        count => {
            format!("; the distance or the bound of {count} elements overflows float64, so they never agree")
        }
    }
}

/// NaN and infinities in an actual without a golden. `nan: equal` allows them, and a range that ends at an infinity
/// allows that one.
fn unwanted_fault(rule: &Rule, actual: &SideTally) -> Option<String> {
    if rule.nan_equal {
        return None;
    }
    let allowed = |value: f64| rule.range.is_some_and(|(low, high)| value >= low && value <= high);
    let found = [
        (actual.nan, f64::NAN, "NaN"),
        (actual.positive_infinity, f64::INFINITY, "inf"),
        (actual.negative_infinity, f64::NEG_INFINITY, "-inf"),
    ];
    let found = found.into_iter().filter(|(count, value, _)| *count > 0 && !allowed(*value));
    let found: Vec<String> = found.map(|(count, _, name)| format!("{count} {name}")).collect();
    (!found.is_empty()).then(|| {
        format!(
            "actual has {}, but there is no golden to compare with; write `nan: equal` to allow them",
            found.join(", ")
        )
    })
}

fn range_fault(rule: &Rule, actual: &SideTally) -> Option<String> {
    let (low, high) = rule.range?;
    let mut found = Vec::new();
    // Without finite elements, the minimum is above the maximum.
    if actual.min <= actual.max && !(actual.min >= low && actual.max <= high) {
        found.push(format!("values from {} to {}", Short(actual.min), Short(actual.max)));
    }
    let outside = [
        (actual.nan, f64::NAN, "NaN"),
        (actual.positive_infinity, f64::INFINITY, "inf"),
        (actual.negative_infinity, f64::NEG_INFINITY, "-inf"),
    ];
    for (count, value, name) in outside {
        if count > 0 && !(value >= low && value <= high) {
            found.push(format!("{count} {name}"));
        }
    }
    (!found.is_empty())
        .then(|| format!("actual has {}, allowed: {} to {}", found.join(", "), Short(low), Short(high)))
}

fn agreement(rule: &Rule, difference: &Difference) -> String {
    let used = Short(difference.used.unwrap_or(0.0));
    match (&rule.gate, difference.times_floor) {
        (Some(Gate::Noise { k }), Some(TimesFloor { rms, max })) => {
            let mut text = times_words(rule, rms, max, *k);
            if let Some(clear) = difference.systematic.filter(|found| !rule.judge_systematic && found.clear) {
                text += &format!("; not judged: {}", clear.text());
            }
            text
        }
        (Some(_), _) => format!("used {used} of the tolerance"),
        (None, _) => "shape, dtype and finiteness agree".to_owned(),
    }
}
