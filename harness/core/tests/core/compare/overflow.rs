//! A distance, a bound or a sum that overflows float64 never agrees, whatever the gate allows. The oracle scales every
//! number first, so that nothing overflows in it.

use mlx_parity_core::compare::{Comparison, compare};
use mlx_parity_core::gate::Class;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::tensor::{Dtype, TensorView};
use proptest::prelude::*;

/// Numbers near the largest and the smallest float64, and ordinary ones.
const EDGES: [f64; 17] = [
    0.0,
    5e-324,
    1e-300,
    1e-9,
    1.0,
    3.0,
    1e15,
    9.9e29,
    1e30,
    3.3e38,
    1e100,
    1.3e154,
    1e200,
    8.9e307,
    1e308,
    1.7e308,
    f64::MAX,
];

fn tolerance(rtol: f64, atol: f64) -> Rule {
    Rule { gate: Some(Gate::Tolerance { rtol, atol, policy: None }), ..Rule::default() }
}

fn noise(k: f64, floor: Floor) -> Rule {
    Rule { gate: Some(Gate::Noise { k }), floor: Some(floor), ..Rule::default() }
}

fn compared(dtype: Dtype, expected: &[u8], actual: &[u8], rule: &Rule) -> Comparison {
    let view = |data| TensorView::new(dtype, &[expected.len() / dtype.size()], data).unwrap();
    compare(&view(expected), &view(actual), rule)
}

fn float64(expected: &[f64], actual: &[f64], rule: &Rule) -> Comparison {
    compared(Dtype::Float64, bytemuck::cast_slice(expected), bytemuck::cast_slice(actual), rule)
}

/// `|actual - expected|` and `atol + rtol * |expected|`, both times a power of two that makes the largest part about 1.
fn scaled(e: f64, a: f64, rtol: f64, atol: f64) -> (f64, f64) {
    let exponent = |x: f64| if x == 0.0 { -3000 } else { libm::frexp(x).1 };
    let top =
        [exponent(e), exponent(a), exponent(atol), exponent(rtol) + exponent(e)].into_iter().max().unwrap();
    let down = |x: f64| libm::ldexp(x, -top);
    let part = libm::frexp(rtol);
    ((down(a) - down(e)).abs(), down(atol) + part.0 * libm::ldexp(e.abs(), part.1 - top))
}

/// Expects that no infinite or NaN metric is printed beside `ok`.
#[track_caller]
fn shows_only_numbers(outcome: &Comparison) {
    let difference = outcome.metrics.as_ref().unwrap().difference.as_ref().unwrap();
    let used = difference.used.unwrap();
    assert!(!used.is_nan(), "{outcome:?}");
    if outcome.passed() {
        let shown = [used, difference.max_abs, difference.sum_abs, difference.rms];
        assert!(shown.iter().all(|x| x.is_finite()), "{outcome:?}");
        // The ratio is infinite for a constant golden.
        assert!(!difference.range_ratio.is_nan(), "{outcome:?}");
        assert!(used <= 1.0, "{outcome:?}");
    } else {
        assert!(used > 1.0, "{outcome:?}");
    }
}

#[test]
fn numbers_at_both_ends_of_float64_differ() {
    for (rtol, atol) in [(1.5, 0.0), (3.0, 0.0), (1e300, 0.0), (0.0, f64::MAX), (1.5, f64::MAX)] {
        for count in [1, 5000] {
            let (e, a) = (vec![1.7e308; count], vec![-1.7e308; count]);
            let outcome = float64(&e, &a, &tolerance(rtol, atol));
            assert_eq!(outcome.class, Some(Class::Value), "{rtol} {atol}");
            assert!(outcome.detail.contains("float64, so"), "{}", outcome.detail);
            shows_only_numbers(&outcome);
        }
    }
}

#[test]
fn a_bound_that_overflows_allows_nothing_but_the_same_number() {
    let rule = tolerance(1e300, 0.0);
    let outcome = float64(&[1e20, 1e20], &[1e20, 1.1e20], &rule);
    assert_eq!(outcome.class, Some(Class::Value));
    assert_eq!(outcome.metrics.as_ref().unwrap().difference.as_ref().unwrap().mismatched, Some(1));
    shows_only_numbers(&outcome);
    assert!(float64(&[1e20; 5000], &[1e20; 5000], &rule).passed());
    // The rule is the same for every other dtype.
    let (e, a) = ([1e30f32; 2], [2e30f32; 2]);
    assert_eq!(
        compared(Dtype::Float32, bytemuck::bytes_of(&e), bytemuck::bytes_of(&a), &tolerance(1e300, 0.0))
            .class,
        Some(Class::Value)
    );
    let (e, a) = ([u64::MAX; 2], [0u64; 2]);
    assert_eq!(
        compared(Dtype::Uint64, bytemuck::bytes_of(&e), bytemuck::bytes_of(&a), &tolerance(1e300, 0.0)).class,
        Some(Class::Value)
    );
    let (e, a) = ([3e38f32, 3e38], [-3e38f32, -3e38]);
    assert_eq!(
        compared(Dtype::Complex64, bytemuck::bytes_of(&e), bytemuck::bytes_of(&a), &tolerance(1e300, 0.0))
            .class,
        Some(Class::Value)
    );
}

