//! Choices: probabilities, tokens, sets and text.

use mlx_parity_core::compare::{
    Beside, Comparison, Divergence, IdPlaces, Scores, TopRows, compare, compare_choices,
};
use mlx_parity_core::gate::{Class, DistributionLimits, Floor, Gate, Rule, TopK};
use mlx_parity_core::tensor::{Dtype, Tensor};

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
}

fn wide(shape: &[usize], values: &[f64]) -> Tensor {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor::from_vec(Dtype::Float64, shape.to_vec(), bytes).unwrap()
}

fn ids(shape: &[usize], values: &[i32]) -> Tensor {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor::from_vec(Dtype::Int32, shape.to_vec(), bytes).unwrap()
}

fn text(text: &str) -> Tensor {
    Tensor::from_vec(Dtype::Uint8, vec![text.len()], text.as_bytes().to_vec()).unwrap()
}

fn rule(gate: Gate) -> Rule {
    Rule { gate: Some(gate), ..Rule::default() }
}

fn distribution(limits: DistributionLimits) -> Rule {
    rule(Gate::Distribution(limits))
}

/// Compares, and returns the class with the line of the verdict.
fn verdict(
    expected: &Tensor,
    actual: &Tensor,
    rule: &Rule,
    scores: Option<Scores<'_>>,
) -> (Option<Class>, String) {
    let beside = Beside { scores, divergence: None };
    let Comparison { class, detail, .. } = compare_choices(&expected.view(), &actual.view(), rule, &beside);
    (class, detail)
}

const FLOOR: Floor = Floor { max: 1e-3, rms: 5e-4 };

/// Scores of five ids in three rows. In row 1, ids 2 and 4 are 0.004 apart.
fn scores() -> Tensor {
    floats(&[3, 5], &[9., 1., 2., 3., 4., 1., 0., 5., 2., 4.996, 0., 1., 2., 3., 9.])
}

#[test]
fn a_divergence_is_that_of_the_definition() {
    // p is (1/2, 1/4, 1/4), q is (1/4, 1/4, 1/2): sum p ln(p / q) is ln(2) / 4.
    let (expected, actual) = (floats(&[1, 3], &[2f32.ln(), 0., 0.]), floats(&[1, 3], &[0., 0., 2f32.ln()]));
    let limits = DistributionLimits {
        kl_max: Some(1.0),
        topk: Some(TopK { k: 2, overlap: 0.5 }),
        ..DistributionLimits::default()
    };
    let outcome = compare(&expected.view(), &actual.view(), &distribution(limits));
    let metrics = outcome.metrics.unwrap();
    let choices = metrics.choices.unwrap();
    let divergence = choices.divergence.unwrap();
    assert!((divergence.max - 2f64.ln() / 4.0).abs() < 1e-7, "{divergence:?}");
    assert_eq!(divergence, Divergence { mean: divergence.max, p99: divergence.max, max: divergence.max });
    assert_eq!((choices.rows, choices.equal, choices.overlap), (1, 0, Some(0.5)));
    assert_eq!(outcome.class, None, "{}", outcome.detail);
    // The overlap uses its whole limit, and the divergence a sixth of its own.
    assert_eq!(metrics.difference.unwrap().used, Some(1.0));
}

#[test]
fn a_shift_changes_no_probability_and_a_rounding_hardly_any() {
    let logits: Vec<f32> = (0..60).map(|i| (i * 37 % 23) as f32 / 4.0).collect();
    let limits = DistributionLimits { kl_max: Some(1e-11), top1: Some(1.0), ..DistributionLimits::default() };
    let shifted: Vec<f32> = logits.iter().map(|x| x + 64.0).collect();
    let rounded: Vec<f32> = logits.iter().map(|x| x * (1.0 + f32::EPSILON)).collect();
    for actual in [shifted, rounded] {
        let found = verdict(
            &floats(&[3, 20], &logits),
            &floats(&[3, 20], &actual),
            &distribution(limits.clone()),
            None,
        );
        assert_eq!(found.0, None, "{}", found.1);
    }
    let hotter: Vec<f32> = logits.iter().map(|x| x / 0.99).collect();
    let found = verdict(&floats(&[3, 20], &logits), &floats(&[3, 20], &hotter), &distribution(limits), None);
    assert_eq!(found.0, Some(Class::Value));
    assert!(found.1.starts_with("KL max "), "{}", found.1);
    assert!(found.1.contains(" is above 1e-11; 3 rows: KL mean "), "{}", found.1);
    assert!(found.1.ends_with("top-1 equal in 3"), "{}", found.1);
}

