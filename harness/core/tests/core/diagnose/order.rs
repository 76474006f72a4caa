//! Actuals that have the golden's values in other places.

use mlx_parity_core::tensor::Dtype::{self, Bfloat16, Float32, Int32};
use rstest::rstest;

use crate::diagnose::kit::{Case, permuted};

#[rstest]
fn axes(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[2, 5, 6, 4], 1);
    let actual = permuted(&case.shape, &case.golden, &[0, 2, 3, 1]);
    case.is_shaped(&[2, 6, 4, 5], &actual, "axes_permuted", &["[0, 2, 3, 1]", "NCHW became NHWC"]);
    // Height and width are equal, so that the shape does not show it.
    let square = Case::normal(dtype, &[1, 6, 6, 8], 2);
    let actual = permuted(&square.shape, &square.golden, &[0, 2, 1, 3]);
    square.is(&actual, "axes_permuted", &["[0, 2, 1, 3]"]);
}

#[test]
fn axes_of_length_one() {
    let case = Case::normal(Float32, &[1, 16, 4, 4], 3);
    case.is_shaped(&[1, 16, 1, 4, 4], &case.golden, "unit_axis", &["[1, 16, 1, 4, 4]"]);
    case.is_shaped(&[16, 16], &case.golden, "memory_order", &["same order"]);
}

#[rstest]
fn heads_that_were_not_transposed(#[values(Float32, Bfloat16)] dtype: Dtype) {
    // A reshape of [batch, heads, tokens, 8] to [batch, tokens, heads * 8].
    let case = Case::normal(dtype, &[2, 6, 32], 4);
    let actual = permuted(&[2, 6, 4, 8], &case.golden, &[0, 2, 1, 3]);
    case.is(&actual, "memory_order", &["[2, 6, 4, 8]", "[0, 2, 1, 3]"]);
    let whole = Case::normal(dtype, &[2, 4, 6, 8], 5);
    let actual = permuted(&whole.shape, &whole.golden, &[0, 2, 1, 3]);
    whole.is(&actual, "memory_order", &[]);
}

#[rstest]
fn flips(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[4, 9], 6);
    let actual: Vec<f64> = case.golden.chunks(9).flat_map(|row| row.iter().rev().copied()).collect();
    case.is(&actual, "flipped", &["axis 1"]);
}

#[rstest]
fn groups_the_other_way_round(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let case = Case::normal(dtype, &[5, 16], 7);
    let actual = permuted(&[5, 2, 8], &case.golden, &[0, 2, 1]);
    case.is(&actual, "regrouped", &["halves became interleaved pairs"]);
    // q, k and v per head, in place of q of all heads, then k, then v.
    let fused = Case::normal(dtype, &[5, 48], 8);
    let actual = permuted(&[5, 3, 4, 4], &fused.golden, &[0, 2, 1, 3]);
    fused.is(&actual, "regrouped", &["[3, 4, 4]", "[4, 3, 4]"]);
}

#[rstest]
#[case(&[1, 0, 2, 4, 3, 5], "shift and scale are swapped")]
#[case(&[1, 0], "AdaLayerNormContinuous")]
#[case(&[2, 1, 0], "q and v")]
#[case(&[0, 0, 2], "0 in place of 1")]
fn parts(#[case] sources: &[usize], #[case] words: &str, #[values(Float32, Bfloat16)] dtype: Dtype) {
    let parts = sources.len();
    let case = Case::normal(dtype, &[3, parts * 7], 9);
    let row = |row: &[f64]| -> Vec<f64> {
        sources.iter().flat_map(|&from| row[from * 7..][..7].to_vec()).collect()
    };
    let actual: Vec<f64> = case.golden.chunks(parts * 7).flat_map(row).collect();
    case.is(&actual, "chunks_swapped", &[words]);
}

#[test]
fn steps_along_an_axis() {
    let case = Case::normal(Float32, &[12, 5], 10);
    let late: Vec<f64> = [&case.golden[..5], &case.golden[..55]].concat();
    case.is(&late, "shifted", &["1 step too late", "axis 0"]);
    let rolled: Vec<f64> = [&case.golden[5..], &case.golden[..5]].concat();
    case.is(&rolled, "shifted", &["1 step too early", "wraps around"]);
    let ids: Vec<f64> = (0..24).map(|i| f64::from(i * i % 31)).collect();
    let case = Case::new(Int32, &[24], &ids);
    case.is(&[&ids[1..], &[99.0]].concat(), "shifted", &["1 step too early"]);
}

#[test]
fn a_slice_read_from_the_memory_of_all() {
    let buffer = Case::normal(Float32, &[6, 12], 11).golden;
    let slice: Vec<f64> = buffer.chunks(12).flat_map(|row| row[..4].to_vec()).collect();
    let case = Case::new(Float32, &[6, 4], &slice).before("qkv", &[6, 12], &buffer);
    case.is(&buffer[..24], "strided_read", &["`qkv`", "from element 0 on"]);
}

#[rstest]
fn other_checkpoints(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let shape = [3, 8];
    let make = |seed| Case::normal(dtype, &shape, seed).golden;
    let case = || {
        Case::normal(dtype, &shape, 20)
            .before("layers.0.out", &shape, &make(21))
            .before("embed", &shape, &make(22))
            .after("layers.2.out", &shape, &make(23))
    };
    case().is(&make(21), "not_executed", &["`layers.0.out`"]);
    case().is(&make(23), "executed_twice", &["`layers.2.out`"]);
    case().is(&make(22), "crossed", &["`embed`"]);
    let query = Case::normal(dtype, &shape, 24).named("attn.to_q").after("attn.to_k", &shape, &make(25));
    query.is(&make(25), "crossed", &["`attn.to_k`"]);
    let activation = Case::normal(dtype, &shape, 26).named("mlp.act").before("mlp.fc1", &shape, &make(27));
    activation.is(&make(27), "not_executed", &["`mlp.fc1`"]);
}

#[rstest]
fn a_residual(#[values(Float32, Bfloat16)] dtype: Dtype) {
    let shape = [2, 4, 8];
    let residual = Case::normal(dtype, &shape, 30).golden;
    let position = Case::normal(dtype, &[1, 4, 8], 31).golden;
    let case = Case::normal(dtype, &shape, 32)
        .before("position", &[1, 4, 8], &position)
        .before("hidden", &shape, &residual);
    let sum = |times: f64, other: &[f64]| -> Vec<f64> {
        case.golden.iter().enumerate().map(|(i, x)| x + times * other[i % other.len()]).collect()
    };
    case.is(&sum(-1.0, &residual), "term", &["`hidden` missing"]);
    case.is(&sum(1.0, &residual), "term", &["`hidden` added twice"]);
    case.is(&sum(-1.0, &position), "term", &["`position` missing"]);
}
