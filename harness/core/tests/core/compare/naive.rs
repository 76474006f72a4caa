//! The comparison agrees with a naive one, element by element in float64, on random tensors of every dtype and layout;
//! and with itself on any number of threads.

use std::num::NonZeroUsize;

use half::{bf16, f16};
use mlx_parity_core::compare::{Difference, Metrics, Stats, compare, compare_on};
use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::tensor::{Dtype, TensorView};
use proptest::prelude::*;

/// An element as its real parts. Integers that float64 cannot hold have a variant of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plain {
    Real(f64),
    /// A 16-bit float, whose distances are rounded to float32.
    Narrow(f64),
    Whole(i128),
    Complex(f64, f64),
}

impl Plain {
    fn new(dtype: Dtype, b: &[u8]) -> Self {
        let word = b.iter().rev().fold(0u64, |word, &b| word << 8 | u64::from(b));
        let float = |bits: u64| f64::from(f32::from_bits(bits as u32));
        match dtype {
            Dtype::Bool => Self::Whole(i128::from(b[0] != 0)),
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => Self::Whole(word.into()),
            Dtype::Int8 => Self::Whole((word as i8).into()),
            Dtype::Int16 => Self::Whole((word as i16).into()),
            Dtype::Int32 => Self::Whole((word as i32).into()),
            Dtype::Int64 => Self::Whole((word as i64).into()),
            Dtype::Float16 => Self::Narrow(f16::from_bits(word as u16).to_f64()),
            Dtype::Bfloat16 => Self::Narrow(bf16::from_bits(word as u16).to_f64()),
            Dtype::Float32 => Self::Real(float(word)),
            Dtype::Float64 => Self::Real(f64::from_bits(word)),
            Dtype::Complex64 => Self::Complex(float(word & 0xffff_ffff), float(word >> 32)),
        }
    }

    fn parts(self) -> Vec<f64> {
        match self {
            Self::Real(x) | Self::Narrow(x) => vec![x],
            Self::Whole(x) => vec![x as f64],
            Self::Complex(re, im) => vec![re, im],
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::Real(x) | Self::Narrow(x) => x,
            Self::Whole(x) => x as f64,
            Self::Complex(re, im) => modulus(re, im),
        }
    }

    fn is_finite(self) -> bool {
        self.parts().iter().all(|x| x.is_finite())
    }

    fn is_nan(self) -> bool {
        self.parts().iter().any(|x| x.is_nan())
    }

    fn distance(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Whole(e), Self::Whole(a)) => (a - e).unsigned_abs() as f64,
            (Self::Complex(re, im), Self::Complex(re2, im2)) => modulus(re2 - re, im2 - im),
            // Beyond the range of float32 the distance stays in float64.
            (Self::Narrow(e), Self::Narrow(a)) => match (a - e).abs() {
                distance if (distance as f32).is_finite() => f64::from(distance as f32),
                distance => distance,
            },
            _ => (other.number() - self.number()).abs(),
        }
    }

    fn is_within(self, other: Self, bound: f64) -> bool {
        // An overflow is never within a bound.
        bound.is_finite()
            && match (self, other) {
                (Self::Narrow(e), Self::Narrow(a)) => (a - e).abs() <= bound,
                _ => self.distance(other) <= bound,
            }
    }
}

/// Squares of float32 are far from the limits of float64, so this equals `hypot` except for the last digit.
fn modulus(re: f64, im: f64) -> f64 {
    let modulus = (re * re + im * im).sqrt();
    assert!(!modulus.is_finite() || (modulus - re.hypot(im)).abs() <= 4.0 * f64::EPSILON * modulus);
    modulus
}

