//! Rotary embeddings: which features form pairs, and by which angles the pairs are rotated.
//!
//! Where the rotated tensor is the tap, the input before it gives the angles. A rotation keeps the length of each pair,
//! and so also shows which features form pairs. Tables of cosines and sines are handled in `table.rs`.

mod base;
mod input;
mod mistakes;
mod rotation;
mod table;

use super::sampled_pair::SampledPair;
use super::{Explanation, Search};
use crate::tensor::{Float64View, row_major};
use rotation::{Pairing, Rotation, RowStart};

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    let width = pair.actual.width();
    if !pair.same_shape() || pair.bound.eps() == 0.0 || width < 4 && pair.shape().len() < 2 {
        return Vec::new();
    }
    let rotated = || {
        input::inputs(search).find_map(|(name, tensor)| {
            let view = tensor.view();
            rotated(pair, &Float64View::new(&view), &name)
        })
    };
    table::explain(search).or_else(rotated).into_iter().collect()
}

/// Explains the actual as another rotation of `x`, provided that the golden is a rotation of `x`.
fn rotated(pair: &SampledPair, x: &Float64View, name: &str) -> Option<Explanation> {
    let width = pair.actual.width();
    if width < 4 || width % 2 == 1 || x.width() != width {
        return None;
    }
    row_starts(pair.shape(), x.shape())?.into_iter().find_map(|start| {
        let rotation = Rotation { pair, x, start, width };
        let pairing = [Pairing::Halves, Pairing::Interleaved]
            .into_iter()
            .find(|&pairing| rotation.is_golden(pairing))?;
        mistakes::wrong_pairs(&rotation, pairing, name)
            .or_else(|| mistakes::opposite_angles(&rotation, pairing, name))
            .or_else(|| mistakes::twice(&rotation, pairing, name))
            .or_else(|| mistakes::wrong_position(&rotation, pairing, name))
            .or_else(|| base::wrong_base(&rotation, pairing, name))
    })
}

/// The ways to find a row of the golden in the input: in the same order, or with two axes exchanged, as heads and tokens
/// often are.
fn row_starts<'p>(golden: &'p [usize], input: &'p [usize]) -> Option<Vec<RowStart<'p>>> {
    let width = *golden.last()?;
    let mut found: Vec<RowStart> = Vec::new();
    if golden == input {
        found.push(Box::new(move |row| row * width));
    }
    let rows = &golden[..golden.len() - 1];
    for (p, q) in (0..rows.len()).flat_map(|p| (p + 1..rows.len()).map(move |q| (p, q))) {
        let mut swapped = golden.to_vec();
        swapped.swap(p, q);
        if swapped != input || golden == input {
            continue;
        }
        let mut strides = row_major(&swapped);
        strides.swap(p, q);
        let lengths = rows.to_vec();
        found.push(Box::new(move |row| {
            let (mut rest, mut place) = (row, 0);
            for (&length, &stride) in lengths.iter().zip(&strides).rev() {
                place += rest % length * stride;
                rest /= length;
            }
            place
        }));
    }
    Some(found)
}
