//! Causes that the recipe of a golden shows: one mistake in the reference's computation, found by replaying it.

use mlx_parity_core::diagnose::{CauseKind, RecipeUse};

use super::recipe_kit::{RecipeCase, explained};

const NORM: &str =
    r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}], ["rms_norm",[0,1],{"rank":1,"eps":1e-6},0,7]"#;

fn norm() -> RecipeCase {
    RecipeCase::new(NORM).input("x", &[1, 6, 32]).weight("w", &[32])
}

#[test]
fn another_eps() {
    let found = norm().with("1e-6", "1e-2");
    let text = explained(&found, CauseKind::Constant).to_owned();
    assert!(text.contains("0.01"), "{text}");
    assert_eq!((found.recipe, found.causes[0].place.as_deref()), (RecipeUse::Replayed, Some("model.py:7")));
}

/// Layers that share a norm make its mistake in each layer.
#[test]
fn a_known_cause_is_recognised_and_another_one_is_not() {
    for eps in ["1e-2", "0.0037"] {
        let known = norm().with("1e-6", eps).causes;
        let again = norm().failing("1e-6", eps).recognised(&known);
        assert_eq!(again.causes, known, "eps {eps}");
        let from = again.made_from.unwrap();
        assert_eq!((from.goldens, from.inputs), (Vec::<String>::new(), vec!["x".to_owned()]));
    }
    let known = norm().with("1e-6", "1e-2").causes;
    let other = norm().failing("\"rms_norm\",[0,1]", "\"rms_norm\",[0]").recognised(&known);
    assert!(other.causes.is_empty(), "{:?}", other.causes);
}

#[test]
fn an_eps_that_nobody_uses_is_solved_for() {
    let found = norm().with("1e-6", "0.0037");
    let text = explained(&found, CauseKind::Constant);
    assert!(text.contains("eps 0.0037 in place of 1e-6"), "{text}");
}

#[test]
fn a_weight_that_is_left_out() {
    explained(&norm().with("\"rms_norm\",[0,1]", "\"rms_norm\",[0]"), CauseKind::LeftOut);
}

const MLP: &str = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"gate"}], ["weight",[],{"name":"up"}],
    ["linear",[0,1],{},0,3], ["linear",[0,2],{},0,4], ["silu",[3],{},0,5], ["mul",[5,4],{},0,5]"#;

fn mlp() -> RecipeCase {
    RecipeCase::new(MLP).input("x", &[1, 6, 32]).weight("gate", &[48, 32]).weight("up", &[48, 32])
}

#[test]
fn another_activation() {
    explained(&mlp().with("\"silu\",[3],{}", "\"gelu\",[3],{\"tanh\":false}"), CauseKind::Function);
}

#[test]
fn an_activation_of_the_other_half() {
    explained(
        &mlp().with("\"silu\",[3],{},0,5], [\"mul\",[5,4]", "\"silu\",[4],{},0,5], [\"mul\",[5,3]"),
        CauseKind::Exchanged,
    );
}

#[test]
fn a_sum_for_a_product() {
    explained(&mlp().with("\"mul\"", "\"add\""), CauseKind::Function);
}

const ATTENTION: &str = r#"["input",[],{"name":"q"}], ["input",[],{"name":"k"}], ["input",[],{"name":"v"}],
    ["attention",[0,1,2],{"scale":0.25,"causal":true,"groups":1,"mask":null},0,9]"#;

fn attention() -> RecipeCase {
    let shape = [1, 2, 10, 16];
    RecipeCase::new(ATTENTION).input("q", &shape).input("k", &shape).input("v", &shape)
}

#[test]
fn attention_without_its_scale_or_its_mask() {
    explained(&attention().with("\"scale\":0.25", "\"scale\":1.0"), CauseKind::Constant);
    explained(&attention().with("\"causal\":true", "\"causal\":false"), CauseKind::MaskChange);
}