#[test]
fn what_is_no_probability_is_far_away() {
    let limits = || distribution(DistributionLimits { kl_mean: Some(1e9), ..DistributionLimits::default() });
    let golden = floats(&[1, 3], &[0., 1., f32::NEG_INFINITY]);
    assert_eq!(
        verdict(&golden, &golden, &limits(), None).0,
        None,
        "a masked id has no probability on either side"
    );
    let found = verdict(&golden, &floats(&[1, 3], &[0., f32::NAN, f32::NEG_INFINITY]), &limits(), None);
    assert_eq!(found.0, Some(Class::Finite));
    let found = verdict(&floats(&[1, 2], &[1., 1.]), &floats(&[1, 2], &[0., 3e38]), &limits(), None);
    assert_eq!(found.0, Some(Class::Value), "{}", found.1);
}

/// The golden that the exporter makes of these probabilities.
fn top_of(rows: &[&[f64]], top: usize) -> Tensor {
    let mut numbers = Vec::new();
    for row in rows {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        numbers.extend(order[..top].iter().flat_map(|&id| [row[id].ln(), id as f64]));
        numbers.extend([0.0, row.len() as f64]);
    }
    wide(&[rows.len(), top + 1, 2], &numbers)
}

#[test]
fn the_most_probable_ids_stand_for_all() {
    let rows: [&[f64]; 2] = [&[0.5, 0.25, 0.125, 0.0625, 0.0625], &[0.1, 0.2, 0.3, 0.2, 0.2]];
    let golden = top_of(&rows, 3);
    let logits = |change: f64| {
        let values: Vec<f32> = rows.concat().iter().map(|p| (p.ln() * change + 7.0) as f32).collect();
        floats(&[2, 5], &values)
    };
    let limits = DistributionLimits {
        kl_max: Some(1e-9),
        top1: Some(1.0),
        top: Some(3),
        ..DistributionLimits::default()
    };
    let found = verdict(&golden, &logits(1.0), &distribution(limits.clone()), None);
    assert_eq!(found.0, None, "{}", found.1);
    let found = verdict(&golden, &logits(1.1), &distribution(limits.clone()), None);
    assert_eq!(found.0, Some(Class::Value), "{}", found.1);
    // Row 0 by hand: the ids 3 and 4 count as one with p = 1/8.
    let outcome = compare(&golden.view(), &logits(1.1).view(), &distribution(limits.clone()));
    let q: Vec<f64> = rows[0].iter().map(|p| p.powf(1.1)).collect();
    let sum: f64 = q.iter().sum();
    let q = [q[0], q[1], q[2], q[3] + q[4]].map(|q| q / sum);
    let by_hand: f64 = [0.5, 0.25, 0.125, 0.125f64].iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum();
    let metrics = outcome.metrics.unwrap();
    let found = metrics.choices.unwrap().divergence.unwrap();
    assert!(
        (found.max - by_hand).abs() < 1e-6 || (found.mean * 2.0 - found.max - by_hand).abs() < 1e-6,
        "{found:?}"
    );
    assert_eq!((metrics.elements, metrics.difference.unwrap().counted), (10, 6));

    let other = verdict(&golden, &floats(&[2, 6], &[0.0; 12]), &distribution(limits.clone()), None);
    assert_eq!(other, (Some(Class::Shape), "expected shape [2, 5], actual [2, 6]".to_owned()));
    let four = distribution(DistributionLimits { top: Some(4), ..limits.clone() });
    let wrong = verdict(&golden, &logits(1.0), &four, None);
    assert_eq!(wrong.0, Some(Class::Spec));
    assert!(
        wrong.1.contains("`top: 4`, but the golden is float64 [2, 4, 2]: export it with `rec.distribution"),
        "{}",
        wrong.1
    );
    let mut damaged = [0.0; 16];
    damaged[1] = 1e300;
    let damaged = verdict(&wide(&[2, 4, 2], &damaged), &logits(1.0), &distribution(limits), None);
    assert_eq!(damaged.0, Some(Class::Spec), "{}", damaged.1);
}

