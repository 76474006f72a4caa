//! For every rule of the grammar: the fault, and exactly the words that it is reported with.

use std::path::Path;

use mlx_parity::spec::{Policies, parse_spec};

fn problems(source: &str) -> Vec<String> {
    let (policies, broken) = Policies::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../parity-specs"));
    assert_eq!(broken, None);
    let policies = Policies { path: "policies.yaml".into(), ..policies };
    match parse_spec("model/part", Path::new("part.yaml"), source, &policies) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    assert_eq!(problems(source), expected, "in\n{source}");
}

/// Checkpoints from line 5 on; each table entry is checkpoints and what is expected of them.
#[track_caller]
fn check_checkpoints(checkpoints: &str, expected: &[&str]) {
    check(
        &format!("version: 1\nport: p\nreference: {{script: s.py}}\ncheckpoints:\n{checkpoints}\n"),
        expected,
    );
}

/// One more key of a spec, in line 5.
#[track_caller]
fn check_key(key: &str, expected: &[&str]) {
    const HEAD: &str = "version: 1\nport: p\nreference: {script: s.py}\ncheckpoints: [{name: x, dtype: float32, noise: 8}]\n";
    check(&format!("{HEAD}{key}\n"), expected);
}

#[test]
fn a_right_spec_has_no_problems() {
    check_key("about: fine", &[]);
    check_checkpoints("- {name: x, dtype: float32, policy: fp32}", &[]);
}

#[test]
fn keys_of_a_spec() {
    check("[]", &["1:1: found a list: expected a spec, which is a mapping"]);
    check("", &["1:1: found nothing: expected a spec, which is a mapping"]);
    check("version: 1\ncheckpoints: [{name: x, shape: []}]", &["1:1: key `port` is missing in a spec"]);
    check(
        "version: 1\nport: p\ncheckpoints: [{name: x, dtype: float32, noise: 8}]",
        &[
            "1:1: key `reference` is missing in a spec: checkpoint `x` in line 3 needs a golden, so the spec must say \
           what makes it",
        ],
    );
    check("port: p\nversion: 2\ncheckpoints: [{name: x, shape: []}]", &["2:10: found version 2: expected 1"]);
    check(
        "version: 1\nport: p\ncheckpoints: []",
        &["3:14: `checkpoints` is empty: expected at least one: a spec \
           without any proves nothing"],
    );
    check("version: 1\nport: p\ncheckpoints: 3", &["3:14: found the number `3`: expected a list"]);
    check(
        "version: 1\nport: a b\ncheckpoints: [{name: x, shape: []}]",
        &[
            "2:7: `a b` cannot be a port's name: expected 1 to 200 letters, digits and `_`, `:`, `.`, `/`, `-`, as in \
           `qwen_image::vision_block`",
        ],
    );
    check_key(
        "abuot: x",
        &["5:1: unknown key `abuot` in a spec, did you mean `about`? expected one of `version`, \
               `port`, `about`, `reference`, `fixtures`, `inputs`, `weights`, `device`, `timeout`, `requires`, \
               `inject`, `level`, `checkpoints`"],
    );
    check_key(
        "about: 3",
        &["5:8: found the number `3`: expected text; put it in quotes if it is meant as text"],
    );
    check_key("about: ~", &["5:8: found nothing: expected text"]);
    check_key("level: 10", &["5:8: found level 10: expected 0 to 9"]);
    check_key("level: -1", &["5:8: found the number `-1`: expected a whole number, 0 or more"]);
    check_key(
        "device: gup",
        &["5:9: unknown device `gup`, did you mean `gpu`? expected one of `default`, `cpu`, `gpu`"],
    );
}

#[test]
fn paths_stay_below_their_root() {
    let allowed = "expected a path below the fixture root, with `/` and without `.` or `..`";
    for path in ["../x", "/etc", "a/../../b", "a//b", "./a", "", "'a\\b'", "'C:/x'"] {
        let shown = path.trim_matches('\'');
        let text = if path.is_empty() { "''" } else { path };
        check_key(&format!("fixtures: {text}"), &[&format!("5:11: path `{shown}` is refused: {allowed}")]);
    }
    check_key("fixtures: other/set", &[]);
    check(
        "version: 1\nport: p\nreference: {script: ../s.py}\ncheckpoints: [{name: x, dtype: float32, noise: 8}]",
        &[
            "3:21: path `../s.py` is refused: expected a path below the project's root, with `/` and without `.` or `..`",
        ],
    );
    check_key(
        "weights: {file: /w}",
        &["5:17: path `/w` is refused: expected a path below the fixture folder, with \
               `/` and without `.` or `..`"],
    );
}