#[test]
fn what_only_float32_cannot_hold_is_measured_in_float64() {
    let (e, a) = ([half::bf16::MAX], [half::bf16::MIN]);
    let outcome =
        compared(Dtype::Bfloat16, bytemuck::cast_slice(&e), bytemuck::cast_slice(&a), &tolerance(2.5, 0.0));
    assert!(outcome.passed(), "{}", outcome.detail);
    shows_only_numbers(&outcome);
    let difference = outcome.metrics.unwrap().difference.unwrap();
    assert_eq!((difference.max_abs, difference.used), (2.0 * half::bf16::MAX.to_f64(), Some(0.8)));
}

#[test]
fn sums_that_overflow_never_agree() {
    // Every element is within its bound of 1e210, but the squares overflow.
    let outcome = float64(&[1.0; 3], &[1e200, -1e200, 1e200], &tolerance(1e210, 0.0));
    assert_eq!(outcome.class, Some(Class::Value), "{}", outcome.detail);
    assert!(outcome.detail.contains("float64, so"), "{}", outcome.detail);
    shows_only_numbers(&outcome);
    let floor = Floor { max: 1e29, rms: 1e-3 };
    let outcome = float64(&[1.0; 4], &[1e200, -1e200, f64::MAX, f64::MIN], &noise(1e300, floor));
    assert_eq!(outcome.class, Some(Class::Value), "{}", outcome.detail);
    shows_only_numbers(&outcome);
}

#[test]
fn floors_that_overflow_never_agree() {
    let small = Floor { max: 1e-3, rms: 1e-4 };
    let outcome = float64(&[1.0], &[1.0001], &noise(1e308, Floor { max: 1e20, ..small }));
    assert_eq!(outcome.class, Some(Class::Value), "{}", outcome.detail);
    shows_only_numbers(&outcome);
    // A fill value has the bound `k * eps * |expected|`.
    let outcome = float64(&[1.0, 1.7e308], &[1.0, -1.7e308], &noise(1e300, small));
    assert_eq!(outcome.class, Some(Class::Value), "{}", outcome.detail);
    // Elements of 1e30 and more do not count for a floor, so no floor is so large.
    for floor in [Floor { max: 1e300, ..small }, Floor { max: 1e300, rms: 1e300 }] {
        let outcome = float64(&[1.0], &[5.0], &noise(8.0, floor));
        assert_eq!(outcome.class, Some(Class::Corrupt), "{}", outcome.detail);
    }
}

fn edge() -> impl Strategy<Value = f64> {
    let sign = prop::sample::select(vec![-1.0, 1.0]);
    let near = prop_oneof![2 => Just(1.0), 1 => 0.5f64..1.0];
    (prop::sample::select(EDGES.to_vec()), sign, near).prop_map(|(x, sign, near)| x * sign * near)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// One pair, alone or among thousands that agree, passes exactly if the scaled oracle lets it pass and nothing
    /// overflows.
    #[test]
    fn a_pair_agrees_as_the_scaled_oracle_says(
        e in edge(),
        a in edge(),
        rtol in prop::sample::select(vec![0.0, 1e-3, 0.5, 1.5, 2.0, 3.0, 1e10, 1e30, 1e31, 1e160, 1e300, f64::MAX]),
        atol in prop::sample::select(vec![0.0, 1e-3, 1e30, 1e200, 1e300, 1e308, f64::MAX]),
        among in prop::sample::select(vec![0usize, 5000]),
    ) {
        let (distance, bound) = scaled(e, a, rtol, atol);
        // A subnormal product is rounded to whole steps, but not in the oracle.
        prop_assume!(rtol * e.abs() >= f64::MIN_POSITIVE || rtol * e == 0.0);
        // Within a few roundings of the bound the two may differ.
        prop_assume!((distance - bound).abs() > 1e-12 * bound.max(distance) || e == a);
        let overflows = !(a - e).is_finite() || !(atol + rtol * e.abs()).is_finite();
        let squares = if e.abs() < 1e30 { (a - e) * (a - e) } else { 0.0 };
        let agrees = e == a || !overflows && distance <= bound && squares.is_finite();
        let (mut expected, mut actual) = (vec![2.0; among], vec![2.0; among]);
        expected.insert(among / 2, e);
        actual.insert(among / 2, a);
        let outcome = float64(&expected, &actual, &tolerance(rtol, atol));
        prop_assert_eq!(outcome.passed(), agrees, "{:e} {:e} {:e} {:e}: {}", e, a, rtol, atol, outcome.detail);
        shows_only_numbers(&outcome);
    }

    /// A pair that passes a noise gate is finite and within its bound.
    #[test]
    fn a_noise_gate_passes_nothing_that_overflows(
        pairs in prop::collection::vec((edge(), edge(), any::<bool>()), 1..6),
        k in prop::sample::select(vec![1e-3, 8.0, 1e20, 1e200, 1e300, f64::MAX]),
        max in prop::sample::select(vec![0.0, 1e-3, 1e20, 1.9e30, 1e100, f64::MAX]),
    ) {
        let (expected, actual): (Vec<f64>, Vec<f64>) =
            pairs.iter().map(|&(e, a, same)| (e, if same { e } else { a })).unzip();
        let outcome = float64(&expected, &actual, &noise(k, Floor { max, rms: 0.0 }));
        shows_only_numbers_of_noise(&outcome);
        for (e, a) in expected.iter().zip(&actual) {
            prop_assert!(!outcome.passed() || (a - e).is_finite(), "{}", outcome.detail);
        }
    }
}

#[track_caller]
fn shows_only_numbers_of_noise(outcome: &Comparison) {
    if outcome.passed() {
        shows_only_numbers(outcome);
    }
    let used = outcome.metrics.as_ref().unwrap().difference.as_ref().unwrap().used;
    assert!(used.is_some_and(|used| !used.is_nan()), "{outcome:?}");
}
