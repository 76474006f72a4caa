//! Another quantisation: bits and group size, found from the values alone.

use super::diagnosis::Observation;
use super::{FactKind, Search};
use crate::tensor::Float64View;

/// The group sizes and bits that MLX has.
const GROUPS: [usize; 4] = [128, 64, 32, 16];
const BITS: [u32; 5] = [2, 3, 4, 6, 8];
/// At most this many groups are read.
const MOST_GROUPS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Geometry {
    bits: u32,
    group: usize,
}

/// Golden and actual are quantised differently. Rounding loses the original, so the actual cannot be predicted.
pub(super) fn other_grid(search: &Search) -> Observation {
    let pair = &search.pair;
    if pair.bound.eps() == 0.0 || pair.actual.len() < 512 {
        return None;
    }
    let (actual, golden) = (geometry(&pair.actual)?, geometry(&pair.expected)?);
    let words = |found: Geometry| format!("{} bits in groups of {}", found.bits, found.group);
    (golden != actual).then(|| {
        let text = format!("quantised with {}, where the golden has {}", words(actual), words(golden));
        (FactKind::Quantisation, text)
    })
}

/// The largest group size, with the fewest bits, such that the values of every group lie on an even grid.
fn geometry(numbers: &Float64View) -> Option<Geometry> {
    let width = numbers.width();
    for group in GROUPS.into_iter().filter(|group| width.is_multiple_of(*group)) {
        let groups = numbers.len() / group;
        let step = groups.div_ceil(MOST_GROUPS);
        let (mut bits, eps) = (BITS[0], numbers.dtype().epsilon().unwrap_or(0.0));
        let fits = (0..groups).step_by(step).all(|index| {
            let values: Vec<f64> = (0..group).map(|at| numbers.at(index * group + at)).collect();
            match grid_bits(values, eps) {
                Some(needed) if needed < 8 || group >= 64 => {
                    bits = bits.max(needed);
                    true
                }
                _ => false,
            }
        });
        // With eight bits, nearly any few numbers lie on a grid.
        if fits && (1usize << bits) < group {
            return Some(Geometry { bits, group });
        }
    }
    None
}

/// The fewest bits of an even grid that has all values, within the precision of the dtype.
fn grid_bits(mut values: Vec<f64>, eps: f64) -> Option<u32> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let (span, size) = (high - low, low.abs().max(high.abs()));
    values.dedup_by(|a, b| (*a - *b).abs() <= 2.0 * eps * size);
    if values.len() < 3 {
        return None;
    }
    let levels = (values.len() - 1..=255).find(|&levels| {
        let step = span / levels as f64;
        let off = |value: &f64| ((value - low) / step - ((value - low) / step).round()).abs();
        // Steps near the precision of the dtype show no grid.
        let rounding = 2.0 * eps * size / step;
        rounding < 0.2 && values.iter().all(|value| off(value) <= 0.02 + rounding)
    })?;
    BITS.into_iter().find(|bits| levels < 1 << bits)
}