#[test]
fn reference_and_its_params() {
    let spec = |reference: &str| {
        format!(
            "version: 1\nport: p\ncheckpoints: [{{name: x, dtype: float32, noise: 8}}]\nreference: {reference}"
        )
    };
    check(&spec("{source: m}"), &["4:12: key `script` is missing in `reference`"]);
    check(&spec("{script: s, params: [1]}"), &["4:32: found a list: expected `params`, which is a mapping"]);
    check(
        &spec("{script: s, params: {x: {y: [.nan]}}}"),
        &["4:41: found the number `NaN`: expected a finite number, \
           since settings are handed over as JSON"],
    );
    check(
        &spec("{script: s, params: {x: 99999999999999999999}}"),
        &["4:36: found the number \
           `99999999999999999999`: expected a whole number of at most 64 bits; put it in quotes if it is text"],
    );
    check(&spec("{script: s, params: {x: [1, 2.5, a, true, ~, {z: 18446744073709551615}]}}"), &[]);
}

#[test]
fn inputs_weights_and_the_rest_of_a_spec() {
    check_key("inputs: [a, b, a]", &["5:16: input `a` is declared twice (5:10: first declared here)"]);
    check_key(
        "inputs: [../a]",
        &["5:10: `../a` cannot be an input's name: expected letters, digits and `_`, `.`, \
               `@`, `-`"],
    );
    check_key("inputs: a", &["5:9: found the text `a`: expected a list"]);
    check_key("weights: {}", &["5:10: `weights` names no file: expected `file` or `shards`"]);
    check_key(
        "weights: {file: a, shards: [b]}",
        &["5:28: `weights` has both `file` and `shards`: expected one of \
               them (5:17: `file`)"],
    );
    check_key("weights: {shards: []}", &["5:19: `shards` is empty: expected at least one file"]);
    check_key(
        "weights: {file: a, rename: {b: 1}}",
        &["5:32: found the number `1`: expected text; put it in quotes \
               if it is meant as text"],
    );
    check_key(
        "weights: {file: a, renames: {}}",
        &["5:20: unknown key `renames` in `weights`, did you mean \
               `rename`? expected one of `file`, `shards`, `rename`, `allow_missing`, `expect`"],
    );
    for text in ["90", "90 s", "5d", "0s", "25h", "-1s", "99999999999999999999s", "s", "''", "é"] {
        let found = match text {
            "90" => "the number `90`".to_owned(),
            text => format!("the text `{}`", text.trim_matches('\'')),
        };
        let expected = "expected a time such as `90s`, `5m` or `2h`, 24 hours at most";
        check_key(&format!("timeout: {text}"), &[&format!("5:10: found {found}: {expected}")]);
    }
    check_key(
        "requires: [gpuu]",
        &["5:12: unknown requirement `gpuu`, did you mean `gpu`? expected one of `gpu`, \
               `macos`, `linux`, `fixtures`, `env:NAME`"],
    );
    check_key(
        "requires: ['env:A B']",
        &["5:12: unknown requirement `env:A B`: expected one of `gpu`, `macos`, \
               `linux`, `fixtures`, `env:NAME`"],
    );
    check_key(
        "inject: [y]",
        &["5:10: no checkpoint is called `y`: expected the name of a checkpoint of this spec"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, shape: [1]}\ninject: [x]",
        &[
            "6:10: checkpoint `x` has no golden to inject: expected one with a value gate and without `against`",
        ],
    );
}

