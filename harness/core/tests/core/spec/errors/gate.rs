//! Gates, their reasons, and the keys that transform a golden.

use super::check_checkpoints;

#[test]
fn value_gates() {
    check_checkpoints(
        "- {name: x, dtype: float32}",
        &["5:3: the checkpoint checks nothing: expected `rtol` with \
        `atol`, `policy`, `noise` or `compare`, or at least a `shape` or a `range`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: 0}",
        &["5:35: `rtol` without `atol`: expected both: tolerances \
        have no default, but may be 0"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, atol: 0}",
        &["5:35: `atol` without `rtol`: expected both: tolerances \
        have no default, but may be 0"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, rtol: 0, atol: 0, noise: 8}",
        &["5:54: `rtol` and `atol` and \
        `noise` in one checkpoint: expected exactly one of `rtol` with `atol`, `policy`, `noise`, `compare` (5:35: `rtol` \
        and `atol`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, policy: fp32, noise: 8}",
        &["5:50: `policy` and `noise` in one \
        checkpoint: expected exactly one of `rtol` with `atol`, `policy`, `noise`, `compare` (5:37: `policy`)"],
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
        "axis `n` appears twice on the golden's side: expected each axis once on each side",
    );
    check_layout(
        "n c -> c c",
        "axis `c` appears twice on the port's side: expected each axis once on each side",
    );
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
        axes, `shape` has 1: expected the same number (5:46: `shape`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, squeeze: [0, 0, 16]}",
        &[
            "5:52: axis 0 appears twice: expected it once",
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
            "5:32: `layout` without a value gate: no golden is compared here: leave it out",
            "5:32: layout has 2 axes, `shape` has 0: expected the same number (5:20: `shape`)",
            "5:53: `squeeze` without a value gate: no golden is compared here: leave it out",
            "5:64: `cast` without a value gate: no golden is compared here: leave it out",
        ],
    );
}

#[test]
fn a_lower_bound() {
    let check = |keys: &str, problems: &[&str]| {
        let first = "- {name: a, shape: []}\n";
        check_checkpoints(&format!("{first}- {{name: b, dtype: float32, why: w, {keys}}}"), problems);
    };
    check("rtol: 0.1, atol: 0, against: a, at_least: 0.01", &[]);
    check("rtol: 0.01, atol: 1, against: a, at_least: 0.05", &[]);
    check(
        "rtol: 0.1, atol: 0, against: a, at_least: 0.1",
        &["6:79: at_least 1e-1 is not below rtol 1e-1: expected less: no actual could satisfy both \
           (6:43: the gate)"],
    );
    check(
        "policy: exact, against: a, at_least: 1e-9",
        &["6:74: at_least 1e-9 is not below rtol 0e0: expected less: no actual could satisfy both \
           (6:45: the gate)"],
    );
    check(
        "rtol: 0.1, atol: 0, at_least: 0.01",
        &[
            "6:67: `at_least` without `against`: expected `against`, the checkpoint that the actual must differ from",
        ],
    );
    for (wrong, shown) in [("0", "0"), ("-1", "-1"), (".nan", "NaN"), (".inf", "inf")] {
        check(
            &format!("rtol: 0.1, atol: 0, against: a, at_least: {wrong}"),
            &[&format!("6:79: found at_least {shown}: expected a finite number above 0; 0.01 is 1 %")],
        );
    }
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
        `cast` with `against`: no golden is compared here: leave it out (6:52: `against`)"],
    );
    check_checkpoints(
        "- {name: 'a.{i}', for: {i: 0..2}, shape: []}\n- {name: 'b.{i}', for: {i: 0..3}, dtype: float32, policy: fp32, against: 'a.{i}'}",
        &["6:74: no earlier checkpoint is called `a.2`, did you mean `a.0` or `a.1`? expected one that is \
           declared before this one"],
    );
}
