//! The declared stage decides which explanations are tried first and which one wins a tie.

use mlx_parity_core::diagnose::Budget;
use mlx_parity_core::spec::Stage;
use mlx_parity_core::tensor::Dtype::Float32;
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

/// The kind of the first cause, if there is one.
fn first(case: &Case, actual: &[f64]) -> Option<&'static str> {
    case.causes(&case.shape, actual).first().map(|cause| cause.kind.name())
}

/// A golden, an actual with the opposite sign, and another checkpoint whose golden is off from that by `gap`.
fn sign_or_crossed(gap: f64) -> (Case, Vec<f64>) {
    let case = Case::normal(Float32, &[6, 16], 200).named("sample");
    let actual: Vec<f64> = case.golden.iter().map(|x| -x).collect();
    let mut dice = Dice::new(201);
    let other: Vec<f64> = actual.iter().map(|x| x + gap * dice.normal()).collect();
    (case.before("inverted.sample", &[6, 16], &other), actual)
}

#[rstest]
#[case(None, "sign")]
#[case(Some(Stage::Scheduler), "sign")]
#[case(Some(Stage::Residual), "crossed")]
// A block as a whole has no families of its own, and those of attention explain nothing here.
#[case(Some(Stage::Transformer), "sign")]
#[case(Some(Stage::Attention), "sign")]
fn a_tie_goes_to_the_declared_stage(#[case] stage: Option<Stage>, #[case] kind: &str) {
    let (case, actual) = sign_or_crossed(0.0);
    let case = case.at_stage(stage);
    assert_eq!(first(&case, &actual), Some(kind));
    // The other explanation holds as well, and is still reported.
    let causes = case.causes(&case.shape, &actual);
    for kind in ["sign", "crossed"] {
        assert!(causes.iter().any(|cause| cause.kind.name() == kind), "no `{kind}` in {causes:#?}");
    }
}

#[test]
fn a_stage_does_not_make_a_worse_explanation_better() {
    // The other golden is near enough to hold, and leaves more than three times as much as the sign does.
    let (case, actual) = sign_or_crossed(2e-7);
    let case = case.at_stage(Some(Stage::Residual));
    assert_eq!(first(&case, &actual), Some("sign"));
    let (mut alone, _) = sign_or_crossed(2e-7);
    alone.golden = Dice::new(202).normals(96);
    assert_eq!(first(&alone, &actual), Some("crossed"), "without the sign, the other golden explains it");
}

/// The least budget, as a power of two, with which the cause is found.
fn least_budget(case: &Case, actual: &[f64], kind: &str) -> u32 {
    let found = |power: &u32| {
        let causes = case.within(&Budget::new(1 << power), actual);
        causes.iter().any(|cause| cause.kind.name() == kind)
    };
    (0..30).find(found).expect("found with a budget of 2^29")
}

#[rstest]
#[case(Stage::Mlp, "activation", |x| if x > 0.0 { x } else { 0.0 })]
#[case(Stage::Norm, "norm_kind", |x| x)]
fn the_families_of_the_declared_stage_are_tried_first(
    #[case] stage: Stage,
    #[case] kind: &str,
    #[case] activation: fn(f64) -> f64,
) {
    let x = Dice::new(203).normals(32 * 48);
    let normalised = |centred: bool| -> Vec<f64> {
        let row = |row: &[f64]| {
            let mean = if centred { row.iter().sum::<f64>() / 48.0 } else { 0.0 };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 48.0;
            row.iter().map(|x| (x - mean) / (variance + 1e-6).sqrt()).collect::<Vec<f64>>()
        };
        x.chunks(48).flat_map(row).collect()
    };
    let (golden, actual): (Vec<f64>, Vec<f64>) = match stage {
        Stage::Norm => (normalised(false), normalised(true)),
        _ => (x.iter().map(|x| x / (1.0 + (-x).exp())).collect(), x.iter().map(|&x| activation(x)).collect()),
    };
    let case = || Case::new(Float32, &[32, 48], &golden).named("stage.out").before("stage.in", &[32, 48], &x);
    let general = least_budget(&case(), &actual, kind);
    let declared = least_budget(&case().at_stage(Some(stage)), &actual, kind);
    assert!(declared < general, "2^{declared} elements with the stage, 2^{general} without");
}