#[test]
fn keys_of_a_checkpoint() {
    check_checkpoints("- x", &["5:3: found the text `x`: expected a checkpoint, which is a mapping"]);
    check_checkpoints("- {shape: []}", &["5:3: key `name` is missing in a checkpoint"]);
    check_checkpoints(
        "- {name: x, shape: [], ranges: 1}",
        &["5:24: unknown key `ranges` in a checkpoint, did you \
        mean `range`? expected one of `name`, `for`, `when`, `hits`, `level`, `stage`, `dtype`, `shape`, `rtol`, \
        `atol`, `policy`, `noise`, `layout`, `squeeze`, `cast`, `range`, `nan`, `against`, `gate`, `why`"],
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
        `scheduler`, `transformer`, `text_encoder`, `vae`"],
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
    check_checkpoints(
        "- {name: x, shape: [], nan: equal}",
        &["5:29: `nan` without a value gate: nothing is \
        compared: leave it out"],
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
            reserved: every spec has trials called `spec`, `fixture`, `weights`, `stats`"
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
            "6:10: checkpoint `x@2` is declared twice: expected another name, or fewer `hits` there (5:10: has it as \
           one of its 3 hits)",
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
        &["5:25: axis `i-j` is not a name: expected letters, digits and `_`, not first a digit"],
    );
    check_for("[0, 1]", &["5:24: found a list: expected `for`, which is a mapping"]);
    check_checkpoints(
        "- {name: 'x.{i}', shape: []}",
        &["5:13: unknown axis `i`: expected a `for` that declares it"],
    );
    check_checkpoints(
        "- {name: 'x.{i', for: {i: 0..2}, shape: []}",
        &["5:13: a brace without its other half in \
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
    check_when(&"(".repeat(40), &["5:85: `when`: nested more than 32 deep"]);
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

#[test]
fn value_gates() {
    check_checkpoints(
        "- {name: x, dtype: float32}",
        &["5:3: the checkpoint checks nothing: expected `rtol` with \
        `atol`, `policy` or `noise`, or at least a `shape` or a `range`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: 0}",
        &["5:35: `rtol` without `atol`: expected both; there is \
        no default, 0 is a value"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, atol: 0}",
        &["5:35: `atol` without `rtol`: expected both; there is \
        no default, 0 is a value"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: 0, atol: 0, noise: 8}",
        &["5:54: `rtol` and `atol` and \
        `noise` in one checkpoint: expected exactly one of `rtol` with `atol`, `policy`, `noise` (5:35: `rtol` and \
        `atol`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, policy: fp32, noise: 8}",
        &["5:50: `policy` and `noise` in one \
        checkpoint: expected exactly one of `rtol` with `atol`, `policy`, `noise` (5:37: `policy`)"],
    );
    check_checkpoints(
        "- {name: x, noise: 8}",
        &["5:3: key `dtype` is missing in a checkpoint with a value gate: \
        expected the dtype that the port must produce, since values are compared"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: -1, atol: .inf}",
        &[
            "5:35: found -1: expected a finite number, 0 or more",
            "5:45: found inf: expected a finite number, 0 or more",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: 1-5, atol: 0}",
        &["5:35: found the text `1-5`: expected a \
        number"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 0}",
        &["5:36: found noise 0: expected a finite number \
        above 0"],
    );
    check_checkpoints(
        "- {name: x, dtype: int32, noise: 8}",
        &["5:34: `noise` on int32, which does not round: \
        expected `policy` or `rtol` with `atol` (5:20: `dtype`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, policy: fp23}",
        &["5:37: unknown policy `fp23`, did you mean \
        `fp32`? expected one of `bf16`, `exact`, `fp16`, `fp32`, `quantized`, `torch_bfloat16`, `torch_complex64`, \
        `torch_float16`, `torch_float32`, `torch_float64` in `policies.yaml`"],
    );
}

#[test]
fn loose_gates_need_a_reason() {
    let allowed = "expected a tighter gate, or the reason in `why`";
    let cases = [
        (
            "dtype: float32, rtol: 1e-4, atol: 0",
            "5:35: rtol 1e-4 is looser than 1e-5 of policy `fp32` for float32",
        ),
        (
            "dtype: float32, rtol: 0, atol: 1e-4",
            "5:44: atol 1e-4 is looser than 1e-5 of policy `fp32` for float32",
        ),
        ("dtype: int32, rtol: 0, atol: 1", "5:42: atol 1e0 is looser than 0e0 of policy `exact` for int32"),
        ("dtype: float32, policy: bf16", "5:37: policy `bf16` is not meant for float32"),
        ("dtype: bfloat16, noise: 8.5", "5:37: noise 8.5 is more than 8"),
    ];
    for (gate, message) in cases {
        check_checkpoints(&format!("- {{name: x, {gate}}}"), &[&format!("{message}: {allowed}")]);
        check_checkpoints(&format!("- {{name: x, {gate}, why: measured}}"), &[]);
    }
    check_checkpoints("- {name: x, dtype: bfloat16, rtol: 1e-2, atol: 1e-2}", &[]);
    check_checkpoints("- {name: x, dtype: bfloat16, policy: torch_bfloat16}", &[]);
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, gate: false}",
        &["5:45: `gate: false` without `why`: \
        expected the reason in `why`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, gate: true}",
        &["5:45: found `gate: true`: expected \
        `gate: false`; a gate is on when the key is absent"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, gate: no, why: z}",
        &["5:45: found the text `no`: \
        expected `true` or `false`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, why: ' '}",
        &["5:44: `why` is empty: expected the reason"],
    );
}

#[test]
fn what_is_done_to_a_golden() {
    let check_layout = |layout: &str, message: &str| {
        let expected = format!("5:47: {message}");
        check_checkpoints(
            &format!("- {{name: x, dtype: float32, noise: 8, layout: {layout}}}"),
            &[&expected],
        );
    };
    check_layout(
        "n c",
        "layout `n c` has no arrow: expected the golden's axes and the port's, as in `n c h w -> n h w c`",
    );
    check_layout(
        "n n -> n c",
        "axis `n` is twice on the golden's side: expected each axis once on each side",
    );
    check_layout("n c -> c c", "axis `c` is twice on the port's side: expected each axis once on each side");
    check_layout(
        "n c -> c",
        "axis `n` is not on the port's side: expected the same axes on both sides; `squeeze` \
        drops axes of length 1",
    );
    check_layout(
        "n -> c n",
        "axis `c` is not on the golden's side: expected the same axes on both sides; `squeeze` \
        drops axes of length 1",
    );
    check_layout("n c -> n c", "layout `n c -> n c` changes nothing: leave it out");
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, shape: [1], layout: n c -> c n}",
        &["5:59: layout has 2 \
        axes, `shape` has 1: expected as many (5:46: `shape`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, squeeze: [0, 0, 16]}",
        &[
            "5:52: axis 0 is there twice: expected it once",
            "5:55: found axis 16: expected an axis of the golden, 0 to 15",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, cast: float16}",
        &["5:45: `cast` is float16, `dtype` is \
        float32: expected the dtype that the port must produce (5:20: `dtype`)"],
    );
    check_checkpoints(
        "- {name: x, shape: [], layout: n c -> c n, squeeze: [0], cast: float32}",
        &[
            "5:32: `layout` without a value gate: there is no golden to change: leave it out",
            "5:32: layout has 2 axes, `shape` has 0: expected as many (5:20: `shape`)",
            "5:53: `squeeze` without a value gate: there is no golden to change: leave it out",
            "5:64: `cast` without a value gate: there is no golden to change: leave it out",
        ],
    );
}

#[test]
fn against_another_checkpoint() {
    let first = "- {name: a, shape: []}\n";
    check_checkpoints(&format!("{first}- {{name: b, dtype: float32, policy: fp32, against: a}}"), &[]);
    check_checkpoints(
        &format!("{first}- {{name: b, dtype: float32, policy: fp32, against: b}}"),
        &["6:52: no earlier \
        checkpoint is called `b`: expected one that is declared before this one"],
    );
    check_checkpoints(
        "- {name: norm1, shape: []}\n- {name: b, dtype: float32, policy: fp32, against: nrom1}",
        &["6:52: \
        no earlier checkpoint is called `nrom1`, did you mean `norm1`? expected one that is declared before this one"],
    );
    check_checkpoints(
        &format!("{first}- {{name: b, shape: [], against: a}}"),
        &["6:33: `against` without a value gate: \
        expected `rtol` with `atol`, or `policy`: how near the two must be"],
    );
    check_checkpoints(
        &format!("{first}- {{name: b, dtype: float32, noise: 8, against: a}}"),
        &["6:36: `noise` with \
        `against`: expected `policy` or `rtol` with `atol`: another checkpoint has no floor (6:48: `against`)"],
    );
    check_checkpoints(
        &format!("{first}- {{name: b, dtype: float32, policy: fp32, against: a, cast: float32}}"),
        &["6:61: \
        `cast` with `against`: there is no golden to change: leave it out (6:52: `against`)"],
    );
    check_checkpoints(
        "- {name: 'a.{i}', for: {i: 0..2}, shape: []}\n- {name: 'b.{i}', for: {i: 0..3}, dtype: float32, policy: fp32, against: 'a.{i}'}",
        &["6:74: no earlier checkpoint is called `a.2`, did you mean `a.0` or `a.1`? expected one that is \
           declared before this one"],
    );
}

#[test]
fn every_problem_of_a_file_is_reported_in_order() {
    check(
        "version: 3\nprot: x\ncheckpoints:\n- {name: spec, shape: []}\n- {name: x, dtype: floot32, noise: -1}\n",
        &[
            "1:1: key `port` is missing in a spec",
            "1:10: found version 3: expected 1",
            "2:1: unknown key `prot` in a spec, did you mean `port`? expected one of `version`, `port`, `about`, \
             `reference`, `fixtures`, `inputs`, `weights`, `device`, `timeout`, `requires`, `inject`, `level`, \
             `checkpoints`",
            "4:10: checkpoint name `spec` is reserved: every spec has trials called `spec`, `fixture`, `weights`, `stats`",
            "5:20: unknown dtype `floot32`, did you mean `float32`? expected one of `bool`, `uint8`, `uint16`, \
             `uint32`, `uint64`, `int8`, `int16`, `int32`, `int64`, `float16`, `bfloat16`, `float32`, `float64`, \
             `complex64`",
            "5:36: found noise -1: expected a finite number above 0",
        ],
    );
}
