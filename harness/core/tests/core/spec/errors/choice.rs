//! Gates for choices, and the checkpoints that they name.

use super::{check, check_checkpoints};

const LOGITS: &str = "- {name: logits, dtype: float32, noise: 8}\n";

#[test]
fn limits_have_no_default_and_belong_to_their_judgement() {
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution}",
        &[
            "5:38: `compare: distribution` without a limit: expected `kl`, `top1` or `topk`: limits have no default",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, kl: {}}",
        &["5:56: `kl` is empty: expected `mean`, `p99` or `max`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, kl: {mean: -1}, top1: 1.5}",
        &[
            "5:63: found -1: expected a finite number, 0 or more",
            "5:74: found top1 1.5: expected a share above 0, up to 1",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, topk: {k: 9, overlap: 1}, top: 4}",
        &["5:83: `topk` compares 9 ids, but the golden has 4: expected at least as many"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, top1: 1, top: 1}",
        &["5:66: found top 1: expected 2 to 65536"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, top1: 1, ties: 8}",
        &[
            "5:67: `ties` with `compare: distribution`: expected it beside `compare: tokens` or `compare: set`",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, noise: 8, top1: 1}",
        &["5:45: `top1` without `compare`: expected it beside `compare: distribution`"],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: text}",
        &["5:38: `compare: text` on float32: expected ids, which are integers (5:20: `dtype`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: int32, compare: distribution, top1: 1}",
        &["5:36: `compare: distribution` on int32: expected logits, which are floats (5:20: `dtype`)"],
    );
    check_checkpoints(
        "- {name: x, dtype: int32, compare: tokenz}",
        &[
            "5:36: unknown compare `tokenz`, did you mean `tokens`? expected one of `distribution`, `tokens`, `set`, `text`",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: int32, compare: text, policy: exact}",
        &[
            "5:36: `policy` and `compare` in one checkpoint: expected exactly one of `rtol` with `atol`, `policy`, `noise`, \
         `compare` (5:50: `policy`)",
        ],
    );
    check_checkpoints(
        "- {name: x, dtype: float32, compare: distribution, top: 8, top1: 1, squeeze: [0]}",
        &[
            "5:78: `squeeze` with `top`: the golden of the most probable ids has a form of its own: leave it out",
        ],
    );
}

#[test]
fn tokens_name_their_logits_and_how_near_is_a_tie() {
    let tokens = |keys: &str| format!("{LOGITS}- {{name: x, dtype: int32, compare: tokens{keys}}}");
    check_checkpoints(&tokens(", with: logits, ties: 8"), &[]);
    check_checkpoints(
        &tokens(""),
        &[
            "6:36: `compare: tokens` without `with`: expected the checkpoint of the logits, whose golden tells a tie from a mistake",
            "6:36: `compare: tokens` without `ties`: expected how many floors two logits may be apart in a tie, e.g. 8",
        ],
    );
    check_checkpoints(
        &tokens(", with: logits, ties: 0"),
        &["6:64: found ties 0: expected a finite number above 0"],
    );
    check_checkpoints(
        &tokens(", with: logits, ties: 9"),
        &["6:64: ties 9 is more than 8: expected a tighter gate, or the reason in `why`"],
    );
    check_checkpoints(&tokens(", with: logits, ties: 9, why: measured"), &[]);
    check_checkpoints(
        &tokens(", with: logitz, ties: 8"),
        &[
            "6:10: checkpoint `x` names `logitz`, which is no checkpoint, did you mean `logits`? expected a checkpoint of this spec",
        ],
    );
    check_checkpoints(
        &tokens(", with: x, ties: 8"),
        &[
            "6:10: checkpoint `x` names `x`, which has no golden of floats: expected a checkpoint of floats with a gate and a golden",
        ],
    );
    check_checkpoints(
        &tokens(", with: logits, ties: 8, hits: 2"),
        &["6:10: checkpoint `x` names `logits`, which has 1 hits, not 2: expected the same number of hits"],
    );
    check_checkpoints(
        "- {name: \"l.{t}\", for: {t: 0..2}, dtype: float32, noise: 8}\n\
         - {name: \"x.{t}\", for: {t: 0..2}, dtype: int32, compare: tokens, with: \"l.{t}\", ties: 8}",
        &[],
    );
}

#[test]
fn sets_name_their_scores_and_the_weights_after_them() {
    let set = |keys: &str, after: &str| {
        format!(
            "{LOGITS}- {{name: x, dtype: int32, compare: set{keys}}}\n- {{name: w, dtype: float32, {after}}}"
        )
    };
    check_checkpoints(&set("", "noise: 8"), &[]);
    check_checkpoints(&set(", scores: logits, ties: 8, with: w", "noise: 8"), &[]);
    check_checkpoints(
        &set(", ties: 8", "noise: 8"),
        &[
            "6:36: `compare: set` without `scores`: expected the checkpoint of the scores, whose golden tells a tie from a mistake",
        ],
    );
    check_checkpoints(
        &set(", with: logits", "noise: 8"),
        &[
            "6:10: checkpoint `x` names `logits`, which is declared before: expected the ids first: their order decides which \
         weights are compared",
        ],
    );
    check_checkpoints(
        &set(", with: w", "compare: distribution, top1: 1"),
        &[
            "6:10: checkpoint `x` names `w`, which is judged as choices itself: expected weights with `noise`, `policy` or `rtol` \
         and `atol`",
        ],
    );
    check_checkpoints(
        &set(", level: 1, with: w", "noise: 8"),
        &[
            "6:10: checkpoint `x` names `w`, whose level 0 is below 1: expected the level of the ids, or a higher one",
        ],
    );
}

#[test]
fn ids_are_injected_with_their_weights() {
    let spec = |inject: &str| {
        format!(
            "version: 1\nport: p\nreference: {{script: s.py}}\ninject: {inject}\ncheckpoints:\n\
             - {{name: x, dtype: int32, compare: set, with: w}}\n- {{name: w, dtype: float32, noise: 8}}\n\
             - {{name: l, dtype: float32, compare: distribution, top1: 1, top: 8}}\n"
        )
    };
    check(&spec("[x, w]"), &[]);
    let both = "expected both: the weights belong to the ids, in their order";
    check(&spec("[x]"), &[&format!("4:9: `x` is injected without `w`: {both}")]);
    check(&spec("[w]"), &[&format!("4:9: `w` is injected without `x`: {both}")]);
    check(
        &spec("[l]"),
        &[
            "4:10: the golden of `l` has the most probable ids only: expected a golden that the port can continue with: remove `top`",
        ],
    );
}

#[test]
fn a_twin_needs_the_scores_of_the_other_run() {
    let spec = |twins: &str| {
        format!(
            "version: 1\nport: p\nreference: {{script: s.py}}\ntwins: {{{twins}}}\ncheckpoints:\n{LOGITS}\
             - {{name: x, dtype: int32, compare: tokens, with: logits, ties: 8}}\n"
        )
    };
    check(&spec("a: {of: main, gate: same, only: [x]}"), &[]);
    check(&spec("a: {of: main, gate: same}, b: {of: a, gate: same}"), &[]);
    check(
        &spec("a: {of: main, gate: same, only: [x]}, b: {of: a, gate: same}"),
        &[
            "4:50: the ties of `x` need `logits`, which `a` does not compare: expected it among the checkpoints of that run, or \
         this one under `except`",
        ],
    );
}
