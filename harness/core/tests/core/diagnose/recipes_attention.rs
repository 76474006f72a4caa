//! Causes that the recipe of a golden shows: mistakes in attention.

use mlx_parity_core::diagnose::CauseKind;

use super::recipe_kit::{RecipeCase, explained};

/// Attention in one operation, of queries and keys with large numbers.
const FUSED: &str = r#"["input",[],{"name":"q"}], ["input",[],{"name":"k"}], ["input",[],{"name":"v"}],
    ["mul",[0,[90]],{}], ["mul",[1,[90]],{}],
    ["attention",[3,4,2],{"scale":0.0001,"causal":false,"groups":1,"mask":null},0,9]"#;

/// The same in steps; `%` stands for what differs from the reference.
fn in_steps(changed: &str) -> String {
    let steps = r#"["permute",[4],{"axes":[0,1,3,2]}], ["matmul",[3,5],{}], %"#;
    steps.replace('%', changed)
}

fn attention() -> RecipeCase {
    let shape = [1, 2, 10, 16];
    RecipeCase::new(FUSED).input("q", &shape).input("k", &shape).input("v", &shape)
}

const ATTENTION: &str = r#"["attention",[3,4,2],{"scale":0.0001,"causal":false,"groups":1,"mask":null},0,9]"#;

/// Products above 65504 become infinite, and the rows with them NaN.
#[test]
fn attention_that_overflows() {
    let wrong = in_steps(
        r#"["cast",[6],{"dtype":"float16"}], ["mul",[7,[0.0001]],{}], ["softmax",[8],{"axis":3}], ["matmul",[9,2],{}]"#,
    );
    let failing = attention().failing(ATTENTION, &wrong);
    let values = failing.actual_values();
    let lost = values.iter().filter(|x| x.is_nan()).count();
    assert!(lost > 0 && lost < values.len() / 2, "{lost} of {} are lost", values.len());
    let found = failing.diagnosis();
    let text = explained(&found, CauseKind::Precision);
    assert!(text.contains("products of queries and keys rounded to float16"), "{text}");
}

#[test]
fn scores_and_probabilities_in_half_precision() {
    let scores = r#"["mul",[6,[0.0001]],{}], ["cast",[7],{"dtype":"bfloat16"}], ["softmax",[8],{"axis":3}], ["matmul",[9,2],{}]"#;
    let found = attention().with(ATTENTION, &in_steps(scores));
    assert!(explained(&found, CauseKind::Precision).contains("scores of `attention` rounded to bfloat16"));
    let probabilities = r#"["mul",[6,[0.0001]],{}], ["softmax",[7],{"axis":3}], ["cast",[8],{"dtype":"bfloat16"}], ["matmul",[9,2],{}]"#;
    let found = attention().with(ATTENTION, &in_steps(probabilities));
    assert!(
        explained(&found, CauseKind::Precision).contains("probabilities of `attention` rounded to bfloat16")
    );
}

#[test]
fn a_softmax_over_the_queries_or_without_its_division() {
    let over_queries = r#"["mul",[6,[0.0001]],{}], ["softmax",[7],{"axis":2}], ["matmul",[8,2],{}]"#;
    explained(&attention().with(ATTENTION, &in_steps(over_queries)), CauseKind::Axis);
    let not_divided = r#"["mul",[6,[0.0001]],{}], ["max",[7],{"axes":[3],"keep":true}], ["sub",[7,8],{}], ["exp",[9],{}], ["matmul",[10,2],{}]"#;
    explained(&attention().with(ATTENTION, &in_steps(not_divided)), CauseKind::LeftOut);
}

const SCORES: &str = r#"["input",[],{"name":"q"}], ["input",[],{"name":"k"}],
    ["reshape",[0],{"shape":[1,6,4,8]}], ["permute",[2],{"axes":[0,2,1,3]}],
    ["reshape",[1],{"shape":[1,6,4,8]}], ["permute",[4],{"axes":[0,2,3,1]}],
    ["matmul",[3,5],{}], ["mul",[6,[0.35355339059327373]],{}]"#;

