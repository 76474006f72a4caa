//! Gradients and optimiser steps: which mistakes the values of one step show.

use mlx_parity_core::golden::StepFacts;
use mlx_parity_core::spec::Stage;
use mlx_parity_core::tensor::Dtype::Float32;
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice};

const SHAPE: [usize; 2] = [12, 16];
const LR: f64 = 1e-2;
const BETAS: (f64, f64) = (0.9, 0.999);
const EPS: f64 = 1e-4;
const DECAY: f64 = 0.1;

fn dice(seed: u64, scale: f64) -> Vec<f64> {
    let normals = Dice::new(seed).normals(SHAPE.iter().product());
    normals.iter().map(|x| f64::from((x * scale) as f32)).collect()
}

fn weight() -> Vec<f64> {
    dice(301, 1.0)
}

fn gradient() -> Vec<f64> {
    dice(302, 1e-2)
}

fn facts(slot: Option<&str>, decay: f64) -> StepFacts {
    StepFacts {
        number: 1,
        parameter: "w".to_owned(),
        optimizer: "adamw".to_owned(),
        gradient: Some("clipped.w".to_owned()),
        slot: slot.map(str::to_owned),
        lr: LR,
        betas: Some(BETAS),
        eps: EPS,
        weight_decay: decay,
        bias_correction: true,
        ..StepFacts::default()
    }
}

/// Every element of a step, from its weight and its gradient.
fn each(of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    weight().iter().zip(gradient()).map(|(weight, gradient)| of(*weight, gradient)).collect()
}

/// A step of AdamW in this place of the run. The first step's corrected moments are the gradient and its square.
fn case(name: &'static str, facts: StepFacts, golden: &[f64]) -> Case {
    let before: Vec<f64> = gradient().iter().map(|x| 3.0 * x).collect();
    Case::new(Float32, &SHAPE, golden)
        .named(name)
        .at_stage(Some(Stage::Optimizer))
        .before("clipped.w", &SHAPE, &gradient())
        .before("grad.w", &SHAPE, &before)
        .weight_shaped("w", &SHAPE, &weight())
        .step(name, facts)
        .step("step.1.param.other", StepFacts { parameter: "other".to_owned(), ..self::facts(None, DECAY) })
}

fn parameter(decay: f64) -> Case {
    let golden = each(|w, g| w * (1.0 - LR * decay) - LR * g / (g.abs() + EPS));
    case("step.1.param.w", facts(None, decay), &golden)
}

fn adam(w: f64, m: f64, v: f64) -> f64 {
    w * (1.0 - LR * DECAY) - LR * m / (v.sqrt() + EPS)
}

#[rstest]
#[case("bias_correction", &["of both moments"], |w: f64, g: f64| adam(w, 0.1 * g, 0.001 * g * g))]
#[case("bias_correction", &["of the first moment"], |w: f64, g: f64| adam(w, 0.1 * g, g * g))]
#[case("eps_place", &["inside the root"], |w: f64, g: f64| w * (1.0 - LR * DECAY) - LR * g / (g * g + EPS).sqrt())]
#[case("weight_decay", &["no weight decay"], |w: f64, g: f64| w - LR * g / (g.abs() + EPS))]
#[case("weight_decay", &["without the learning rate"], |w: f64, g: f64| w * (1.0 - DECAY) - LR * g / (g.abs() + EPS))]
#[case("not_trained", &["did not change"], |w: f64, _: f64| w)]
#[case("sign", &["is added"], |w: f64, g: f64| w * (1.0 - LR * DECAY) + LR * g / (g.abs() + EPS))]
#[case("constant", &["a learning rate of 0.003", "the reference has 0.01"], |w: f64, g: f64| w + 0.3 * (adam(w, g, g * g) - w))]
fn a_mistake_in_a_step_is_named(#[case] kind: &str, #[case] words: &[&str], #[case] of: fn(f64, f64) -> f64) {
    parameter(DECAY).is(&each(of), kind, words);
}

#[test]
fn weight_decay_of_other_parameters_is_named() {
    let actual = each(|w, g| adam(w, g, g * g));
    parameter(0.0).is(
        &actual,
        "weight_decay",
        &["weight decay 0.1, which the reference has for other parameters"],
    );
}

#[rstest]
#[case("weight_decay", &["weight decay 0.1 is added to the gradient"], |w: f64, g: f64| 0.1 * (g + DECAY * w))]
#[case("clipping", &["`grad.w`, where the reference uses `clipped.w`"], |_: f64, g: f64| 0.3 * g)]
#[case("constant", &["beta1 is 0.95, where the reference has 0.9"], |_: f64, g: f64| 0.05 * g)]
fn a_mistake_in_the_state_is_named(
    #[case] kind: &str,
    #[case] words: &[&str],
    #[case] of: fn(f64, f64) -> f64,
) {
    let name = "step.1.state.w.exp_avg";
    case(name, facts(Some("exp_avg"), DECAY), &each(|_, g| 0.1 * g)).is(&each(of), kind, words);
}

#[test]
fn a_step_that_the_facts_do_not_give_is_not_explained() {
    // The golden is of another optimiser than the facts say.
    let golden = each(|w, g| w - LR * g);
    let actual = each(|w, g| adam(w, 0.1 * g, 0.001 * g * g));
    case("step.1.param.w", facts(None, DECAY), &golden).is_unexplained(&actual);
}

fn of_gradient(name: &'static str, golden: &[f64]) -> Case {
    Case::new(Float32, &SHAPE, golden).named(name).at_stage(Some(Stage::Gradient))
}

#[test]
fn a_sum_in_place_of_a_mean_is_named() {
    let golden = gradient();
    let sum: Vec<f64> = golden.iter().map(|x| 6.0 * x).collect();
    of_gradient("grad.w", &golden).is(
        &sum,
        "gradient_scale",
        &["times 6: a sum, where the reference has a mean"],
    );
    of_gradient("grad.w", &sum).is(&golden, "gradient_scale", &["over 6: a mean"]);
    let other: Vec<f64> = golden.iter().map(|x| 1.37 * x).collect();
    of_gradient("grad.w", &golden).is(&other, "factor", &["1.37"]);
}

#[test]
fn clipping_is_named() {
    let given = gradient();
    let golden: Vec<f64> = given.iter().map(|x| 0.4 * x).collect();
    let case = || of_gradient("clipped.w", &golden).before("grad.w", &SHAPE, &given);
    case().is(&given, "clipping", &["nothing is clipped"]);
    let by_value: Vec<f64> = given.iter().map(|x| x.clamp(-0.01, 0.01)).collect();
    case().is(&by_value, "clipping", &["each element clipped to 0.01"]);
    let by_another: Vec<f64> = given.iter().map(|x| 0.7 * x).collect();
    case().is(&by_another, "clipping", &["times 0.7, where clipping multiplies it by 0.4"]);
}