/// The metrics that a naive loop can compute.
fn check(expected: &[Plain], actual: &[Plain], rule: &Rule, metrics: &Metrics) {
    let found = metrics.difference.as_ref().unwrap();
    let Some(Gate::Tolerance { rtol, atol, .. }) = rule.gate else { panic!("a tolerance") };
    let pairs: Vec<(Plain, Plain)> = expected.iter().copied().zip(actual.iter().copied()).collect();
    let outside = |&&(e, a): &&(Plain, Plain)| {
        let same = e == a || rule.nan_equal && e.is_nan() && a.is_nan();
        let close = e.is_finite() && a.is_finite() && e.is_within(a, atol + rtol * e.number().abs());
        !(same || close)
    };
    assert_eq!(found.mismatched, Some(pairs.iter().filter(outside).count() as u64));
    let finite: Vec<_> = pairs.iter().filter(|(e, a)| e.is_finite() && a.is_finite()).collect();
    let counted: Vec<_> = finite.iter().filter(|(e, _)| e.number().abs() < 1e30).collect();
    assert_eq!(found.counted, counted.len() as u64);
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    assert_eq!(found.max_abs, largest(&mut finite.iter().map(|(e, a)| e.distance(*a))));
    let relative = |(e, a): &(Plain, Plain)| e.distance(*a) / (e.number().abs() + 1e-8);
    assert_eq!(found.max_rel, largest(&mut finite.iter().map(|pair| relative(pair))));
    let bounds = |(e, a): &(Plain, Plain)| match e.distance(*a) {
        0.0 => 0.0,
        distance => distance / (atol + rtol * e.number().abs()),
    };
    if found.nonfinite_mismatched == 0 {
        let used = largest(&mut finite.iter().map(|pair| bounds(pair)));
        assert_eq!(found.used.unwrap(), if sums_overflow(found) { f64::INFINITY } else { used });
    }
    let equal = pairs.iter().filter(|(e, a)| e == a).count();
    assert_eq!(found.exact_fraction, if pairs.is_empty() { 1.0 } else { equal as f64 / pairs.len() as f64 });
    let distances: f64 = counted.iter().map(|(e, a)| e.distance(*a)).sum();
    // Sums of 16-bit floats are partly computed in float32.
    let part = if matches!(expected.first(), Some(Plain::Narrow(_))) { 1e-6 } else { 1e-9 };
    near(found.sum_abs, distances, part);
    let squares = |of: fn(f64, f64) -> f64| -> f64 {
        let parts = counted.iter().flat_map(|(e, a)| e.parts().into_iter().zip(a.parts()));
        parts.map(|(e, a)| of(e, a)).sum()
    };
    let error = squares(|e, a| (a - e) * (a - e));
    // Subnormal squares have lost digits.
    if error == 0.0 || error > 1e-290 {
        near(found.rms, if counted.is_empty() { 0.0 } else { (error / counted.len() as f64).sqrt() }, part);
    }
    let (e2, a2) = (squares(|e, _| e * e), squares(|_, a| a * a));
    if e2 > 1e-290 && a2 > 1e-290 && [e2, a2, error].iter().all(|x| x.is_finite()) {
        // Computing from the error loses digits if the two differ much in size.
        let lost = (e2 / a2).max(a2 / e2).sqrt();
        let cosine = squares(|e, a| e * a) / e2.sqrt() / a2.sqrt();
        let close = (found.cosine - cosine).abs() < lost * part * if part > 1e-9 { 0.1 } else { 1e-3 };
        assert!(close, "found {}, expected {cosine}, squares {e2:e} {a2:e} {error:e}", found.cosine);
    }
    stats(expected, metrics.expected.as_ref().unwrap());
    stats(actual, &metrics.actual);
    worst(&pairs, found);
}

/// Whether a sum over all elements overflows float64. Then nothing is within its bound, whatever the elements are.
fn sums_overflow(found: &Difference) -> bool {
    !found.rms.is_finite() || !found.sum_abs.is_finite()
}

fn stats(values: &[Plain], found: &Stats) {
    let finite: Vec<f64> = values.iter().filter(|x| x.is_finite()).map(|x| x.number()).collect();
    if let (Some(min), Some(max)) =
        (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max))
    {
        assert_eq!((found.min, found.max, found.absmax), (min, max, min.abs().max(max.abs())));
    }
    assert_eq!(found.nan, values.iter().filter(|x| x.is_nan()).count() as u64);
    let nonfinite = found.nan + found.positive_infinity + found.negative_infinity;
    assert_eq!(nonfinite as usize, values.len() - finite.len());
    let below: Vec<f64> = finite.into_iter().filter(|x| x.abs() < 1e30).collect();
    if !below.is_empty() {
        let absolute = below.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let mean = below.iter().sum::<f64>() / below.len() as f64;
        assert!((found.mean - mean).abs() <= 1e-7 * absolute, "{} {mean}", found.mean);
        let spread = below.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / below.len() as f64;
        assert!((found.std - spread.sqrt()).abs() <= 1e-6 * absolute, "{} {}", found.std, spread.sqrt());
    }
    assert_eq!(found.first.len(), values.len().min(10));
}

/// Expects that the first of the worst elements is the worst, and that each has the values at its index.
fn worst(pairs: &[(Plain, Plain)], found: &Difference) {
    for worst in found.worst.iter().filter(|worst| worst.distance.is_finite()) {
        let exists = pairs.iter().any(|(e, a)| e.distance(*a) == worst.distance);
        assert!(exists, "{worst:?}");
    }
    assert!(found.worst.is_sorted_by(|a, b| a.used >= b.used));
    if found.nonfinite_mismatched == 0 && !sums_overflow(found) {
        assert_eq!(found.worst.first().and_then(|worst| worst.used).unwrap_or(0.0), found.used.unwrap());
    }
}

#[track_caller]
fn near(found: f64, expected: f64, part: f64) {
    let close =
        found == expected || (found - expected).abs() <= part * expected.abs() || !expected.is_finite();
    assert!(close, "found {found}, expected {expected}");
}

/// The kind of values in a tensor.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// Any bits.
    Any,
    /// Ordinary numbers, with an actual near its golden.
    Near,
    /// As `Near`, with any bits in a few elements.
    Mixed,
}