#[test]
fn a_token_may_differ_where_the_scores_are_tied() {
    let scores = scores();
    let golden = ids(&[3], &[0, 2, 4]);
    let judge = |actual: &[i32], ties: f64| {
        let beside = Scores::all(&scores.view(), FLOOR, Dtype::Float32);
        verdict(&golden, &ids(&[3], actual), &rule(Gate::Tokens { ties }), Some(beside))
    };
    assert_eq!(
        judge(&[0, 2, 4], 8.0),
        (None, "3 positions: 3 equal, 0 ties, 0 decided differences".to_owned())
    );
    assert_eq!(
        judge(&[0, 4, 4], 8.0),
        (None, "3 positions: 2 equal, 1 tie, 0 decided differences".to_owned())
    );
    // The two scores are four floors apart.
    let found = judge(&[0, 4, 4], 3.0);
    assert_eq!(found.0, Some(Class::Choice));
    assert!(
        found.1.contains("first [1]: expected 2, actual 4, 4 floors apart in the reference's scores"),
        "{}",
        found.1
    );
    assert_eq!(judge(&[0, 2, 3], 8.0).0, Some(Class::Choice), "a tie elsewhere is no excuse");
    for outside in [-1, 5, i32::MAX] {
        let found = judge(&[0, outside, 4], 8.0);
        assert_eq!(found.0, Some(Class::Choice));
        assert!(found.1.contains("far from the reference's best"), "{}", found.1);
    }
    let found = judge(&[1, 3, 5], 8.0);
    assert!(found.1.ends_with("; every id is the golden's plus 1"), "{}", found.1);
}

#[test]
fn scores_that_cannot_judge_are_refused() {
    let (golden, gate) = (ids(&[3], &[0, 2, 4]), rule(Gate::Tokens { ties: 8.0 }));
    assert_eq!(verdict(&golden, &golden, &gate, None).0, Some(Class::Missing));
    let other = floats(&[2, 5], &[0.0; 10]);
    let found = verdict(&golden, &golden, &gate, Some(Scores::all(&other.view(), FLOOR, Dtype::Float32)));
    assert_eq!(found.0, Some(Class::Spec));
    assert!(found.1.contains("a row for each of [2], but the choices have [3]"), "{}", found.1);
    let scores = scores();
    let beside = || Some(Scores::all(&scores.view(), FLOOR, Dtype::Float32));
    let found = verdict(&ids(&[3], &[0, 3, 4]), &golden, &gate, beside());
    assert_eq!(found.0, Some(Class::Spec));
    assert!(
        found.1.contains("the golden's own choice [3] at [1] does not have the highest scores"),
        "{}",
        found.1
    );
    // Constant scores would let everything pass.
    let flat = floats(&[8, 5], &[1.0; 40]);
    let golden = ids(&[8], &[0; 8]);
    let beside = Scores::all(&flat.view(), FLOOR, Dtype::Float32);
    assert_eq!(verdict(&golden, &ids(&[8], &[3; 8]), &gate, Some(beside)).0, Some(Class::Untestable));
}

#[test]
fn tokens_are_judged_by_the_most_probable_ids_too() {
    let rows: [&[f64]; 2] = [&[0.5, 0.3, 0.1, 0.1], &[0.1, 0.4, 0.4, 0.1]];
    let golden = top_of(&rows, 2);
    let judge = |actual: &[i32]| {
        let view = golden.view();
        let scores = Scores::top(TopRows::new(&view, 2).unwrap(), FLOOR, Dtype::Float32);
        verdict(&ids(&[2], &[0, 1]), &ids(&[2], actual), &rule(Gate::Tokens { ties: 8.0 }), Some(scores)).0
    };
    assert_eq!(judge(&[0, 1]), None);
    assert_eq!(judge(&[0, 2]), None, "tied");
    assert_eq!(judge(&[1, 1]), Some(Class::Choice));
    assert_eq!(judge(&[0, 3]), Some(Class::Choice), "not among those kept");
}

#[test]
fn a_set_has_no_order_and_exchanges_ties_only() {
    let scores = scores();
    let golden = ids(&[3, 2], &[0, 4, 2, 4, 4, 3]);
    let judge = |actual: &[i32], ties: Option<f64>| {
        let beside = ties.map(|_| Scores::all(&scores.view(), FLOOR, Dtype::Float32));
        verdict(&golden, &ids(&[3, 2], actual), &rule(Gate::Set { ties }), beside)
    };
    let found = judge(&[4, 0, 2, 4, 3, 4], None);
    assert_eq!(found, (None, "3 rows of 2: 3 equal (2 in another order), 0 different".to_owned()));
    let found = judge(&[0, 4, 2, 3, 4, 3], Some(8.0));
    assert_eq!(found.0, Some(Class::Choice));
    assert!(found.1.starts_with(
        "3 rows of 2: 2 equal, 0 ties, 1 decided difference; first [1]: expected 4, actual 3, "
    ));
    let found = judge(&[0, 0, 2, 4, 4, 3], Some(8.0));
    assert_eq!(found.0, Some(Class::Choice), "an id twice is not the set: {}", found.1);
    let near = floats(&[1, 4], &[5.0, 3.0, 3.001, 0.0]);
    let beside = Scores::all(&near.view(), FLOOR, Dtype::Float32);
    let gate = rule(Gate::Set { ties: Some(8.0) });
    let found = verdict(&ids(&[1, 2], &[0, 2]), &ids(&[1, 2], &[1, 0]), &gate, Some(beside));
    assert_eq!(found, (None, "1 row of 2: 0 equal, 1 tie, 0 decided differences".to_owned()));
    assert_eq!(
        verdict(&ids(&[], &[1]), &ids(&[], &[1]), &rule(Gate::Set { ties: None }), None).0,
        Some(Class::Spec)
    );
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let mut bytes = vec![0; tensor.len() * 4];
    tensor.view().gather(0, &mut bytes);
    bytes.chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
}

