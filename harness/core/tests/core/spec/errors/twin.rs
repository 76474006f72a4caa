//! Keys of twins, and what they are compared with.

use super::{check, check_key};

const GATES: &str = "expected `gate: same`, `noise`, `policy`, or `rtol` with `atol`";

#[test]
fn a_right_twin_has_no_problems() {
    check_key("twins: {again: {of: main, rtol: 0, atol: 0}, more: {of: again, gate: same}}", &[]);
    check_key(
        "twins: {a: {of: main, noise: 8, slice: '[1:2]', of_slice: '[:, -1:]', along: 1, hits: 2}}",
        &[],
    );
    check_key("twins: {a: {of: main, gate: same, parts: [{checkpoints: ['*'], policy: fp32}]}}", &[]);
}

#[test]
fn names_of_twins_and_of_runs() {
    let name = "expected up to 64 lower-case letters, digits, `_` and `-`";
    check_key("twins: {A: {of: main, noise: 8}}", &[&format!("5:9: `A` cannot be a twin's name: {name}")]);
    check_key(
        "twins: {main: {of: main, noise: 8}}",
        &["5:9: `main` cannot be a twin's name: it is the main run of the spec"],
    );
    check_key(
        "twins: {a: {of: mian, noise: 8}}",
        &[
            "5:17: no run before this twin is called `mian`, did you mean `main`? expected `main`, or a twin that is \
           declared before",
        ],
    );
    check_key(
        "twins: {a: {of: b, noise: 8}, b: {of: main, noise: 8}}",
        &["5:17: no run before this twin is called `b`: expected `main`, or a twin that is declared before"],
    );
    check_key("twins: {a: {noise: 8}}", &["5:12: key `of` is missing in a twin"]);
    check_key("twins: {}", &["5:8: `twins` is empty: expected at least one; leave the key out otherwise"]);
    check_key(
        "twins: {a: {of: main, noise: 8}}\ninject: [x]",
        &["6:9: `inject` in a spec with `twins`: a twin is compared with a free run; remove one of the two"],
    );
}

#[test]
fn a_twin_has_one_gate() {
    check_key("twins: {a: {of: main}}", &[&format!("5:12: the twin has no gate: {GATES}")]);
    check_key(
        "twins: {a: {of: main, gate: same, noise: 8}}",
        &["5:29: `gate: same` with another gate: expected exactly one gate"],
    );
    check_key(
        "twins: {a: {of: main, rtol: 1, atol: 0}}",
        &[
            "5:29: rtol 1e0 is looser than 1e-5 of policy `fp32` for float32: expected a tighter gate, or the reason in \
           `why`",
        ],
    );
    check_key("twins: {a: {of: main, rtol: 1, atol: 0, why: measured}}", &[]);
    let without_golden = "version: 1\nport: p\ncheckpoints: [{name: x, shape: []}]\n";
    check(
        &format!("{without_golden}twins: {{a: {{of: main, noise: 8}}}}"),
        &[
            "4:30: `noise` for checkpoint `x`, which has no golden and so no floor: name it in a part with `policy`, or \
           `rtol` with `atol`",
        ],
    );
    check(
        &format!("{without_golden}twins: {{a: {{of: main, gate: same}}}}"),
        &[
            "4:29: `gate: same` for checkpoint `x`, which has no value gate: name it in a part with a gate, or under \
           `except`",
        ],
    );
    check(&format!("{without_golden}twins: {{a: {{of: main, rtol: 0, atol: 0}}}}"), &[]);
}

#[test]
fn what_a_twin_names_must_exist() {
    check_key(
        "twins: {a: {of: main, noise: 8, except: [y]}}",
        &["5:42: `y` names no checkpoint of `main`: expected a name, or a pattern with `*`"],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, except: ['*']}}",
        &[
            "5:12: the twin compares nothing: expected at least one checkpoint that both runs reach and that can be \
           evaluated",
        ],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, parts: [{checkpoints: [x]}, {checkpoints: ['*']}]}}",
        &[
            "5:61: this part applies to no checkpoint: expected a checkpoint that is compared, and that no part before \
           names",
        ],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, mask: m}}",
        &["5:39: no input is called `m`: expected one of the `inputs` of the twin or of the spec"],
    );
}

#[test]
fn how_tensors_correspond() {
    check_key(
        "twins: {a: {of: main, noise: 8, slice: 3}}",
        &["5:40: found the number `3`: expected ranges in quotes, such as `\"[1:2, 3:]\"`"],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, slice: '[1]'}}",
        &[
            "5:40: `1` is not a range such as `1:2`, `3:`, `:-1` or `:`: expected one range per axis, such as `[1:2, 3:]`",
        ],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, along: 1}}",
        &["5:40: `along` without `hits`: expected how many hits make up the other run's tensor"],
    );
    check_key(
        "twins: {a: {of: main, noise: 8, hits: 2}}",
        &[
            "5:39: found hits 2 for checkpoint `x`: expected at most 1, as often as `main`; `along` joins hits",
        ],
    );
}
