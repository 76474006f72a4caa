//! Rotary embeddings that are wrong in different ways.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32};
use rstest::rstest;

use crate::diagnose::kit::{Case, Dice, permuted};

const TOKENS: usize = 10;
const HEADS: usize = 2;
const WIDTH: usize = 16;

struct Rope {
    base: f64,
    first: f64,
    sign: f64,
    halves: bool,
}

const RIGHT: Rope = Rope { base: 10_000.0, first: 0.0, sign: 1.0, halves: true };

/// Rotates `[batch, tokens, heads, width]` by the positions along its second axis.
fn rotated(x: &[f64], rope: &Rope) -> Vec<f64> {
    let position = |row: usize| (row / HEADS % TOKENS) as f64 + rope.first;
    x.chunks(WIDTH).enumerate().flat_map(|(row, x)| rotated_at(x, position(row), rope)).collect()
}

/// Rotates one row of features.
fn rotated_at(x: &[f64], position: f64, rope: &Rope) -> Vec<f64> {
    let half = WIDTH / 2;
    let mut out = vec![0.0; WIDTH];
    for f in 0..half {
        let (one, two) = if rope.halves { (f, f + half) } else { (2 * f, 2 * f + 1) };
        let angle = rope.sign * position * rope.base.powf(-2.0 * f as f64 / WIDTH as f64);
        let (sin, cos) = angle.sin_cos();
        out[one] = x[one] * cos - x[two] * sin;
        out[two] = x[two] * cos + x[one] * sin;
    }
    out
}

#[rstest]
#[case("rope_pairs", Rope { halves: false, ..RIGHT }, "as interleaved pairs, where the golden rotates halves")]
#[case("rope_sign", Rope { sign: -1.0, ..RIGHT }, "opposite angles")]
#[case("rope_position", Rope { first: 1.0, ..RIGHT }, "positions along axis")]
#[case("rope_base", Rope { base: 1_000_000.0, ..RIGHT }, "base of 1e6, where the golden has 10000")]
#[case("rope_base", Rope { base: 500.0, ..RIGHT }, "base of 500")]
fn rotations(
    #[case] kind: &str,
    #[case] wrong: Rope,
    #[case] words: &str,
    #[values(Float32, Bfloat16)] dtype: Dtype,
) {
    let x: Vec<f64> = Dice::new(70)
        .normals(2 * TOKENS * HEADS * WIDTH)
        .into_iter()
        .map(|x| if dtype == Bfloat16 { half::bf16::from_f64(x).to_f64() } else { f64::from(x as f32) })
        .collect();
    let shape = [2, TOKENS, HEADS, WIDTH];
    let case = Case::new(dtype, &shape, &rotated(&x, &RIGHT)).named("q_rope").before("q_norm", &shape, &x);
    let words = if dtype == Bfloat16 && kind == "rope_base" { "base of" } else { words };
    case.is(&rotated(&x, &wrong), kind, &[words]);
    // Only the rotated tensor has heads before tokens.
    let turned = |values: &[f64]| permuted(&shape, values, &[0, 2, 1, 3]);
    let case = Case::new(dtype, &[2, HEADS, TOKENS, WIDTH], &turned(&rotated(&x, &RIGHT)));
    let case = case.named("q_rope").before("q_norm", &shape, &x);
    case.is(&turned(&rotated(&x, &wrong)), kind, &[words]);
}

/// A rotation that takes its positions from the axis before the features, where the heads are.
#[rstest]
#[case::more_heads_than_tokens(3, 5)]
#[case::more_tokens_than_heads(10, 4)]
fn positions_that_run_along_the_heads(#[case] tokens: usize, #[case] heads: usize) {
    let shape = [2, tokens, heads, WIDTH];
    let x: Vec<f64> =
        Dice::new(70).normals(shape.iter().product()).into_iter().map(|x| f64::from(x as f32)).collect();
    let rotated = |position: fn(usize, usize, usize) -> usize| -> Vec<f64> {
        let rows = x.chunks(WIDTH).enumerate();
        rows.flat_map(|(row, x)| rotated_at(x, position(row, heads, tokens) as f64, &RIGHT)).collect()
    };
    let golden = rotated(|row, heads, tokens| row / heads % tokens);
    let wrong = rotated(|row, heads, _| row % heads);
    let case = Case::new(Float32, &shape, &golden).named("k_rope").before("k_norm", &shape, &x);
    case.is(
        &wrong,
        "rope_position",
        &["positions along axis 2, where the golden's positions run along axis 1"],
    );
}

#[rstest]
#[case(f64::cos)]
#[case(f64::sin)]
fn tables(#[case] of: fn(f64) -> f64) {
    let table = |base: f64, first: f64| -> Vec<f64> {
        let at =
            |i: usize| of(((i / WIDTH) as f64 + first) * base.powf(-2.0 * (i % 8) as f64 / WIDTH as f64));
        (0..TOKENS * WIDTH).map(at).collect()
    };
    let case = Case::new(Float32, &[TOKENS, WIDTH], &table(10_000.0, 0.0)).named("rope.cos");
    case.is(&table(1_000_000.0, 0.0), "rope_base", &["1e6 if the golden's base is 10000"]);
    case.is(&table(10_000.0, 1.0), "shifted", &["1 step too early along axis 0"]);
}