/// A stage of 3 billion multiply-adds is replayed for some of its tokens.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_large_stage_is_replayed_in_part() {
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"norm"}], ["rms_norm",[0,1],{"rank":1,"eps":1e-6},0,7],
        ["weight",[],{"name":"w"}], ["linear",[2,3],{},0,8], ["reshape",[4],{"shape":[1,3000,8,128]},0,9],
        ["permute",[5],{"axes":[0,2,1,3]},0,9]"#;
    let case = RecipeCase::new(nodes)
        .input("x", &[1, 3000, 1000])
        .weight("norm", &[1000])
        .weight("w", &[1024, 1000]);
    let found = case.with("1e-6", "1e-2");
    let text = explained(&found, CauseKind::Constant);
    assert!(text.contains("by a replay of ") && text.contains(" of the 3000 of axis 2"), "{text}");
    assert_eq!(found.recipe, RecipeUse::Part);
    assert!(found.causes[0].sampled.is_some());
}

#[test]
fn an_operation_that_comes_several_operations_later() {
    // A cap of scores before their scale.
    let nodes = r#"["input",[],{"name":"x"}], ["add",[0,[0.2]],{}], ["div",[1,[3]],{}], ["tanh",[2],{}], ["mul",[3,[5]],{}]"#;
    let wrong = r#"["div",[0,[3]],{}], ["tanh",[1],{}], ["mul",[2,[5]],{}], ["add",[3,[0.2]],{}]"#;
    let right = r#"["add",[0,[0.2]],{}], ["div",[1,[3]],{}], ["tanh",[2],{}], ["mul",[3,[5]],{}]"#;
    let found = RecipeCase::new(nodes).input("x", &[1, 6, 32]).with(right, wrong);
    assert!(explained(&found, CauseKind::Order).contains("`add` after `mul`"), "{found:?}");
}

#[test]
fn one_number_in_two_places() {
    let nodes = r#"["input",[],{"name":"x"}], ["mul",[0,[3]],{}], ["abs",[0],{}], ["mul",[2,[2.0]],{}], ["add",[3,[1]],{}], ["div",[1,4],{}]"#;
    let right = r#"["mul",[0,[3]],{}], ["abs",[0],{}], ["mul",[2,[2.0]],{}]"#;
    let wrong = r#"["mul",[0,[1.7]],{}], ["abs",[0],{}], ["mul",[2,[0.7]],{}]"#;
    let found = RecipeCase::new(nodes).input("x", &[1, 6, 32]).with(right, wrong);
    assert!(explained(&found, CauseKind::Constant).contains("1.7 in place of 3"), "{found:?}");
}

#[test]
fn weights_that_were_rounded() {
    // Both weights are rounded, as a checkpoint in half precision is.
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"a"}], ["weight",[],{"name":"b"}],
        ["cast",[1],{"dtype":"float32"}], ["cast",[2],{"dtype":"float32"}], ["linear",[0,3],{}], ["linear",[5,4],{}]"#;
    let right = r#"["cast",[1],{"dtype":"float32"}], ["cast",[2],{"dtype":"float32"}]"#;
    let wrong = r#"["cast",[1],{"dtype":"bfloat16"}], ["cast",[2],{"dtype":"bfloat16"}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 6, 32]).weight("a", &[48, 32]).weight("b", &[16, 48]);
    assert!(
        explained(&case.with(right, wrong), CauseKind::Precision).contains("all weights rounded to bfloat16")
    );
}

#[test]
fn an_activation_between_layers_without_taps() {
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"a"}], ["weight",[],{"name":"b"}],
        ["linear",[0,1],{}], ["gelu",[3],{"tanh":true}], ["linear",[4,2],{},0,12]"#;
    let case =
        || RecipeCase::new(nodes).input("x", &[1, 6, 32]).weight("a", &[48, 32]).weight("b", &[32, 48]);
    for wrong in [r#""gelu",[3],{"tanh":false}"#, r#""relu",[3],{}"#, r#""silu",[3],{}"#] {
        explained(&case().with(r#""gelu",[3],{"tanh":true}"#, wrong), CauseKind::Function);
    }
}

#[test]
fn a_weight_that_has_no_effect_is_named() {
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}], ["weight",[],{"name":"out.bias"}], ["linear",[0,1,2],{}]"#;
    let case =
        RecipeCase::new(nodes).input("x", &[1, 6, 32]).weight("w", &[48, 32]).weight("out.bias", &[48]);
    let found = case.with("\"linear\",[0,1,2]", "\"linear\",[0,1]");
    assert!(explained(&found, CauseKind::LeftOut).contains("`out.bias` left out of `linear`"), "{found:?}");
}

