//! Errors that nothing explains stay unexplained, and no input causes a panic.

use mlx_parity_core::diagnose::{Budget, FailingCheckpoint, NoKnownTensors, diagnose};
use mlx_parity_core::gate::Rule;
use mlx_parity_core::tensor::{Dtype, Tensor};
use proptest::prelude::*;
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

#[rstest]
fn another_matrix(#[values(Dtype::Float32, Dtype::Bfloat16)] dtype: Dtype) {
    // A linear layer whose matrix is a little off, or a different one.
    let (x, w, other) =
        (Dice::new(80).normals(12 * 16), Dice::new(81).normals(256), Dice::new(82).normals(256));
    let of = |w: &[f64]| -> Vec<f64> {
        (0..12 * 16).map(|i| (0..16).map(|k| x[i / 16 * 16 + k] * w[i % 16 * 16 + k]).sum()).collect()
    };
    let case = Case::new(dtype, &[12, 16], &of(&w)).before("x", &[12, 16], &x);
    let near: Vec<f64> = w.iter().zip(&other).map(|(w, o)| w + 0.05 * o).collect();
    case.is_unexplained(&of(&near));
    let turned: Vec<f64> = (0..256).map(|i| w[i % 16 * 16 + i / 16]).collect();
    case.is_unexplained(&of(&turned));
}

#[rstest]
fn two_mistakes_at_once(#[values(Dtype::Float32, Dtype::Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[6, 24], 83);
    let noise = Dice::new(84).normals(144);
    let actual: Vec<f64> = case.golden.iter().zip(&noise).map(|(x, n)| 1.5 * x + 0.2 * n * x.abs()).collect();
    case.is_unexplained(&actual);
}

#[rstest]
fn a_few_elements(#[values(Dtype::Float32, Dtype::Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[6, 24], 85);
    let mut actual = case.golden.clone();
    actual[17] += 3.0;
    actual[100] -= 2.0;
    case.is_unexplained(&actual);
}

#[test]
fn without_work_left_nothing_is_explained() {
    let case = Case::normal(Dtype::Float32, &[16, 64], 94);
    let twice: Vec<f64> = case.golden.iter().map(|x| 2.0 * x).collect();
    assert_eq!(case.within(&Budget::new(1 << 20), &twice).len(), 1);
    let budget = Budget::new(2000);
    assert_eq!(case.within(&budget, &twice), []);
    assert_eq!(budget.left(), 0);
}

#[test]
fn a_complex_table_beside_a_real_one_of_the_same_shape() {
    let table = Dice::new(86).normals(256);
    let tensor = |values: &[f64]| {
        let bytes = values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Complex64, vec![8, 16], bytes).unwrap()
    };
    let (expected, actual) =
        (tensor(&table), tensor(&Dice::new(87).normals(256).iter().map(|x| 3.0 * x).collect::<Vec<_>>()));
    let rule = Rule::default();
    let surroundings = Case::normal(Dtype::Float32, &[8, 16], 88).before("freqs", &[8, 16], &table[..128]);
    let checkpoint = FailingCheckpoint {
        name: "freqs_cis",
        stage: None,
        expected: expected.view(),
        actual: actual.view(),
        rule: &rule,
        known: surroundings.surroundings(),
        recipe: None,
        budget: &Budget::of_a_run(),
    };
    assert_eq!(diagnose(&checkpoint).causes, []);
}

#[test]
fn an_empty_stream_beside_a_full_one() {
    let (x, other) = (Dice::new(89).normals(48), Dice::new(90).normals(48));
    let case = Case::new(Dtype::Float32, &[1, 6, 8], &x).before("cache", &[1, 0, 8], &[]).before(
        "x",
        &[1, 6, 8],
        &other,
    );
    case.is_unexplained(&Dice::new(91).normals(48));
}

#[test]
fn one_tiny_number_does_not_hide_a_factor() {
    let case = Case::normal(Dtype::Float32, &[64, 64], 92);
    let mut actual: Vec<f64> = case.golden.iter().map(|x| 1.5 * x).collect();
    actual[7] = 1e-40;
    let kinds: Vec<&str> = case.causes(&case.shape, &actual).iter().map(|cause| cause.kind.name()).collect();
    assert!(!kinds.contains(&"subnormal"), "{kinds:?}");
}

#[test]
fn a_large_activation_is_no_mask() {
    let mut case = Case::normal(Dtype::Float32, &[64, 64], 93);
    case.golden[9] = -12_000.0;
    let mut actual = case.golden.clone();
    actual[9] = -9_000.0;
    case.is_unexplained(&actual);
}

#[test]
fn a_transposed_mask_is_transposed() {
    let mask: Vec<f64> =
        (0..48).map(|i| if i % 5 == 0 { f64::NEG_INFINITY } else { f64::from(i).sin() }).collect();
    let case = Case::new(Dtype::Float32, &[6, 8], &mask);
    case.is_shaped(
        &[8, 6],
        &crate::diagnose::kit::permuted(&[6, 8], &mask, &[1, 0]),
        "axes_permuted",
        &["[1, 0]"],
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random numbers of any kind and shape get at most three causes and three facts.
    #[test]
    fn nothing_panics(
        dtype in prop::sample::select(Dtype::ALL.to_vec()),
        shape in prop::collection::vec(0..7usize, 0..5),
        other in prop::collection::vec(0..7usize, 0..5),
        same: bool,
        seed: u64,
    ) {
        let other = if same { shape.clone() } else { other };
        let mut state = seed | 1;
        let mut bytes = |count: usize| -> Vec<u8> {
            (0..count).map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if dtype == Dtype::Bool { (state >> 33) as u8 & 1 } else { (state >> 33) as u8 }
            }).collect()
        };
        let mut make = |shape: &[usize]| {
            let count = shape.iter().product::<usize>() * dtype.size();
            Tensor::from_vec(dtype, shape.to_vec(), bytes(count)).unwrap()
        };
        let (expected, actual) = (make(&shape), make(&other));
        let rule = Rule::default();
        let checkpoint = FailingCheckpoint { name: "x", stage: None, expected: expected.view(), actual: actual.view(), rule: &rule, known: &NoKnownTensors, recipe: None, budget: &Budget::of_a_run() };
        let diagnosis = diagnose(&checkpoint);
        prop_assert!(diagnosis.causes.len() <= 3 && diagnosis.facts.len() <= 3);
        prop_assert!(diagnosis.causes.iter().all(|cause| cause.residual.part <= 0.2), "every cause leaves little");
    }
}
