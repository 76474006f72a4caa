//! For every rule of the grammar: a spec that breaks it, and exactly the words that are printed.

mod checkpoint;
mod choice;
mod gate;
mod positions;
mod twin;

use std::path::Path;

use mlx_parity_core::spec::{Policies, parse_spec};

fn problems(source: &str) -> Vec<String> {
    let (policies, broken) = Policies::load(&crate::repository().join("parity-specs"));
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

/// Parses a spec whose checkpoints start in line 5, and expects exactly these problems.
#[track_caller]
fn check_checkpoints(checkpoints: &str, expected: &[&str]) {
    check(
        &format!("version: 1\nport: p\nreference: {{script: s.py}}\ncheckpoints:\n{checkpoints}\n"),
        expected,
    );
}

/// Parses a spec with one more key, in line 5.
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
fn a_second_reference_is_another_script() {
    let spec = |also: &str| {
        format!(
            "version: 1\nport: p\nreference:\n  script: s.py\n  also: {also}\ncheckpoints: [{{name: x, dtype: float32, noise: 8}}]\n"
        )
    };
    check(&spec("t.py"), &[]);
    check(
        &spec("s.py"),
        &[
            "5:9: `also` is the script `s.py` itself: expected a second script that computes the same in its own way",
        ],
    );
    check(
        &spec("/t.py"),
        &[
            "5:9: path `/t.py` is not allowed: expected a path inside the project's root, with `/` and without `.` or `..`",
        ],
    );
    check(&spec("[t.py]"), &["5:9: found a list: expected text"]);
}

#[test]
fn keys_of_a_spec() {
    check("[]", &["1:1: found a list: expected a spec, which is a mapping"]);
    check("", &["1:1: found nothing: expected a spec, which is a mapping"]);
    check("version: 1\ncheckpoints: [{name: x, shape: []}]", &["1:1: key `port` is missing in a spec"]);
    check(
        "version: 1\nport: p\ncheckpoints: [{name: x, dtype: float32, noise: 8}]",
        &[
            "1:1: key `reference` is missing in a spec: checkpoint `x` in line 3 needs a golden, so the spec must name \
           the reference that makes it",
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
               `port`, `about`, `reference`, `fixtures`, `inputs`, `weights`, `adapters`, `device`, `timeout`, `memory`, `requires`, \
               `inject`, `level`, `checkpoints`, `twins`"],
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
    let allowed = "expected a path inside the fixture root, with `/` and without `.` or `..`";
    for path in ["../x", "/etc", "a/../../b", "a//b", "./a", "", "'a\\b'", "'C:/x'"] {
        let shown = path.trim_matches('\'');
        let text = if path.is_empty() { "''" } else { path };
        check_key(
            &format!("fixtures: {text}"),
            &[&format!("5:11: path `{shown}` is not allowed: {allowed}")],
        );
    }
    check_key("fixtures: other/set", &[]);
    check(
        "version: 1\nport: p\nreference: {script: ../s.py}\ncheckpoints: [{name: x, dtype: float32, noise: 8}]",
        &[
            "3:21: path `../s.py` is not allowed: expected a path inside the project's root, with `/` and without `.` or `..`",
        ],
    );
    check_key(
        "weights: {file: /w}",
        &["5:17: path `/w` is not allowed: expected a path inside the fixture folder, with \
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
           since `params` are passed as JSON"],
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
    check_key("weights: {}", &["5:10: `weights` names no file: expected `file`, `shards` or `external`"]);
    check_key(
        "weights: {file: a, shards: [b]}",
        &["5:28: `weights` has both `file` and `shards`: expected one of \
               them (5:17: `file`)"],
    );
    check_key(
        "weights: {file: model.pt}",
        &[
            "5:17: `model.pt` is a PyTorch pickle, which is never read: expected .npy, .npz or .safetensors; convert it \
           with `python -c \"import torch; from safetensors.torch import save_file; save_file({name: \
           tensor.contiguous().clone() for name, tensor in torch.load('model.pt', map_location='cpu', \
           weights_only=True).items()}, 'model.safetensors')\"`",
        ],
    );
    check_key("weights: {external: '${A:-/b}/*.safetensors'}\nadapters: [b, c]", &[]);
    check_key(
        "weights: {external: /a.safetensors, file: b}",
        &["5:21: `weights` has both `file` and `external`: expected one of them (5:43: `file`)"],
    );
    check_key(
        "weights: {external: /a.safetensors, sha256: a}",
        &["5:45: found `a`: expected a SHA-256: 64 hexadecimal digits"],
    );
    check_key(
        "weights: {external: ~/a.safetensors}",
        &["5:21: the path begins with `~`, which only shells replace: write `${HOME}`"],
    );
    check_key("weights: {file: a}\nadapters: [b, c]", &[]);
    check_key("weights: {file: a}\nadapters: []", &["6:11: `adapters` is empty: expected at least one file"]);
    check_key(
        "adapters: [b]",
        &[
            "5:11: `adapters` without `weights`: expected `weights` in the same spec: the weights that the adapters change",
        ],
    );
    check_key(
        "weights: {file: a}\nadapters: [b, a, b]",
        &[
            "6:15: file `a` is named twice (5:17: first named here)",
            "6:18: file `b` is named twice (6:12: first named here)",
        ],
    );
    check_key(
        "weights: {file: a}\nadapters: [../b]",
        &[
            "6:12: path `../b` is not allowed: expected a path inside the fixture folder, with `/` and without `.` or `..`",
        ],
    );
    check_key("weights: {file: a}\nadapters: b", &["6:11: found the text `b`: expected a list"]);
    check_key("weights: {shards: []}", &["5:19: `shards` is empty: expected at least one file"]);
    check_key(
        "weights: {file: a, rename: {b: 1}}",
        &["5:32: found the number `1`: expected text; put it in quotes \
               if it is meant as text"],
    );
    check_key(
        "weights: {file: a, renames: {}}",
        &["5:20: unknown key `renames` in `weights`, did you mean \
               `rename`? expected one of `file`, `shards`, `external`, `sha256`, `rename`, `allow_missing`, `expect`, `frozen`, `dtype`, \
               `quantized`"],
    );
    check_key(
        "weights: {file: a, dtype: int32}",
        &["5:27: found `int32`: expected the dtype of the floating-point weights: `float16`, `bfloat16`, \
           `float32`, `float64`"],
    );
    check_key(
        "weights: {file: a, quantized: {bits: 7, group_size: 16}}",
        &[
            "5:38: found 7, which MLX cannot pack: expected one of 2, 3, 4, 5, 6, 8",
            "5:53: found 16, which MLX cannot pack: expected one of 32, 64, 128",
        ],
    );
    check_key(
        "weights: {file: a, quantized: {bits: 4}}",
        &["5:31: key `group_size` is missing in `quantized`"],
    );
    check_key("weights: {file: a, dtype: bfloat16, quantized: {bits: 4, group_size: 64}}", &[]);
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
fn every_problem_of_a_file_is_reported_in_order() {
    check(
        "version: 3\nprot: x\ncheckpoints:\n- {name: spec, shape: []}\n- {name: x, dtype: floot32, noise: -1}\n",
        &[
            "1:1: key `port` is missing in a spec",
            "1:10: found version 3: expected 1",
            "2:1: unknown key `prot` in a spec, did you mean `port`? expected one of `version`, `port`, `about`, \
             `reference`, `fixtures`, `inputs`, `weights`, `adapters`, `device`, `timeout`, `memory`, `requires`, `inject`, `level`, \
             `checkpoints`, `twins`",
            "4:10: checkpoint name `spec` is reserved: every spec has trials called `spec`, `fixture`, `weights`, `adapters`, `stats`, `memory`",
            "5:20: unknown dtype `floot32`, did you mean `float32`? expected one of `bool`, `uint8`, `uint16`, \
             `uint32`, `uint64`, `int8`, `int16`, `int32`, `int64`, `float16`, `bfloat16`, `float32`, `float64`, \
             `complex64`",
            "5:36: found noise -1: expected a finite number above 0",
        ],
    );
}
