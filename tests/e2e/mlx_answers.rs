//! mlx-rs computes what NumPy computes, so that no wrong binding, half type or stride can pass for parity.

use approx::assert_abs_diff_eq;
use half::{bf16, f16};
use mlx_rs::error::AsSliceError;
use mlx_rs::module::{Module, Param};
use mlx_rs::{Array, Dtype, nn, ops};
use serde::Deserialize;

/// The results of `mlx_answers/make_answers.py`, which computes without MLX.
#[derive(Deserialize)]
struct Answers {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    matmul: Vec<f32>,
    linear: Vec<f32>,
    softmax: Vec<f32>,
    edges: Vec<f32>,
    edges_float16: Vec<u16>,
    edges_bfloat16: Vec<u16>,
    twice_float16: Vec<u16>,
    twice_bfloat16: Vec<u16>,
}

fn answers() -> Answers {
    serde_json::from_str(include_str!("mlx_answers/answers.json")).unwrap()
}

fn a() -> Array {
    Array::from_slice(&answers().a, &[3, 4])
}

fn b() -> Array {
    Array::from_slice(&answers().b, &[4, 2])
}

/// Allows a few rounding errors of float32 at values around one. No wrong operation comes so near.
#[track_caller]
fn assert_near(actual: &Array, expected: &[f32]) {
    let actual = actual.contiguous().unwrap();
    let actual = actual.try_as_slice::<f32>().unwrap();
    assert_abs_diff_eq!(actual, expected, epsilon = 1e-6);
}

#[test]
fn matmul_agrees_with_numpy() {
    assert_near(&a().matmul(b()).unwrap(), &answers().matmul);
}

#[test]
fn a_linear_layer_agrees_with_numpy() {
    let mut layer = nn::Linear::new(4, 2).unwrap();
    layer.weight = Param::new(b().transpose().unwrap());
    layer.bias = Param::new(Some(Array::from_slice(&answers().bias, &[2])));
    assert_near(&layer.forward(&a()).unwrap(), &answers().linear);
}

#[test]
fn softmax_agrees_with_numpy() {
    assert_near(&ops::softmax_axis(a(), -1, true).unwrap(), &answers().softmax);
}

#[test]
fn float16_has_the_bits_that_numpy_gives_it() {
    let answers = answers();
    let edges =
        Array::from_slice(&answers.edges, &[answers.edges.len() as i32]).as_dtype(Dtype::Float16).unwrap();
    let bits = |array: &Array| -> Vec<u16> {
        array.try_as_slice::<f16>().unwrap().iter().map(|value| value.to_bits()).collect()
    };
    assert_eq!(bits(&edges), answers.edges_float16);
    let two = Array::from_slice(&[f16::from_f32(2.0)], &[1]);
    assert_eq!(bits(&(&edges * &two)), answers.twice_float16);
    assert_eq!(Array::from_slice(&[f16::from_bits(0x3555)], &[]).item_exact::<f16>().to_bits(), 0x3555);
}

#[test]
fn bfloat16_has_the_bits_that_numpy_gives_it() {
    let answers = answers();
    let edges =
        Array::from_slice(&answers.edges, &[answers.edges.len() as i32]).as_dtype(Dtype::Bfloat16).unwrap();
    let bits = |array: &Array| -> Vec<u16> {
        array.try_as_slice::<bf16>().unwrap().iter().map(|value| value.to_bits()).collect()
    };
    assert_eq!(bits(&edges), answers.edges_bfloat16);
    let two = Array::from_slice(&[bf16::from_f32(2.0)], &[1]);
    assert_eq!(bits(&(&edges * &two)), answers.twice_bfloat16);
    assert_eq!(Array::from_slice(&[bf16::from_bits(0x3EAB)], &[]).item_exact::<bf16>().to_bits(), 0x3EAB);
}

#[test]
fn a_strided_view_is_read_in_its_own_order_or_not_at_all() {
    let turned = Array::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3]).transpose().unwrap();
    assert_eq!(turned.try_as_slice::<i32>(), Err(AsSliceError::NotContiguous));
    assert_eq!(turned.contiguous().unwrap().try_as_slice::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
}

#[test]
fn another_thread_computes_the_same() {
    let there = std::thread::spawn(|| a().matmul(b()).unwrap().try_as_slice::<f32>().unwrap().to_vec())
        .join()
        .unwrap();
    let here = a().matmul(b()).unwrap();
    assert_eq!(here.try_as_slice::<f32>().unwrap(), there);
    assert_near(&here, &answers().matmul);
}
