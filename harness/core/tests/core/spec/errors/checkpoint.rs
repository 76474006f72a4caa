//! Keys, names, loops and conditions of a checkpoint.

use super::check_checkpoints;

#[test]
fn keys_of_a_checkpoint() {
    check_checkpoints("- x", &["5:3: found the text `x`: expected a checkpoint, which is a mapping"]);
    check_checkpoints("- {shape: []}", &["5:3: key `name` is missing in a checkpoint"]);
    check_checkpoints(
        "- {name: x, shape: [], ranges: 1}",
        &["5:24: unknown key `ranges` in a checkpoint, did you \
        mean `range`? expected one of `name`, `for`, `when`, `hits`, `level`, `stage`, `dtype`, `shape`, `rtol`, \
        `atol`, `policy`, `noise`, `compare`, `kl`, `top1`, `topk`, `top`, `ties`, `with`, `scores`, `layout`, `squeeze`, \
        `cast`, `positions`, `range`, `nan`, `against`, `at_least`, `gate`, `why`"],
    );
    check_checkpoints("- {name: x, shape: [], hits: 0}", &["5:30: found hits 0: expected 1 to 1000000"]);
    check_checkpoints(
        "- {name: x, shape: [], hits: 1.5}",
        &["5:30: found the number `1.5`: expected a whole \
        number, 0 or more"],
    );
    check_checkpoints("- {name: x, shape: [], level: 12}", &["5:31: found level 12: expected 0 to 9"]);
    check_checkpoints(
        "- {name: x, shape: [], stage: nrom}",
        &["5:31: unknown stage `nrom`, did you mean `norm`? \
        expected one of `embedding`, `norm`, `rope`, `attention`, `mlp`, `linear`, `conv`, `modulation`, `residual`, \
        `scheduler`, `transformer`, `text_encoder`, `vae`, `image`, `gradient`, `optimizer`"],
    );
    check_checkpoints(
        "- {name: x, shape: [-1]}",
        &["5:21: found the number `-1`: expected a length, or a name for \
        one of letters, digits and `_`"],
    );
    check_checkpoints(
        "- {name: x, shape: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
        &["5:20: found a shape of 17 axes: \
        expected at most 16"],
    );
    check_checkpoints(
        "- {name: x, shape: [], dtype: f32}",
        &["5:31: unknown dtype `f32`: expected one of `bool`, \
        `uint8`, `uint16`, `uint32`, `uint64`, `int8`, `int16`, `int32`, `int64`, `float16`, `bfloat16`, `float32`, \
        `float64`, `complex64`"],
    );
    check_checkpoints(
        "- {name: x, range: [2, 1]}",
        &["5:20: found the range from 2 to 1: expected the smaller \
        number first, and one of them finite"],
    );
    check_checkpoints(
        "- {name: x, range: [.nan, 1]}",
        &["5:20: found the range from NaN to 1: expected the smaller \
        number first, and one of them finite"],
    );
    check_checkpoints(
        "- {name: x, range: 3}",
        &["5:20: found the number `3`: expected `[smallest, largest]`"],
    );
    check_checkpoints("- {name: x, range: [0, .inf]}", &[]);
    check_checkpoints(
        "- {name: x, dtype: complex64, range: [0, 1]}",
        &["5:38: `range` on complex64: expected real \
        values, which have an order (5:20: `dtype`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, nan: yes}",
        &["5:44: unknown nan `yes`: expected \
        `equal`"],
    );
}

#[test]
fn names_of_checkpoints() {
    for (name, allowed) in [
        ("a b", "expected letters, digits and `_`, `.`, `@`, `-`"),
        ("a/b", "expected letters, digits and `_`, `.`, `@`, `-`"),
        ("a..b", "expected no empty part between dots"),
        (".a", "expected no empty part between dots"),
        ("-a", "expected a letter, a digit or `_` at the start"),
        ("", "expected 1 to 200 characters"),
    ] {
        let expected = format!("5:10: `{name}` cannot be a checkpoint's name: {allowed}");
        check_checkpoints(&format!("- {{name: '{name}', shape: []}}"), &[&expected]);
    }
    let long = "x".repeat(201);
    let shown = "x".repeat(60);
    check_checkpoints(
        &format!("- {{name: {long}, shape: []}}"),
        &[&format!(
            "5:10: `{shown}…` cannot be a \
        checkpoint's name: expected 1 to 200 characters"
        )],
    );
    for name in ["spec", "fixture", "weights", "stats"] {
        check_checkpoints(
            &format!("- {{name: {name}, shape: []}}"),
            &[&format!(
                "5:10: checkpoint name `{name}` is \
            reserved: every spec has trials called `spec`, `fixture`, `weights`, `adapters`, `stats`, `memory`"
            )],
        );
    }
    check_checkpoints(
        "- {name: x.1, shape: []}\n- {name: 'x.{i}', for: {i: 0..4}, shape: []}",
        &["6:10: checkpoint `x.1` is declared twice: expected another name (5:10: first declared here)"],
    );
    check_checkpoints(
        "- {name: x, hits: 3, shape: []}\n- {name: x@2, shape: []}\n- {name: x@3, shape: []}",
        &[
            "6:10: checkpoint `x@2` is declared twice: expected another name, or fewer `hits` there (5:10: uses \
           this name for one of its 3 hits)",
        ],
    );
}

#[test]
fn loops() {
    let check_for = |r#for: &str, expected: &[&str]| {
        check_checkpoints(&format!("- {{name: 'x.{{i}}', for: {for}, shape: []}}"), expected);
    };
    let wanted = "expected a range such as `0..4`, which excludes its end, or a list of whole numbers";
    for (text, found) in [
        ("4", "the number `4`"),
        ("0..=4", "the text `0..=4`"),
        ("0..n", "the text `0..n`"),
        ("..4", "the text `..4`"),
        ("0..99999999999999999999", "the text `0..99999999999999999999`"),
        ("[a]", "a list"),
        ("[0.5]", "a list"),
    ] {
        check_for(&format!("{{i: {text}}}"), &[&format!("5:28: found {found}: {wanted}")]);
    }
    check_for("{i: 4..4}", &["5:28: found an axis without values: expected at least one, as in `0..4`"]);
    check_for("{i: 4..0}", &["5:28: found an axis without values: expected at least one, as in `0..4`"]);
    check_for("{i: [1, 2, 1]}", &["5:28: found 1 twice in an axis: expected it once"]);
    check_for("{i: 0..100001}", &["5:28: found an axis of 100001 values: expected at most 100000"]);
    check_for(
        "{i: -9223372036854775808..9223372036854775807}",
        &["5:28: found an axis of 9223372036854775807 \
        values: expected at most 100000"],
    );
    check_for(
        "{i: 0..2, j: 0..2}",
        &["5:34: axis `j` is not in the name: expected `{j}` in the name, or names would \
        repeat"],
    );
    check_for("{}", &["5:24: found 0 axes: expected 1 to 8, as in `{i: 0..4}`"]);
    check_for(
        "{i-j: 0..2}",
        &["5:25: axis `i-j` is not a valid name: expected letters, digits and `_`, and no digit first"],
    );
    check_for("[0, 1]", &["5:24: found a list: expected `for`, which is a mapping"]);
    check_checkpoints(
        "- {name: 'x.{i}', shape: []}",
        &["5:13: unknown axis `i`: expected a `for` that declares it"],
    );
    check_checkpoints(
        "- {name: 'x.{i', for: {i: 0..2}, shape: []}",
        &["5:13: unmatched brace in \
        `x.{i`: expected `{axis}`"],
    );
    check_checkpoints(
        "- {name: 'x.{a}.{b}', for: {a: 0..2000, b: 0..2000}, shape: []}",
        &["5:10: the loops have too \
        many combinations: expected at most 1000000 in a spec"],
    );
    check_checkpoints(
        "- {name: 'x.{a}.{b}', for: {a: 0..1000, b: 0..1000}, shape: []}",
        &["5:10: the spec has more \
        than 100000 checkpoints: split it, or select fewer with `when`"],
    );
}

