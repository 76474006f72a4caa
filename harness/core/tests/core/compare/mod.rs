//! For every class of mismatch, a tensor that is wrong in this way gets exactly this class.

mod allclose;
mod choices;
mod naive;
mod overflow;
mod systematic;

use mlx_parity_core::compare::{Comparison, Difference, compare, examine};
use mlx_parity_core::gate::Class;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::number::ElementValue;
use mlx_parity_core::tensor::{Dtype, TensorView};

/// More than one block, so that both tiers run.
const SHAPE: [usize; 3] = [3, 7, 200];

fn golden() -> Vec<f32> {
    (0..4200).map(|i| ((i * 37 % 211) as f32 - 105.0) / 64.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn judge(expected: &[f32], actual: &[f32], rule: &Rule) -> Comparison {
    let (expected, actual) = (bytes(expected), bytes(actual));
    let expected = TensorView::new(Dtype::Float32, &SHAPE, &expected).unwrap();
    let actual = TensorView::new(Dtype::Float32, &SHAPE, &actual).unwrap();
    compare(&expected, &actual, rule)
}

fn difference(outcome: Comparison) -> Difference {
    outcome.metrics.unwrap().difference.unwrap()
}

fn tolerance(rtol: f64, atol: f64) -> Rule {
    Rule { gate: Some(Gate::Tolerance { rtol, atol, policy: None }), ..Rule::default() }
}

fn noise(max: f64, rms: f64) -> Rule {
    Rule { gate: Some(Gate::Noise { k: 8.0 }), floor: Some(Floor { max, rms }), ..Rule::default() }
}

type Mismatch = (&'static str, fn(&mut Vec<f32>), Class);

const MISMATCHES: &[Mismatch] = &[
    ("rows swapped", |t| t.rotate_left(100), Class::Value),
    ("one element wrong", |t| t[777] += 1e-3, Class::Value),
    ("one element wrong in the last, partial block", |t| t[4199] += 1e-3, Class::Value),
    ("one NaN", |t| t[4] = f32::NAN, Class::Finite),
    ("one infinity", |t| t[4150] = f32::NEG_INFINITY, Class::Finite),
    ("all zero", |t| t.fill(0.0), Class::Value),
    ("scaled by a thousandth more", |t| t.iter_mut().for_each(|x| *x *= 1.001), Class::Value),
];

#[test]
fn each_mismatch_has_its_class_under_either_gate() {
    let golden = golden();
    for rule in [tolerance(1e-5, 1e-5), tolerance(0.0, 1e-5), noise(2e-7, 5e-8)] {
        assert_eq!(judge(&golden, &golden, &rule).class, None);
        for (name, change, class) in MISMATCHES {
            let mut actual = golden.clone();
            change(&mut actual);
            assert_eq!(judge(&golden, &actual, &rule).class, Some(*class), "{name} under {rule:?}");
        }
    }
}

#[test]
fn shapes_come_before_dtypes_and_both_before_values() {
    let data = bytes(&golden());
    let view = |dtype, shape: &[usize]| TensorView::new(dtype, shape, &data).unwrap();
    let rule = tolerance(1e-5, 1e-5);
    let expected = view(Dtype::Float32, &SHAPE);

    let outcome = compare(&expected, &view(Dtype::Int32, &[3, 200, 7]), &rule);
    assert_eq!((outcome.class, outcome.metrics), (Some(Class::Shape), None));
    assert_eq!(outcome.detail, "expected shape [3, 7, 200], actual [3, 200, 7]");

    let outcome = compare(&expected, &view(Dtype::Int32, &SHAPE), &rule);
    assert_eq!(
        (outcome.class, outcome.detail.as_str()),
        (Some(Class::Dtype), "expected float32, actual int32")
    );
    let metrics = outcome.metrics.unwrap();
    assert_eq!(metrics.difference, None);
    assert_eq!(metrics.expected.unwrap().min, -105.0 / 64.0);
    assert_eq!(metrics.actual.first[0], ElementValue::Int(i64::from((-105f32 / 64.0).to_bits() as i32)));
}

#[test]
fn a_range_is_looked_at_last() {
    let golden = golden();
    let rule = Rule { range: Some((-1.7, 1.6)), ..tolerance(1e-5, 1e-5) };
    let outcome = judge(&golden, &golden, &rule);
    assert_eq!(outcome.class, Some(Class::Range));
    assert_eq!(outcome.detail, "actual has values from -1.64062 to 1.64062, allowed: -1.7 to 1.6");
    let mut wrong = golden.clone();
    wrong[0] = 0.0;
    assert_eq!(judge(&golden, &wrong, &rule).class, Some(Class::Value));
    assert!(judge(&golden, &golden, &Rule { range: Some((-1.7, 1.7)), ..tolerance(0.0, 0.0) }).passed());
}

#[test]
fn infinities_agree_with_themselves_and_nan_only_when_asked() {
    let mut golden = golden();
    golden[3] = f32::INFINITY;
    golden[1500] = f32::NEG_INFINITY;
    assert!(judge(&golden, &golden, &tolerance(1e-5, 1e-5)).passed());
    let mut other = golden.clone();
    other[1500] = f32::INFINITY;
    assert_eq!(judge(&golden, &other, &tolerance(1e-5, 1e-5)).class, Some(Class::Finite));

    golden[9] = f32::NAN;
    assert_eq!(judge(&golden, &golden, &tolerance(1e-5, 1e-5)).class, Some(Class::Finite));
    let rule = Rule { nan_equal: true, ..tolerance(1e-5, 1e-5) };
    assert!(judge(&golden, &golden, &rule).passed());
    let mut other = golden.clone();
    other[9] = 1.0;
    let outcome = judge(&golden, &other, &rule);
    assert_eq!(outcome.class, Some(Class::Finite));
    assert_eq!(
        outcome.detail,
        "1 element is NaN or infinite on one side and different on the other, first [0, 0, 9]: expected NaN, actual 1"
    );
}

#[test]
fn without_a_gate_values_are_not_judged_but_finiteness_is() {
    let golden = golden();
    let zero = vec![0.0; golden.len()];
    assert!(judge(&golden, &zero, &Rule::default()).passed());
    let nan = vec![f32::NAN; golden.len()];
    assert_eq!(judge(&golden, &nan, &Rule::default()).class, Some(Class::Finite));
}

#[test]
fn a_noise_gate_needs_a_floor_it_can_use() {
    let golden = golden();
    let outcome = judge(&golden, &golden, &Rule { floor: None, ..noise(0.0, 0.0) });
    assert_eq!(outcome.class, Some(Class::Missing));
    assert!(outcome.detail.contains("cargo xtask regenerate-fixtures"), "{}", outcome.detail);
    assert!(outcome.metrics.is_some_and(|metrics| metrics.difference.is_some()));
    for (max, rms) in [(f64::NAN, 0.0), (0.0, f64::INFINITY), (-1.0, 0.0)] {
        assert_eq!(judge(&golden, &golden, &noise(max, rms)).class, Some(Class::Corrupt));
    }
}

#[test]
fn a_floor_above_a_tenth_of_the_golden_is_untestable() {
    let golden = golden();
    let rms = (golden.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 4200.0).sqrt();
    assert_eq!(judge(&golden, &golden, &noise(1.0, 0.1001 * rms)).class, Some(Class::Untestable));
    assert_eq!(judge(&golden, &golden, &noise(1.0, 0.0999 * rms)).class, None);
    let mut actual = golden.clone();
    actual[0] = f32::NAN;
    assert_eq!(judge(&golden, &actual, &noise(1.0, rms)).class, Some(Class::Finite));
}

#[test]
fn a_local_floor_is_judged_like_any_other_and_named() {
    let golden = golden();
    let mut actual = golden.clone();
    actual[7] += 9e-6;
    for (k, class) in [(8.0, Some(Class::Value)), (20.0, None)] {
        let whole = Rule { gate: Some(Gate::Noise { k }), ..noise(1e-6, 1e-6) };
        let local = judge(&golden, &actual, &Rule { is_local: true, ..whole.clone() });
        let whole = judge(&golden, &actual, &whole);
        assert_eq!((local.class, whole.class), (class, class));
        assert_eq!(local.detail, whole.detail.replace("the floor", "the local floor"));
        assert!(local.detail.contains("the local floor"), "{}", local.detail);
    }
}

#[test]
fn both_parts_of_a_noise_gate_decide() {
    let golden = golden();
    // Every element is off by 4e-6: no element stands out, but the rms is 40 times its floor.
    let shifted: Vec<f32> = golden.iter().map(|x| x + 4e-6).collect();
    let outcome = judge(&golden, &shifted, &noise(1e-6, 1e-7));
    assert_eq!(outcome.class, Some(Class::Value));
    let found = difference(outcome);
    let times = found.times_floor.unwrap();
    assert!((times.rms - 40.0).abs() < 1.0 && times.max < 8.0, "{times:?}");
    assert_eq!(found.mismatched, Some(0));

    // One element is off by 4e-6: the rms does not show it.
    let mut single = golden.clone();
    single[2400] += 4e-6;
    let outcome = judge(&golden, &single, &noise(2e-7, 1e-7));
    assert_eq!(outcome.class, Some(Class::Value));
    let found = difference(outcome);
    let times = found.times_floor.unwrap();
    assert!(times.rms < 8.0 && times.max > 8.0, "{times:?}");
    assert_eq!(found.mismatched, Some(1));
    assert_eq!(found.worst[0].index, [1, 5, 0]);
}

#[test]
fn fill_values_do_not_hide_errors_from_a_noise_gate() {
    let mut golden = golden();
    golden.iter_mut().step_by(5).for_each(|x| *x = f32::MIN);
    let rule = noise(2e-7, 5e-8);
    assert!(judge(&golden, &golden, &rule).passed());
    let mut wrong = golden.clone();
    wrong[1] += 1e-3;
    assert_eq!(judge(&golden, &wrong, &rule).class, Some(Class::Value), "an element next to fill values");
    let mut wrong = golden.clone();
    wrong[5] = -1e4;
    let outcome = judge(&golden, &wrong, &rule);
    assert_eq!(outcome.class, Some(Class::Value), "another fill value");
    assert!(outcome.detail.contains("1 fill value differs"), "{}", outcome.detail);
}

#[test]
fn an_examined_tensor_must_be_finite_and_in_its_range() {
    let mut values = golden();
    let rule = Rule { range: Some((-2.0, 2.0)), ..Rule::default() };
    let look = |values: &[f32], rule: &Rule| {
        let data = bytes(values);
        examine(&TensorView::new(Dtype::Float32, &SHAPE, &data).unwrap(), rule)
    };
    assert!(look(&values, &rule).passed());
    values[2000] = f32::NAN;
    let allowed = Rule { nan_equal: true, ..Rule::default() };
    assert!(look(&values, &allowed).passed());
    assert_eq!(look(&values, &Rule::default()).class, Some(Class::Finite));
    let outcome = look(&values, &rule);
    assert_eq!(outcome.class, Some(Class::Finite));
    assert_eq!(
        outcome.detail,
        "actual has 1 NaN, but there is no golden to compare with; write `nan: equal` to allow them"
    );
    let in_range = Rule { nan_equal: true, ..rule.clone() };
    assert_eq!(look(&values, &in_range).class, Some(Class::Range));
    let metrics = outcome.metrics.unwrap();
    assert_eq!((metrics.actual.nan, metrics.expected, metrics.difference), (1, None, None));
    values[2000] = f32::INFINITY;
    assert_eq!(look(&values, &rule).class, Some(Class::Finite));
    assert_eq!(look(&values, &Rule::default()).class, Some(Class::Finite));
    let open = Rule { range: Some((-2.0, f64::INFINITY)), ..Rule::default() };
    assert!(look(&values, &open).passed());
}

#[test]
fn empty_tensors_and_scalars_are_compared() {
    let empty = TensorView::new(Dtype::Float32, &[0, 3], &[]).unwrap();
    for rule in [tolerance(0.0, 0.0), noise(0.0, 0.0)] {
        let outcome = compare(&empty, &empty, &rule);
        assert!(outcome.passed());
        assert_eq!(difference(outcome).exact_fraction, 1.0);
    }
    let (one, two) = (1u64.to_le_bytes(), 2u64.to_le_bytes());
    let one = TensorView::new(Dtype::Uint64, &[], &one).unwrap();
    let two = TensorView::new(Dtype::Uint64, &[], &two).unwrap();
    let outcome = compare(&one, &two, &tolerance(0.0, 0.0));
    assert_eq!(outcome.class, Some(Class::Value));
    let found = difference(outcome);
    assert_eq!((found.max_ulp, found.worst[0].index.len()), (None, 0));
}

#[test]
fn a_failing_tolerance_says_where_and_by_how_much() {
    let golden = golden();
    let mut actual = golden.clone();
    actual[1000] += 0.25;
    actual[1001] += 0.125;
    let outcome = judge(&golden, &actual, &tolerance(0.0, 0.1));
    assert_eq!(
        outcome.detail,
        "2 of 4200 elements outside, worst [0, 5, 0]: expected -0.46875, actual -0.21875, off by 0.25 (2.5x the bound)"
    );
    let found = difference(outcome);
    assert_eq!((found.mismatched, found.used), (Some(2), Some(2.5)));
    assert_eq!(found.mismatched_fraction, Some(2.0 / 4200.0));
    assert_eq!((found.max_abs, found.sum_abs), (0.25, 0.375));
    assert_eq!(found.exact_fraction, 4198.0 / 4200.0);
    assert_eq!(found.worst.len(), 2);
    assert_eq!((found.quantiles.sample, found.quantiles.stride), (4200, 1));
}

/// Goldens of zero in the first block and in a later one, where the actual is further off.
#[test]
fn the_relative_distance_of_a_zero_is_seen_in_every_block() {
    for (dtype, small, large) in [(Dtype::Float16, 0x1000u16, 0x2000u16), (Dtype::Bfloat16, 0x3a00, 0x3c00)] {
        let mut expected = vec![0x3c00u16; 3 * 4096];
        let mut actual = expected.clone();
        (expected[5], actual[5]) = (0, small);
        (expected[9000], actual[9000]) = (0, large);
        let view = |values| TensorView::new(dtype, &[3 * 4096], bytemuck::cast_slice(values)).unwrap();
        let gate = Some(Gate::Tolerance { rtol: 1.0, atol: 1.0, policy: None });
        let outcome = compare(&view(&expected), &view(&actual), &Rule { gate, ..Rule::default() });
        let value = match dtype {
            Dtype::Float16 => half::f16::from_bits(large).to_f64(),
            _ => half::bf16::from_bits(large).to_f64(),
        };
        assert_eq!(outcome.metrics.unwrap().difference.unwrap().max_rel, value / 1e-8, "{dtype}");
    }
}

#[test]
fn what_must_differ_and_does_not_is_a_value() {
    let golden = golden();
    let off: Vec<f32> = golden.iter().map(|x| x * 1.02).collect();
    let rule = tolerance(0.05, 0.0);
    assert!(judge(&golden, &off, &rule).at_least(0.019).passed());
    let near = judge(&golden, &off, &rule).at_least(0.021);
    assert_eq!(near.class, Some(Class::Value));
    assert!(near.detail.starts_with("differs by 2 %, expected at least 2.1 %: "), "{}", near.detail);
    let same = judge(&golden, &golden, &rule).at_least(0.005);
    assert!(same.detail.starts_with("differs by 0 %, expected at least 0.5 %: "), "{}", same.detail);
    // An earlier failure keeps its class.
    let far: Vec<f32> = golden.iter().map(|x| x * 2.0).collect();
    assert_eq!(judge(&golden, &far, &rule).at_least(3.0).detail, judge(&golden, &far, &rule).detail);
    let (golden, actual) = (vec![f32::NAN; 4200], vec![1.0; 4200]);
    assert_eq!(judge(&golden, &actual, &rule).at_least(0.5).class, Some(Class::Finite));
}
