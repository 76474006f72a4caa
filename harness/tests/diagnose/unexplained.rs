//! What nothing explains is left unexplained, and nothing makes it panic.

use mlx_parity::compare::Rule;
use mlx_parity::diagnose::{Alone, Scene, diagnose};
use mlx_parity::tensor::{Dtype, Tensor};
use proptest::prelude::*;
use rstest::rstest;

use crate::kit::{Case, Dice};

#[rstest]
fn another_matrix(#[values(Dtype::Float32, Dtype::Bfloat16)] dtype: Dtype) {
    // A linear layer with a matrix that is a little off, or another one altogether.
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
fn two_faults_at_once(#[values(Dtype::Float32, Dtype::Bfloat16)] dtype: Dtype) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random numbers of any kind and shape: an answer, or none, and at most three.
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
        let scene = Scene { name: "x", expected: expected.view(), actual: actual.view(), rule: &rule, others: &Alone };
        prop_assert!(diagnose(&scene).len() <= 3);
    }
}
