//! Variants of the rotary positions of Qwen-Image.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};
use parity_tests::qwen_image::transformer::{Rope, rotate as right_rotate};

use super::Variant;
use super::ops::Computed;
use crate::change::{Pairs, real_and_imaginary, turned};

/// Tables of patches and of text tokens.
pub(super) fn tables(
    rope: &Rope,
    shapes: &[[i32; 3]],
    words: i32,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let middle = |length: i32| if v.is("rows_from_zero") { 0 } else { length - length / 2 };
    let mut patches = Vec::new();
    for (number, &[frames, height, width]) in (0..).zip(shapes) {
        let first = if v.is("frames_not_counted") { 0 } else { number };
        for frame in first..first + frames {
            for row in 0..height {
                let place = |column| [frame, row - middle(height), column - middle(width)];
                patches.extend((0..width).map(place));
            }
        }
    }
    let end = shapes.iter().map(|[_, height, width]| (height / 2).max(width / 2)).max().unwrap_or(0);
    let end = if v.is("words_from_zero") { 0 } else { end };
    let words: Vec<_> = (end..end + words).map(|place| [place; 3]).collect();
    Ok((table(rope, &patches, v)?, table(rope, &words, v)?))
}

fn table(rope: &Rope, places: &[[i32; 3]], v: &Variant) -> Computed {
    let whole: i32 = rope.axes.iter().sum();
    let mut pairs = Vec::new();
    for (axis, &dim) in rope.axes.iter().enumerate() {
        let length = if v.is("exponents_of_whole_head") { whole } else { dim };
        let frequency = |i: i32| 1.0 / rope.theta.powf(i as f32 / length as f32);
        pairs.extend((0..dim).step_by(2).map(|i| (axis, frequency(i))));
    }
    let angles: Vec<f32> = places
        .iter()
        .flat_map(|place| pairs.iter().map(|&(axis, frequency)| place[axis] as f32 * frequency))
        .collect();
    let angles = Array::from_slice(&angles, &[places.len() as i32, pairs.len() as i32]);
    ops::stack(&[angles.cos()?, angles.sin()?], -1)?.view_dtype(Dtype::Complex64)?.squeeze_axes(&[-1])
}

pub(super) fn rotate(x: &Array, table: &Array, v: &Variant) -> Computed {
    if v.is("rotated_by_parts") {
        let (cos, sin) = real_and_imaginary(table)?;
        return turned(x, &cos.expand_dims(1)?, &sin.expand_dims(1)?, Pairs::Neighbours);
    }
    right_rotate(x, table)
}
