//! The key `positions`: slots of a cache that are matched by what they hold.

use super::{check, check_checkpoints};

const HOLDER: &str = "- {name: held, dtype: int32, policy: exact, positions: {axis: 0}}\n";

/// Expects these problems of a checkpoint in line 6, after one in line 5 that holds positions.
#[track_caller]
fn check_after(checkpoint: &str, expected: &[&str]) {
    check_checkpoints(&format!("{HOLDER}{checkpoint}"), expected);
}

#[test]
fn right_positions_have_no_problems() {
    check_after("- {name: keys, dtype: float32, noise: 8, positions: {tap: held, axis: 2}}", &[]);
    check_checkpoints(
        "- {name: \"a.{i}\", for: {i: 0..2}, dtype: int64, policy: exact, positions: {tap: \"a.{i}\", axis: 0}}\n\
         - {name: \"b.{i}\", for: {i: 0..2}, dtype: float32, noise: 8, positions: {tap: \"a.{i}\", axis: 1}}",
        &[],
    );
}

#[test]
fn the_axis_must_exist() {
    check_after(
        "- {name: keys, dtype: float32, noise: 8, positions: {tap: held}}",
        &["6:53: key `axis` is missing in `positions`"],
    );
    check_after(
        "- {name: keys, dtype: float32, noise: 8, positions: {tap: held, axis: 16}}",
        &["6:71: found axis 16: expected an axis of the port's tensor, 0 to 15"],
    );
    check_after(
        "- {name: keys, dtype: float32, noise: 8, shape: [2, n], positions: {tap: held, axis: 2}}",
        &[
            "6:86: found axis 2, but `shape` has 2 axes: expected the axis with the slots of the cache (6:49: `shape`)",
        ],
    );
    check_after(
        "- {name: keys, dtype: float32, noise: 8, positions: {tap: held, axes: 2}}",
        &[
            "6:53: key `axis` is missing in `positions`",
            "6:65: unknown key `axes` in `positions`, did you mean `axis`? expected one of `tap`, `axis`",
        ],
    );
}

#[test]
fn the_tap_must_hold_positions_whenever_it_is_needed() {
    check_after(
        "- {name: keys, dtype: float32, noise: 8, positions: {tap: hold, axis: 2}}",
        &[
            "6:59: no earlier checkpoint is called `hold`, did you mean `held`? expected one that is declared before \
           this one",
        ],
    );
    check_after(
        "- {name: x, dtype: int32, policy: exact}\n- {name: keys, dtype: float32, noise: 8, positions: {tap: x, axis: 2}}",
        &[
            "7:59: checkpoint `x` in line 6 holds no positions: expected one of integers with `positions: {axis: 0}`",
        ],
    );
    check_after(
        "- {name: keys, dtype: float32, noise: 8, hits: 2, positions: {tap: held, axis: 2}}",
        &["6:68: checkpoint `held` has 1 hits, not 2: expected as many: each hit has positions of its own"],
    );
    check_checkpoints(
        "- {name: held, level: 2, dtype: int32, policy: exact, positions: {axis: 0}}\n\
         - {name: keys, level: 1, dtype: float32, noise: 8, positions: {tap: held, axis: 2}}",
        &[
            "6:69: checkpoint `held` has level 2, above level 1: expected one that is checked whenever this one is",
        ],
    );
    check_after(
        "- {name: \"k.{i}\", for: {i: 0..2}, dtype: float32, noise: 8, positions: {tap: \"held.{j}\", axis: 2}}",
        &["6:84: unknown axis `j`: expected `{i}`"],
    );
}

#[test]
fn positions_themselves_are_integers_on_one_axis() {
    check_checkpoints(
        "- {name: held, dtype: float32, noise: 8, positions: {axis: 0}}",
        &[
            "5:53: `held` holds positions, but its dtype is float32: expected integers; `tap` names the checkpoint that \
           holds the positions of these slots",
        ],
    );
    check_checkpoints(
        "- {name: held, dtype: int32, policy: exact, positions: {axis: 1}}",
        &[
            "5:56: `held` holds positions, but its slots are on axis 1: expected axis 0: one position per slot",
        ],
    );
}

#[test]
fn positions_need_a_golden() {
    check_after(
        "- {name: keys, shape: [n], positions: {tap: held, axis: 0}}",
        &["6:39: `positions` without a value gate: no golden is compared here: leave it out"],
    );
    check_after(
        "- {name: x, dtype: float32, noise: 8}\n\
         - {name: keys, dtype: float32, rtol: 0, atol: 0, against: x, positions: {tap: held, axis: 2}}",
        &["7:73: `positions` with `against`: no golden is compared here: leave it out (7:59: `against`)"],
    );
}

#[test]
fn a_twin_compares_slots_together_with_their_positions() {
    let head = "version: 1\nport: p\nreference: {script: s.py}\ncheckpoints:\n";
    let keys = "- {name: keys, dtype: float32, noise: 8, positions: {tap: held, axis: 2}}\n";
    let with = |twin: &str| format!("{head}{HOLDER}{keys}twins: {{a: {{of: main, gate: same{twin}}}}}\n");
    check(&with(""), &[]);
    check(&with(", except: [keys]"), &[]);
    check(
        &with(", except: [held]"),
        &[
            "7:12: `keys` has the positions of its slots at `held`, which the twin does not compare: compare both in the \
           same way, or neither",
        ],
    );
    check(
        &with(
            ", only: [keys, held], parts: [{checkpoints: [held]}, {checkpoints: [keys], along: 2, hits: 2}]",
        ),
        &[
            "7:115: `along` for checkpoint `keys`, whose slots are matched by position: each hit is the whole state of \
           the cache; name it under `except`",
        ],
    );
}
