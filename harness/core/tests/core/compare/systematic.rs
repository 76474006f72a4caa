//! Rounding never gives a systematic error. A wrong factor or offset does, also far inside a noise gate.

use mlx_parity_core::compare::{Comparison, SystematicKind, compare};
use mlx_parity_core::gate::{Class, Floor, Gate, Rule};
use mlx_parity_core::tensor::{Dtype, TensorView};
use proptest::prelude::*;

use super::{bytes, difference};

/// The floor of all tests, for goldens of about 1.
const FLOOR: f64 = 1.5e-4;

fn rule(judge_systematic: bool) -> Rule {
    let floor = Some(Floor { max: 8.0 * FLOOR, rms: FLOOR });
    Rule { gate: Some(Gate::Noise { k: 8.0 }), floor, judge_systematic, ..Rule::default() }
}

/// Numbers between -1 and 1, from a seed.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Compares a golden of about normal numbers with `change(channel, golden)` plus noise of `noise` floors.
fn judge(shape: &[usize], seed: u64, noise: f64, rule: &Rule, change: fn(usize, f64) -> f64) -> Comparison {
    let (mut next, channels) = (numbers(seed), shape[shape.len() - 1]);
    let expected: Vec<f32> = (0..shape.iter().product()).map(|_| (next() + next() + next()) as f32).collect();
    let actual: Vec<f32> = expected
        .iter()
        .enumerate()
        .map(|(i, &e)| (change(i % channels, e.into()) + noise * FLOOR * 3f64.sqrt() * next()) as f32)
        .collect();
    let (expected, actual) = (bytes(&expected), bytes(&actual));
    let view = |data| TensorView::new(Dtype::Float32, shape, data).unwrap();
    compare(&view(&expected), &view(&actual), rule)
}

#[track_caller]
fn check(kind: SystematicKind, words: &str, change: fn(usize, f64) -> f64) {
    for shape in [&[3, 40, 24][..], &[300, 4096]] {
        let outcome = judge(shape, 7, 1.0, &rule(true), change);
        assert_eq!(outcome.class, Some(Class::Systematic), "{}", outcome.detail);
        assert!(outcome.detail.contains(words), "{}", outcome.detail);
        let found = difference(outcome);
        assert!(found.used.unwrap() <= 1.0, "the error is inside the gate");
        assert_eq!(found.systematic.unwrap().kind, kind);
    }
    let shown = judge(&[3, 40, 24], 7, 1.0, &rule(false), change);
    assert!(shown.passed(), "not judged");
    assert!(shown.detail.contains("not judged: "), "{}", shown.detail);
    assert!(shown.detail.contains(words), "{}", shown.detail);
}

#[test]
fn a_factor_below_the_gate_is_systematic() {
    let words = "inside the gate, but the actual is the golden times (1 + 0.00";
    check(SystematicKind::Factor, words.trim_start_matches("inside the gate, but "), |_, e| e * 1.001);
    let outcome = judge(&[3, 40, 24], 7, 1.0, &rule(true), |_, e| e * 1.001);
    assert!(outcome.detail.starts_with(words), "{}", outcome.detail);
}

#[test]
fn an_offset_below_the_gate_is_systematic() {
    check(SystematicKind::Offset, "the actual is the golden - 0.0", |_, e| e - 1e-3);
}

#[test]
fn a_factor_per_channel_below_the_gate_is_systematic() {
    let words = "each channel of the actual is the golden times a factor of its own";
    check(
        SystematicKind::ChannelFactor,
        words,
        |channel, e| {
            if channel % 2 == 0 { e * 1.001 } else { e * 0.999 }
        },
    );
}

#[test]
fn an_error_outside_the_gate_stays_a_wrong_value() {
    let outcome = judge(&[3, 40, 24], 7, 1.0, &rule(true), |_, e| e * 1.01);
    assert_eq!(outcome.class, Some(Class::Value));
    assert_eq!(difference(outcome).systematic, None);
}

#[test]
fn a_handful_of_elements_proves_nothing() {
    let few = judge(&[15], 7, 0.0, &rule(true), |_, e| e * 1.0009);
    assert!(few.passed(), "{}", few.detail);
    let none = judge(&[0, 4], 7, 0.0, &rule(true), |_, e| e * 1.001);
    assert_ne!(none.class, Some(Class::Systematic), "{}", none.detail);
}

#[test]
fn fill_values_and_infinities_do_not_enter_the_fit() {
    let mut expected: Vec<f32> = (0..640).map(|i| ((i * 37 % 211) as f32 - 105.0) / 64.0).collect();
    (expected[3], expected[200]) = (-3.4e38, f32::NEG_INFINITY);
    let actual: Vec<f32> = expected.iter().map(|&e| if e.abs() < 1e30 { e * 1.001 } else { e }).collect();
    let (expected, actual) = (bytes(&expected), bytes(&actual));
    let view = |data| TensorView::new(Dtype::Float32, &[40, 16], data).unwrap();
    let outcome = compare(&view(&expected), &view(&actual), &rule(true));
    assert_eq!(outcome.class, Some(Class::Systematic), "{}", outcome.detail);
    let found = difference(outcome).systematic.unwrap();
    assert!((found.value - 1e-3).abs() < 1e-6, "{found:?}");
}

proptest! {
    #[test]
    fn rounding_is_never_systematic(
        seed in 1u64..,
        rows in 1usize..200,
        channels in 1usize..70,
        noise in 0.5f64..4.5,
    ) {
        let outcome = judge(&[rows, channels], seed, noise, &rule(true), |_, e| e);
        prop_assert!(outcome.class != Some(Class::Systematic), "{}", outcome.detail);
    }

    /// Both sides round numbers that differ by noise, so most elements are equal and some are one step apart.
    #[test]
    fn rounding_to_bfloat16_is_never_systematic(
        seed in 1u64..,
        rows in 1usize..200,
        channels in 1usize..70,
        noise in 1e-4f64..1e-2,
    ) {
        let mut next = numbers(seed);
        let round = |x: f64| half::bf16::from_f64(x).to_le_bytes();
        let (mut expected, mut actual) = (Vec::new(), Vec::new());
        for _ in 0..rows * channels {
            let x = next() + next() + next();
            expected.extend(round(x));
            actual.extend(round(x * (1.0 + noise * next())));
        }
        let view = |data| TensorView::new(Dtype::Bfloat16, &[rows, channels], data).unwrap();
        let fine = Rule { floor: Some(Floor { max: 8e-3, rms: 1e-3 }), ..rule(true) };
        let outcome = compare(&view(&expected), &view(&actual), &fine);
        prop_assert!(outcome.class != Some(Class::Systematic), "{}", outcome.detail);
    }
}