#[test]
fn conditions() {
    let check_when = |when: &str, expected: &[&str]| {
        check_checkpoints(
            &format!("- {{name: 'x.{{i}}', for: {{i: 0..4}}, shape: [], when: \"{when}\"}}"),
            expected,
        );
    };
    check_when("i % 2 == 0 && !(i > 2)", &[]);
    check_when("i +", &["5:56: `when`: found the end, expected a number, an axis or `(`"]);
    check_when("i == 1)", &["5:59: `when`: found `)`, expected an operator or the end"]);
    check_when("(i == 1", &["5:60: `when`: found the end, expected `)`"]);
    check_when("i", &["5:53: `when`: found a number, expected a condition such as `i % 2 == 0`"]);
    check_when("i && i > 1", &["5:53: `when`: found a number where a condition is expected"]);
    check_when("(i > 1) + 1 == 2", &["5:53: `when`: found a condition where a number is expected"]);
    check_when("j == 1", &["5:53: `when`: unknown axis `j`, expected `i`"]);
    check_when(
        "i == 99999999999999999999",
        &["5:58: `when`: `99999999999999999999` is not a whole number of 64 bits"],
    );
    check_when("10 / (i - 2) > 0", &["5:53: `when`: division by zero for i = 2"]);
    check_when(
        "i * 9223372036854775807 >= 0",
        &["5:53: `when`: the result does not fit in 64 bits for i = 2"],
    );
    check_when(
        "i > 9",
        &["5:52: `when` holds for none of 4 combinations: expected at least one, or nothing is checked"],
    );
    check_when(&"(".repeat(40), &["5:85: `when`: nested more than 32 levels deep"]);
    check_when(
        &format!("i == {}", "1".repeat(500)),
        &["5:53: `when`: a condition may have at most 500 characters"],
    );
    check_checkpoints(
        "- {name: x, shape: [], when: 1 == 1}",
        &["5:30: `when` without `for`: expected a `for`, whose \
        axes it selects from"],
    );
}
