//! Actuals that once got a wrong cause. Each has the right one now, or none.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32, Int32};
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

/// Multiplies `x` `[rows, 16]` by the weights `w` `[16, 16]`.
fn linear(x: &[f64], w: &[f64]) -> Vec<f64> {
    (0..x.len())
        .map(|i| (0..16).map(|k| x[i / 16 * 16 + k] * w[i % 16 * 16 + k]).sum::<f64>() / 4.0)
        .collect()
}

#[rstest]
fn weights_that_were_never_loaded(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let (x, w, drawn) =
        (Dice::new(100).normals(32 * 16), Dice::new(101).normals(256), Dice::new(102).normals(256));
    let case = Case::new(dtype, &[1, 32, 16], &linear(&x, &w)).named("lm_head");
    case.shows(&linear(&x, &drawn), "uncorrelated", &["the correlation with the golden is "]);
}

#[rstest]
fn rows_of_another_stream(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[1, 24, 32], 103).named("attn.img.to_q");
    case.shows(&Dice::new(104).normals(24 * 32), "uncorrelated", &["correlation"]);
    // Only some elements are wrong.
    let other = Dice::new(105).normals(24 * 32);
    let actual = [&case.golden[..6 * 32], &other[6 * 32..]].concat();
    case.shows(&actual, "part_agrees", &["the first 6 of 24 indices of axis 1 agree"]);
}

#[rstest]
fn key_heads_that_are_repeated_the_wrong_way(#[values(Float32, Bfloat16)] dtype: Dtype) {
    // The golden has heads 0, 0, 1, 1 and the actual 0, 1, 0, 1, each through scores with other queries.
    let (q, k) = (Dice::new(106).normals(4 * 6 * 8), Dice::new(107).normals(2 * 6 * 8));
    let scores = |head: fn(usize) -> usize| -> Vec<f64> {
        (0..4 * 36)
            .map(|i| {
                let (h, row, column) = (i / 36, i / 6 % 6, i % 6);
                (0..8).map(|f| q[(h * 6 + row) * 8 + f] * k[(head(h) * 6 + column) * 8 + f]).sum::<f64>()
                    / 2.8
            })
            .collect()
    };
    let case = Case::new(dtype, &[1, 4, 6, 6], &scores(|h| h / 2)).named("attn.scores");
    case.is_unexplained(&scores(|h| h % 2));
}

#[rstest]
fn a_mask_the_other_way_round(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let scores = Dice::new(108).normals(2 * 8 * 8);
    let probabilities = |seen: fn(usize, usize) -> bool| -> Vec<f64> {
        let row = |row: usize| {
            // A row that is fully masked has equal weights, as with a large negative number as the mask.
            let any = (0..8).any(|key| seen(row % 8, key));
            let exp = |key: usize| match (seen(row % 8, key), any) {
                (true, _) => (0.1 * scores[row * 8 + key]).exp(),
                (false, true) => 0.0,
                (false, false) => 1.0,
            };
            let sum: f64 = (0..8).map(exp).sum();
            (0..8).map(move |key| exp(key) / sum).collect::<Vec<f64>>()
        };
        (0..16).flat_map(row).collect()
    };
    let case = Case::new(dtype, &[2, 8, 8], &probabilities(|row, key| key <= row)).named("attn.probs");
    case.is_unexplained(&probabilities(|row, key| key > row));
    let case = Case::new(dtype, &[2, 8, 8], &probabilities(|row, key| key == row)).named("attn.probs");
    case.is_unexplained(&probabilities(|row, key| key != row));
}

#[test]
fn one_wrong_element_is_no_permutation() {
    // The wrong element holds the value of another element of the golden.
    let golden = [1.5, -0.25, 3.0, 0.75, 2.0];
    let case = Case::new(Float32, &[5], &golden);
    case.shows(&[1.5, -0.25, 3.0, 0.75, -0.25], "part_agrees", &["1 of 5 elements differs, at [4]"]);
    case.is_unexplained(&[-0.25, 1.5, 3.0, 0.75, 2.0]);
    let ids: Vec<f64> = (0..20).map(|i| f64::from(i % 4)).collect();
    let mut actual = ids.clone();
    actual[7] = 0.0;
    let case = Case::new(Int32, &[4, 5], &ids);
    case.shows(&actual, "part_agrees", &["1 of 20 elements differs, at [1, 2]"]);
    // One step of a schedule is wrong, and all others are equal.
    let mut steps = vec![0.0; 12];
    steps[11] = 1.0;
    let mut early = steps.clone();
    early[10] = 1.0;
    Case::new(Float32, &[12], &steps).is_unexplained(&early);
}

#[rstest]
#[case(0.99999)]
#[case(1.0002)]
fn a_factor_that_nobody_writes(#[case] factor: f64) {
    let case = Case::normal(Float32, &[4, 12, 16], 109);
    case.is_unexplained(&case.golden.iter().map(|x| factor * x).collect::<Vec<_>>());
}

#[test]
fn a_norm_that_was_left_out_is_no_factor() {
    // The small input differs from the golden by the weight and by the size of each token.
    let (mut weight, mut size) = (Dice::new(110), Dice::new(111));
    let (weight, size) = (weight.normals(64), size.normals(24));
    let case = Case::normal(Bfloat16, &[1, 24, 64], 112).named("layers.0.input_layernorm");
    let input = |(i, x): (usize, &f64)| {
        x * 0.0323736 / (1.0 + 0.11 * weight[i % 64].clamp(-2.0, 2.0))
            * (1.0 + 0.11 * size[i / 64].clamp(-2.0, 2.0))
    };
    let actual: Vec<f64> = case.golden.iter().enumerate().map(input).collect();
    case.is_unexplained(&actual);
    // An actual that is really the golden times this factor is reported, with the error that is left after dividing.
    let actual: Vec<f64> = case.golden.iter().map(|x| x * 0.0323736).collect();
    let causes = case.causes(&case.shape, &actual);
    assert_eq!(causes[0].kind.name(), "factor", "{causes:?}");
    assert!(causes[0].residual.part < 0.01, "{causes:?}");
}