#[test]
fn angles_along_the_heads_in_place_of_the_tokens() {
    // As many heads as tokens, so that both shapes are allowed.
    let nodes = r#"["input",[],{"name":"x"}], ["input",[],{"name":"cos"}], ["reshape",[1],{"shape":[1,1,6,8]}], ["mul",[0,2],{}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 6, 6, 8]).input("cos", &[6, 8]);
    explained(&case.with("[1,1,6,8]", "[1,6,1,8]"), CauseKind::Axis);
}

#[test]
fn a_softmax_in_half_precision() {
    let nodes = r#"["input",[],{"name":"s"}], ["input",[],{"name":"v"}], ["cast",[0],{"dtype":"float32"}],
        ["softmax",[2],{"axis":3}], ["matmul",[3,1],{}]"#;
    let case = RecipeCase::new(nodes).input("s", &[1, 2, 10, 10]).input("v", &[1, 2, 10, 16]);
    explained(
        &case.with(r#"["cast",[0],{"dtype":"float32"}]"#, r#"["cast",[0],{"dtype":"bfloat16"}]"#),
        CauseKind::Precision,
    );
}

/// Proposing changes takes time as well, and a recipe may come from anybody.
#[test]
fn a_stage_of_very_many_operations_is_not_searched() {
    let mut nodes = r#"["input",[],{"name":"x"}], ["add",[0,[3.5]],{}]"#.to_owned();
    (1..20_000).for_each(|node| nodes += &format!(r#", ["add",[{node},[1e-9]],{{}}]"#));
    let found = RecipeCase::new(&nodes).input("x", &[8]).with("3.5", "4.5");
    assert_eq!(found.recipe, RecipeUse::TooLarge);
}

/// Sequences are filled up with a different id.
#[test]
fn another_number_in_a_table() {
    let nodes = r#"["input",[],{"name":"ids"}], ["cast",[0],{"dtype":"int32"}]"#;
    let ids = [5.0, 8.0, 9.0, 9.0, 9.0, 9.0, 7.0, 6.0, 4.0, 3.0, 9.0, 9.0];
    let case = || RecipeCase::new(nodes).table("ids", &[2, 6], &ids);
    let wrong = r#"["eq",[0,[9]],{}], ["where",[1,[0],0],{}], ["cast",[2],{"dtype":"int32"}]"#;
    let found = case().with(r#"["cast",[0],{"dtype":"int32"}]"#, wrong);
    assert!(explained(&found, CauseKind::Constant).contains("0 in place of each 9 in `ids`"), "{found:?}");
    // The first 9 ends the sequence.
    let wrong = r#"["eq",[0,[9]],{}], ["roll",[1],{"shifts":[1],"axes":[1]}], ["and",[1,2],{}], ["where",[3,[0],0],{}],
        ["cast",[4],{"dtype":"int32"}]"#;
    let found = case().with(r#"["cast",[0],{"dtype":"int32"}]"#, wrong);
    let text = explained(&found, CauseKind::Constant);
    assert!(text.contains("0 in place of each 9 that follows another one"), "{text}");
}

/// Both ends of a step in a schedule are one place too late.
#[test]
fn slices_that_are_moved_together() {
    let nodes = r#"["input",[],{"name":"sigmas"}], ["input",[],{"name":"x"}],
        ["slice",[0],{"axis":0,"start":2,"end":3,"step":1}], ["slice",[0],{"axis":0,"start":3,"end":4,"step":1}],
        ["sub",[3,2],{}], ["mul",[1,4],{}]"#;
    let right = r#""start":2,"end":3,"step":1}], ["slice",[0],{"axis":0,"start":3,"end":4,"#;
    let wrong = r#""start":3,"end":4,"step":1}], ["slice",[0],{"axis":0,"start":4,"end":5,"#;
    let found = RecipeCase::new(nodes).input("sigmas", &[6]).input("x", &[4, 8]).with(right, wrong);
    assert!(explained(&found, CauseKind::Position).contains("2 slices of `sigmas` moved by 1"), "{found:?}");
}

/// Queries and keys of all tokens in place of those of one window: the scores have another shape.
#[test]
fn slices_that_are_left_out_together() {
    let nodes = r#"["input",[],{"name":"q"}], ["input",[],{"name":"k"}],
        ["slice",[0],{"axis":0,"start":0,"end":4,"step":1}], ["slice",[1],{"axis":0,"start":0,"end":4,"step":1}],
        ["permute",[3],{"axes":[1,0]}], ["matmul",[2,4],{}]"#;
    let right = r#"["slice",[0],{"axis":0,"start":0,"end":4,"step":1}], ["slice",[1],{"axis":0,"start":0,"end":4,"step":1}]"#;
    let wrong = right.replace(":4,", ":12,");
    let case = || RecipeCase::new(nodes).input("q", &[12, 8]).input("k", &[12, 8]);
    let found = case().with(right, &wrong);
    let text = explained(&found, CauseKind::LeftOut);
    assert!(text.contains("all of axis 0 in place of 0 to 4, in 2 places"), "{text}");
    let found = case().with(right, &right.replace(":4,", ":8,"));
    let text = explained(&found, CauseKind::Operand);
    assert!(text.contains("0 to 8 of axis 0 in place of 0 to 4, in 2 places"), "{text}");
}

/// The rows of a fused projection are in another order, those of its bias are not.
#[test]
fn parts_of_a_weight_that_are_exchanged() {
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}], ["weight",[],{"name":"b"}], ["linear",[0,1,2],{}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 6, 16]).weight("w", &[48, 16]).weight("b", &[48]);
    let wrong = r#"["slice",[1],{"axis":0,"start":0,"end":16,"step":1}], ["slice",[1],{"axis":0,"start":16,"end":32,"step":1}],
        ["slice",[1],{"axis":0,"start":32,"end":48,"step":1}], ["cat",[4,3,5],{"axis":0}], ["linear",[0,6,2],{}]"#;
    let found = case.with(r#"["linear",[0,1,2],{}]"#, wrong);
    assert!(
        explained(&found, CauseKind::Exchanged).contains("parts 0 and 1 of 3 of `w` exchanged"),
        "{found:?}"
    );
}

/// A number that is a logarithm, as in buckets of distances, for twice the largest distance.
#[test]
fn the_logarithm_of_another_number() {
    let nodes = r#"["input",[],{"name":"x"}], ["abs",[0],{}], ["div",[1,[2.772588722239781]],{}], ["mul",[2,[8]],{}], ["floor",[3],{}]"#;
    let found = RecipeCase::new(nodes).input("x", &[6, 32]).with("2.772588722239781", "3.4657359027997265");
    explained(&found, CauseKind::Constant);
}

/// Positions of 3 rows and 2 columns in place of 2 and 3.
#[test]
fn a_grid_that_is_turned() {
    let grid = |rows: usize, columns: usize| {
        let positions =
            (0..rows).flat_map(|row| (0..columns).map(move |column| [0.0, row as f64, column as f64]));
        positions.flatten().collect::<Vec<f64>>()
    };
    let nodes = r#"["input",[],{"name":"right"}], ["input",[],{"name":"turned"}],
        ["reshape",[0],{"shape":[6,3]}], ["add",[2,[0.5]],{}], ["sin",[3],{}]"#;
    let case = RecipeCase::new(nodes).table("right", &[2, 3, 3], &grid(2, 3)).table(
        "turned",
        &[3, 2, 3],
        &grid(3, 2),
    );
    let found = case.with(r#"["reshape",[0]"#, r#"["reshape",[1]"#);
    assert!(
        explained(&found, CauseKind::Position).contains("3 rows and 2 columns in place of 2 and 3"),
        "{found:?}"
    );
}
