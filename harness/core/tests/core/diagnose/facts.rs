//! Facts: what is reported where nothing explains the error, and never as a cause.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32};
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

fn changed(case: &Case, change: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    case.golden.iter().enumerate().map(|(index, &x)| change(index, x)).collect()
}

#[test]
fn nothing_but_a_constant() {
    let case = Case::normal(Float32, &[4, 8], 51);
    case.shows(&[0.0; 32], "constant", &["zero everywhere"]);
    case.shows(&[0.25; 32], "constant", &["0.25 everywhere"]);
}

#[test]
fn what_is_not_finite() {
    let case = Case::normal(Float32, &[4, 8], 52);
    let rows = changed(&case, |i, x| if i / 8 == 2 { f64::NAN } else { x });
    case.shows(
        &rows,
        "non_finite",
        &["NaN in 8 of 32", "first at [2, 0]", "in row 2 only", "all other elements agree"],
    );
    let scores: Vec<f64> =
        (0..32).map(|i| if i / 8 == 2 { f64::NEG_INFINITY } else { f64::from(i) }).collect();
    let masked = Case::normal(Float32, &[4, 8], 52).before("scores", &[4, 8], &scores);
    masked.shows(&rows, "non_finite", &["`scores` are masked completely"]);
    let constant: Vec<f64> = (0..32).map(|i| if i / 8 == 2 { 3.0 } else { f64::from(i) }).collect();
    let normed = Case::normal(Float32, &[4, 8], 52).before("x", &[4, 8], &constant);
    normed.shows(&rows, "non_finite", &["divides by zero"]);
}

#[test]
fn memory_past_the_end() {
    let case = Case::normal(Float32, &[4, 8], 53);
    let actual = changed(&case, |i, x| if i > 24 { 1.401_298_464_324_817e-45 } else { x });
    case.shows_exactly(&actual, "subnormal", &["7 of 32", "e-45"]);
}

#[test]
fn other_numbers_of_the_same_kind() {
    let case = Case::normal(Float32, &[8, 64], 54);
    case.shows(
        &Dice::new(999).normals(512),
        "uncorrelated",
        &["correlation", "mean and spread are the same as the golden's"],
    );
}

#[test]
fn an_error_that_grows() {
    let case = Case::normal(Float32, &[2, 12, 16], 55);
    let mut dice = Dice::new(56);
    let noise = dice.normals(case.golden.len());
    let actual = changed(&case, |i, x| x + 0.01 * (i / 16 % 12) as f64 * noise[i]);
    case.shows(&actual, "grows_with_position", &["axis 1"]);
}

#[test]
fn another_grid() {
    let weights = Dice::new(57).normals(16 * 128);
    let quantised = |group: usize, bits: u32| -> Vec<f64> {
        let levels = f64::from((1u32 << bits) - 1);
        weights
            .chunks(group)
            .flat_map(|group| {
                let low = group.iter().copied().fold(f64::INFINITY, f64::min);
                let high = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let step = (high - low) / levels;
                group.iter().map(|x| low + ((x - low) / step).round() * step).collect::<Vec<_>>()
            })
            .collect()
    };
    let case = Case::new(Float32, &[16, 128], &quantised(64, 4));
    let words = ["groups of 32, where the golden has 4 bits in groups of 64"];
    case.shows_exactly(&quantised(32, 4), "quantisation", &words);
}

#[rstest]
#[case(|x| half::bf16::from_f64(x).to_f64(), "every element fits bfloat16")]
#[case(|x| half::f16::from_f64(x).to_f64(), "every element fits float16")]
fn numbers_of_a_narrower_format(#[case] round: fn(f64) -> f64, #[case] words: &str) {
    // Computed in the narrow format from the start, which is not the golden rounded to it.
    let case = Case::normal(Float32, &[8, 32], 58);
    let noise = Dice::new(59).normals(256);
    let actual: Vec<f64> = case.golden.iter().zip(noise).map(|(x, n)| round(x * (1.0 + 0.02 * n))).collect();
    case.shows_exactly(&actual, "narrow_format", &[words, "the golden's elements do not"]);
}

#[rstest]
fn a_part_that_is_right(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[2, 12, 16], 60);
    let other = Dice::new(61).normals(case.golden.len());
    let from = |first: usize| changed(&case, |i, x| if i / 16 % 12 >= first { other[i] } else { x });
    case.shows(&from(6), "part_agrees", &["the first 6 of 12 indices of axis 1 agree"]);
    let odd = changed(&case, |i, x| if i / 16 % 12 == 5 { other[i] } else { x });
    case.shows(&odd, "part_agrees", &["11 of 12 indices of axis 1 agree; these do not: 5"]);
    let mut two = case.golden.clone();
    two[17] += 3.0;
    two[100] -= 2.0;
    case.shows(
        &two,
        "part_agrees",
        &["2 of 384 elements differ, at [0, 1, 1] and [0, 6, 4]; all others agree"],
    );
}