/// The bytes of a golden and an actual.
fn fill(dtype: Dtype, count: usize, fill: Fill, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let (mut expected, mut actual) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let any = matches!(fill, Fill::Any) || matches!(fill, Fill::Mixed) && random() % 64 == 0;
        let (e, a) = if any || !(dtype.is_float() || dtype == Dtype::Complex64) {
            let e = random();
            (e, if random() % 2 == 0 { e } else { e ^ random() >> (random() % 64) })
        } else {
            let mut number = || ((random() >> 40) as f32 / (1u32 << 24) as f32 - 0.5) * 4.0;
            let (x, noise) = (number(), 1.0 + number() * 0.004);
            let bits = |x: f32| match dtype {
                Dtype::Float16 => u64::from(f16::from_f32(x).to_bits()),
                Dtype::Bfloat16 => u64::from(bf16::from_f32(x).to_bits()),
                Dtype::Float64 => f64::from(x).to_bits(),
                _ => u64::from(x.to_bits()) | u64::from((x * 0.5).to_bits()) << 32,
            };
            (bits(x), bits(x * noise))
        };
        expected.extend_from_slice(&e.to_le_bytes()[..dtype.size()]);
        actual.extend_from_slice(&a.to_le_bytes()[..dtype.size()]);
    }
    (expected, actual)
}

/// The bytes with each element in the other byte order.
fn big_endian(dtype: Dtype, data: &[u8]) -> Vec<u8> {
    let unit = if dtype == Dtype::Complex64 { 4 } else { dtype.size() };
    data.chunks(unit).flat_map(|element| element.iter().rev().copied()).collect()
}

fn plain(dtype: Dtype, view: &TensorView) -> Vec<Plain> {
    let mut data = vec![0; view.len() * dtype.size()];
    view.gather(0, &mut data);
    data.chunks(dtype.size()).map(|element| Plain::new(dtype, element)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_plain_loop(
        dtype in prop::sample::select(Dtype::ALL.to_vec()),
        shape in prop::collection::vec(0usize..14, 0..=2),
        long in prop::sample::select(vec![1usize, 1, 9, 300]),
        layout in 0usize..5,
        values in prop::sample::select(vec![Fill::Any, Fill::Near, Fill::Mixed]),
        (rtol, atol) in prop::sample::select(vec![
            (0.0, 0.0), (1e-2, 0.0), (0.0, 1e-3), (1e-3, 1e-3), (1e-2, 1e-2), (0.5, 3.0), (0.25, 1e18),
        ]),
        nan_equal: bool,
        seed: u64,
    ) {
        let mut shape = shape;
        shape.push(long);
        let count = shape.iter().product::<usize>();
        let (expected, actual) = fill(dtype, count, values, seed);
        // An offset of one byte is unaligned for every dtype larger than one byte.
        let shifted: Vec<u8> = [&[0][..], &actual].concat();
        let swapped = big_endian(dtype, &actual);
        let expected = TensorView::new(dtype, &shape, &expected).unwrap();
        let view = |data| TensorView::new(dtype, &shape, data).unwrap();
        let axes: Vec<usize> = (0..shape.len()).rev().collect();
        let (expected, actual) = match layout {
            0 => (expected, view(&actual)),
            1 => (expected, view(&shifted[1..])),
            2 => (expected, view(&swapped).big_endian()),
            3 => (expected.permute(&axes).unwrap(), view(&actual).permute(&axes).unwrap()),
            _ => (expected.fortran(), view(&actual).fortran()),
        };
        let gate = Some(Gate::Tolerance { rtol, atol, policy: None });
        let rule = Rule { gate, nan_equal, ..Rule::default() };
        let outcome = compare(&expected, &actual, &rule);
        check(&plain(dtype, &expected), &plain(dtype, &actual), &rule, &outcome.metrics.unwrap());
    }
}

#[test]
fn any_number_of_threads_and_any_layout_come_to_the_same() {
    for (dtype, values) in [
        (Dtype::Float32, Fill::Near),
        (Dtype::Float32, Fill::Mixed),
        (Dtype::Bfloat16, Fill::Near),
        (Dtype::Float16, Fill::Mixed),
        (Dtype::Int16, Fill::Any),
        (Dtype::Complex64, Fill::Near),
    ] {
        let shape = [3, 150, 301];
        let (expected, actual) = fill(dtype, shape.iter().product(), values, 7);
        let shifted: Vec<u8> = [&[0][..], &actual].concat();
        let view = |data| TensorView::new(dtype, &shape, data).unwrap();
        for gate in [Gate::Tolerance { rtol: 1e-3, atol: 1e-3, policy: None }, Gate::Noise { k: 8.0 }] {
            let floor = Some(mlx_parity_core::gate::Floor { max: 1e-4, rms: 1e-5 });
            let rule = Rule { gate: Some(gate), floor, ..Rule::default() };
            let text = |threads, actual| {
                let outcome =
                    compare_on(NonZeroUsize::new(threads).unwrap(), &view(&expected), &actual, &rule);
                format!("{outcome:?}")
            };
            let one = text(1, view(&actual));
            assert_eq!(one, text(2, view(&actual)));
            assert_eq!(one, text(3, view(&actual)));
            assert_eq!(one, text(8, view(&actual)));
            assert_eq!(one, text(2, view(&shifted[1..])), "copied block by block");
        }
    }
}
