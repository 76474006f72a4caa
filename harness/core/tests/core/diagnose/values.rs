//! Actuals that have the golden's values, changed.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32};
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

fn changed(case: &Case, change: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    case.golden.iter().enumerate().map(|(index, &x)| change(index, x)).collect()
}

#[rstest]
#[case("sign", -1.0, 0.0, "opposite sign")]
#[case("factor", 2.0, 0.0, "the golden times 2")]
#[case("factor", 4.0, 0.0, "sqrt(16)")]
#[case("factor", 1.0 / 255.0, 0.0, "1 over 255")]
#[case("factor", 1.0 / 0.3611, 0.0, "scaling factor of FLUX")]
#[case("factor", 1.017, 0.0, "times 1.017")]
#[case("offset", 1.0, 0.1159, "plus 0.1159")]
#[case("affine", 0.5, 0.5, "plus 0.5")]
fn one_number(#[case] kind: &str, #[case] factor: f64, #[case] offset: f64, #[case] words: &str) {
    let case = Case::normal(Float32, &[2, 6, 16], 40);
    case.is(&changed(&case, |_, x| factor * x + offset), kind, &[words]);
    let case = Case::normal(Bfloat16, &[2, 6, 16], 41);
    let causes = case.causes(&[2, 6, 16], &changed(&case, |_, x| factor * x + offset));
    assert_eq!(causes.first().map(|cause| cause.kind.name()), Some(kind), "{causes:?}");
}

#[rstest]
fn a_number_for_each_channel(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let bias = Dice::new(42).normals(16);
    let weight: Vec<f64> = Dice::new(43).normals(16).iter().map(|x| 1.0 + 0.3 * x).collect();
    let case = Case::normal(dtype, &[4, 9, 16], 44).weight("up.bias", &bias).weight("norm.weight", &weight);
    case.is(&changed(&case, |i, x| x - bias[i % 16]), "channel_offset", &["`up.bias` is not added"]);
    case.is(&changed(&case, |i, x| x + bias[i % 16]), "channel_offset", &["`up.bias` is added twice"]);
    case.is(&changed(&case, |i, x| x / weight[i % 16]), "channel_factor", &["`norm.weight` is not applied"]);
    case.is(
        &changed(&case, |i, x| x * weight[i % 16]),
        "channel_factor",
        &["`norm.weight` is applied twice"],
    );
    let from_one = |i: usize, x: f64| x / weight[i % 16] * (1.0 + weight[i % 16]);
    case.is(&changed(&case, from_one), "channel_factor", &["as 1 + w, where the golden has w"]);
}

#[rstest]
fn a_number_for_each_token(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let numbers = Dice::new(45).normals(36);
    let case = Case::normal(dtype, &[4, 9, 16], 46);
    case.is(&changed(&case, |i, x| x * (1.0 + 0.2 * numbers[i / 16])), "token_factor", &["36 rows"]);
    case.is(&changed(&case, |i, x| x + numbers[i / 16]), "token_offset", &["36 rows"]);
    case.is(&changed(&case, |i, x| x + numbers[i / 16 % 9]), "token_offset", &["axis 1"]);
}

#[rstest]
fn a_vector_along_the_other_axis(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let vector = Dice::new(47).normals(12);
    let case = Case::normal(dtype, &[3, 12, 12], 48);
    let added = changed(&case, |i, x| x - vector[i % 12] + vector[i / 12 % 12]);
    case.is(&added, "broadcast_axis", &["added along axis"]);
    let factor = |i: usize| 1.0 + 0.2 * vector[i];
    let times = changed(&case, |i, x| x / factor(i % 12) * factor(i / 12 % 12));
    case.is(&times, "broadcast_axis", &["multiplied along axis"]);
}

#[test]
fn clamping() {
    let case = Case::normal(Float32, &[8, 32], 49);
    case.is(&changed(&case, |_, x| x.clamp(-1.0, 1.0)), "clamped", &["below -1", "above 1"]);
    case.is(&changed(&case, |_, x| x.min(0.75)), "clamped", &["above 0.75"]);
}

#[rstest]
#[case("bfloat16", |x| half::bf16::from_f64(x).to_f64())]
#[case("float16", |x| half::f16::from_f64(x).to_f64())]
#[case("int8", |x: f64| (x / 0.03).round_ties_even() * 0.03)]
fn rounding(#[case] format: &str, #[case] round: fn(f64) -> f64) {
    let mut case = Case::normal(Float32, &[8, 32], 50);
    let largest = case.golden.iter().fold(0f64, |most, x| most.max(x.abs()));
    case.golden.iter_mut().for_each(|x| *x *= 127.0 * 0.03 / largest);
    // Rounding comes last, so no noise is added to it.
    let expected: Vec<f64> =
        case.golden.iter().map(|&x| f64::from(round(f64::from(x as f32)) as f32)).collect();
    let causes = case.exact_causes(&expected);
    assert_eq!(causes.first().map(|cause| cause.kind.name()), Some("rounded"), "{causes:?}");
    assert!(causes[0].text.contains(format), "{causes:?}");
}
