//! The golden's values, changed.

use mlx_parity::tensor::Dtype::{self, Bfloat16, Float32};
use rstest::rstest;

use crate::kit::{Case, Dice};

fn changed(case: &Case, change: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    case.golden.iter().enumerate().map(|(index, &x)| change(index, x)).collect()
}

#[rstest]
#[case("sign", -1.0, 0.0, "opposite sign")]
#[case("factor", 2.0, 0.0, "times 2 (2)")]
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
    case.is(&changed(&case, from_one), "channel_factor", &["as 1 + w where the golden has w"]);
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
    // Rounding comes last: no noise on top of it.
    let expected: Vec<f64> =
        case.golden.iter().map(|&x| f64::from(round(f64::from(x as f32)) as f32)).collect();
    let causes = case.exact_causes(&expected);
    assert_eq!(causes.first().map(|cause| cause.kind.name()), Some("rounded"), "{causes:?}");
    assert!(causes[0].text.contains(format), "{causes:?}");
}

#[test]
fn nothing_but_a_constant() {
    let case = Case::normal(Float32, &[4, 8], 51);
    case.is(&[0.0; 32], "constant", &["zero throughout"]);
    case.is(&[0.25; 32], "constant", &["0.25 throughout"]);
}

#[test]
fn what_is_not_finite() {
    let case = Case::normal(Float32, &[4, 8], 52);
    let rows = changed(&case, |i, x| if i / 8 == 2 { f64::NAN } else { x });
    case.is(&rows, "non_finite", &["NaN in 8 of 32", "first at [2, 0]", "in row 2 only", "the rest agrees"]);
    let scores: Vec<f64> =
        (0..32).map(|i| if i / 8 == 2 { f64::NEG_INFINITY } else { f64::from(i) }).collect();
    let masked = Case::normal(Float32, &[4, 8], 52).before("scores", &[4, 8], &scores);
    masked.is(&rows, "non_finite", &["`scores` are masked whole"]);
    let constant: Vec<f64> = (0..32).map(|i| if i / 8 == 2 { 3.0 } else { f64::from(i) }).collect();
    let normed = Case::normal(Float32, &[4, 8], 52).before("x", &[4, 8], &constant);
    normed.is(&rows, "non_finite", &["divides by zero"]);
}

#[test]
fn memory_past_the_end() {
    let case = Case::normal(Float32, &[4, 8], 53);
    let actual = changed(&case, |i, x| if i > 24 { 1.401_298_464_324_817e-45 } else { x });
    case.is(&actual, "subnormal", &["7 of 32", "e-45"]);
}

#[test]
fn other_numbers_of_the_same_kind() {
    let case = Case::normal(Float32, &[8, 64], 54);
    case.is(&Dice::new(999).normals(512), "uncorrelated", &["another draw"]);
}

#[test]
fn an_error_that_grows() {
    let case = Case::normal(Float32, &[2, 12, 16], 55);
    let mut dice = Dice::new(56);
    let noise = dice.normals(case.golden.len());
    let actual = changed(&case, |i, x| x + 0.01 * (i / 16 % 12) as f64 * noise[i]);
    case.is(&actual, "grows_with_position", &["axis 1"]);
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
    let causes = case.exact_causes(&quantised(32, 4));
    assert_eq!(causes.first().map(|cause| cause.kind.name()), Some("quantisation"), "{causes:?}");
    assert!(
        causes[0].text.contains("groups of 32, where the golden is on one of 4 bits in groups of 64"),
        "{causes:?}"
    );
}