/// The heads of queries and keys change together, and the scores have another shape.
#[test]
fn another_number_of_heads() {
    let case = || RecipeCase::new(SCORES).input("q", &[1, 6, 32]).input("k", &[1, 6, 32]);
    let part = |shape: &str, scale: &str| {
        let start = SCORES.find(r#"["reshape",[0]"#).unwrap();
        SCORES[start..].replace("[1,6,4,8]", shape).replace("0.35355339059327373", scale)
    };
    let right = part("[1,6,4,8]", "0.35355339059327373");
    let found = case().with(&right, &part("[1,6,8,4]", "0.5"));
    let text = explained(&found, CauseKind::Axis);
    assert!(text.contains("parts of 4 in place of 8, and a scale for that length"), "{text}");
    let found = case().with(&right, &part("[1,6,2,16]", "0.35355339059327373"));
    assert!(explained(&found, CauseKind::Axis).ends_with("parts of 16 in place of 8"), "{found:?}");
}

/// Keys of two heads, each repeated for two heads of queries, as transformers does it.
const REPEATED: &str = r#"["input",[],{"name":"k"}], ["input",[],{"name":"q"}],
    ["reshape",[0],{"shape":[1,2,1,5,8]},0,175], ["expand",[2],{"shape":[1,2,2,5,8]},0,175],
    ["reshape",[3],{"shape":[1,4,5,8]},0,176], ["permute",[4],{"axes":[0,1,3,2]},0,190], ["matmul",[1,5],{},0,190]"#;

/// Several changes of the recipe tile the heads. None of their texts would be understood.
#[test]
fn heads_that_are_tiled_are_called_so() {
    let case = RecipeCase::new(REPEATED).input("k", &[1, 2, 5, 8]).input("q", &[1, 4, 5, 8]);
    let right = r#"["reshape",[0],{"shape":[1,2,1,5,8]},0,175]"#;
    let found = case.with(right, r#"["reshape",[0],{"shape":[1,1,2,5,8]},0,175]"#);
    let cause = &found.causes[0];
    assert_eq!(
        cause.text,
        "the reference's with key/value heads tiled (0, 1, 0, 1) where the reference repeats each (0, 0, 1, 1)"
    );
    assert_eq!(cause.same_as, [""; 0]);
}

#[test]
fn repeated_elements_that_are_tiled_are_called_so() {
    let nodes = r#"["input",[],{"name":"x"}], ["repeat_interleave",[0],{"repeats":3,"axis":1},0,4], ["mul",[1,[2]],{},0,5]"#;
    let case = RecipeCase::new(nodes).input("x", &[4, 3, 8]);
    let found = case.with(
        r#"["repeat_interleave",[0],{"repeats":3,"axis":1},0,4]"#,
        r#"["tile",[0],{"times":[1,3,1]},0,4]"#,
    );
    let text = &found.causes[0].text;
    let words = "the entries of axis 1 tiled (0, 1, 2, 0, 1, 2, …) where the reference repeats each (0, 0, 0, 1, 1, 1, …)";
    assert!(text.ends_with(words), "{text}");
}

/// A causal mask from the positions of keys and queries.
const CAUSAL: &str = r#"["input",[],{"name":"s"}], ["input",[],{"name":"at"}],
    ["add",[1,[0]],{},0,510], ["reshape",[2],{"shape":[1,6]},0,511], ["add",[1,[0]],{},0,520], ["reshape",[4],{"shape":[6,1]},0,521],
    ["le",[3,5],{},0,530], ["where",[6,[0],[-1e9]],{},0,540], ["add",[0,7],{},0,550], ["softmax",[8],{"axis":2},0,551]"#;

#[test]
fn the_offset_of_a_mask_is_called_so() {
    let case = || {
        let positions: Vec<f64> = (0..6).map(f64::from).collect();
        RecipeCase::new(CAUSAL).input("s", &[2, 6, 6]).table("at", &[6], &positions)
    };
    let right = r#"["add",[1,[0]],{},0,510]"#;
    for (wrong, words) in [("-1", "each token sees one token more"), ("2", "each token sees 2 tokens fewer")]
    {
        let found = case().with(right, &right.replace("[0]", &format!("[{wrong}]")));
        let cause = &found.causes[0];
        assert_eq!(cause.kind, CauseKind::MaskChange, "{cause:?}");
        assert!(cause.text.ends_with(&format!("in `add`, the offset of a mask: {words}")), "{cause:?}");
        // Other numbers, and the same with the other operand, say nothing new.
        assert_eq!(cause.same_as, [""; 0]);
    }
}