#[test]
fn weights_follow_their_ids() {
    let slots =
        IdPlaces::of(&ids(&[3, 2], &[0, 4, 2, 4, 4, 3]).view(), &ids(&[3, 2], &[4, 0, 2, 1, 4, 3]).view());
    let weights = floats(&[3, 2], &[0.4, 0.6, 0.7, 0.3, 0.8, 0.2]);
    let arranged = slots.arrange(&weights.view(), None).unwrap();
    assert_eq!(values(&arranged), [0.6, 0.4, 0.7, 0.3, 0.8, 0.2]);
    assert_eq!(arranged.shape(), [3, 2]);
    assert!(slots.arrange(&floats(&[2], &[0.0; 2]).view(), None).is_none());
    // After an injection, the port's order may be the golden's already.
    let golden = floats(&[3, 2], &[0.4, 0.6, 0.7, 0.3, 0.8, 0.2]);
    let as_it_is = slots.arrange(&weights.view(), Some(&golden.view())).unwrap();
    assert_eq!(values(&as_it_is), values(&weights));
    // Ids twice, or none that match, still give each place once.
    let slots = IdPlaces::of(&ids(&[1, 3], &[5, 5, 6]).view(), &ids(&[1, 3], &[6, 7, 5]).view());
    let arranged = slots.arrange(&floats(&[1, 3], &[1., 2., 3.]).view(), None).unwrap();
    assert_eq!(values(&arranged), [3., 2., 1.]);
}

#[test]
fn the_first_difference_of_two_texts_is_shown_as_people_read_it() {
    let judge = |expected: &str, actual: &str| {
        let outcome = compare(&text(expected).view(), &text(actual).view(), &rule(Gate::Text));
        (outcome.class, outcome.detail)
    };
    assert_eq!(judge("same", "same"), (None, "4 bytes, all equal".to_owned()));
    assert_eq!(judge("", ""), (None, "0 bytes, all equal".to_owned()));
    let found = judge("a caf\u{e9} in town", "a caf\u{e8} in town");
    assert_eq!(found.0, Some(Class::Value));
    // The second byte of the character differs.
    let text = "1 of 15 bytes differs, the first at 6: expected \"a caf\u{27e8}\u{e9} in town\u{27e9}\", actual \
                \"a caf\u{27e8}\u{e8} in town\u{27e9}\"";
    assert_eq!(found.1, text);
    let found = judge("abc", "ab");
    assert_eq!(
        found.1,
        "the first difference is at byte 2 of 3, actual 2: expected \"ab\u{27e8}c\u{27e9}\", actual \"ab\u{27e8}\u{27e9}\""
    );
    let long: String = (0..200).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
    let found = judge(&long, &long.replacen("xyz", "x.z", 5));
    assert!(found.1.contains("\"\u{2026}") || found.1.contains("\u{2026}\""), "{}", found.1);
    let outcome =
        compare(&ids(&[4], &[7, 8, 9, 10]).view(), &ids(&[3], &[7, 8, 10]).view(), &rule(Gate::Text));
    assert_eq!(
        outcome.detail,
        "the first difference is at id 2 of 4, actual 3: expected 7 8 \u{27e8}9\u{27e9} 10, actual 7 8 \u{27e8}10\u{27e9}"
    );
    let outcome = compare(&ids(&[1, 2], &[7, 8]).view(), &ids(&[1, 3], &[7, 8, 9]).view(), &rule(Gate::Text));
    assert_eq!(outcome.class, Some(Class::Shape), "only one axis is a text");
}

#[test]
fn any_bytes_are_shown() {
    let raw = |bytes: &[u8]| Tensor::from_vec(Dtype::Uint8, vec![bytes.len()], bytes.to_vec()).unwrap();
    for (expected, actual) in [
        (&b"\x80\x80\x80"[..], &b"\x80\x80"[..]),
        (b"", b"\xff\x00\x1b[31m"),
        (b"\xf0\x9f\x98\x80", b"\xf0\x9f"),
    ] {
        let outcome = compare(&raw(expected).view(), &raw(actual).view(), &rule(Gate::Text));
        assert_eq!(outcome.class, Some(Class::Value));
        assert!(!outcome.detail.contains('\u{1b}'), "{:?}", outcome.detail);
    }
}
