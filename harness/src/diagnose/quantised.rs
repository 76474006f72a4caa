//! Values on a grid: the geometry of a quantisation, read off the values themselves.

use super::facts::Seen;
use super::field::Field;
use super::{FactKind, Looked};

/// What MLX quantises with.
const GROUPS: [usize; 4] = [128, 64, 32, 16];
const BITS: [u32; 5] = [2, 3, 4, 6, 8];
/// Groups that are looked at.
const LOOKED_AT: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Geometry {
    bits: u32,
    group: usize,
}

/// Both sides are grids, of another geometry each. What was rounded to another grid is lost, so nothing is predicted.
pub(super) fn other_grid(looked: &Looked) -> Seen {
    let pair = &looked.pair;
    if pair.bar.eps() == 0.0 || pair.actual.len() < 512 {
        return None;
    }
    let (actual, golden) = (geometry(&pair.actual)?, geometry(&pair.expected)?);
    let words = |found: Geometry| format!("{} bits in groups of {}", found.bits, found.group);
    (golden != actual).then(|| {
        let text = format!("on a grid of {}, where the golden is on one of {}", words(actual), words(golden));
        (FactKind::Quantisation, text)
    })
}

/// The largest group and the fewest bits for which every group has few enough values, evenly spaced.
fn geometry(field: &Field) -> Option<Geometry> {
    let width = field.width();
    for group in GROUPS.into_iter().filter(|group| width.is_multiple_of(*group)) {
        let groups = field.len() / group;
        let step = groups.div_ceil(LOOKED_AT);
        let (mut bits, eps) = (BITS[0], field.dtype().epsilon().unwrap_or(0.0));
        let fits = (0..groups).step_by(step).all(|index| {
            let values: Vec<f64> = (0..group).map(|at| field.at(index * group + at)).collect();
            match grid_bits(values, eps) {
                Some(needed) if needed < 8 || group >= 64 => {
                    bits = bits.max(needed);
                    true
                }
                _ => false,
            }
        });
        // With eight bits, nearly any few numbers lie on some grid.
        if fits && (1usize << bits) < group {
            return Some(Geometry { bits, group });
        }
    }
    None
}

/// How many bits an evenly spaced grid needs to have all of the values, as well as the dtype lets that be told.
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
        // Steps that the dtype can hardly tell apart are no grid.
        let rounding = 2.0 * eps * size / step;
        rounding < 0.2 && values.iter().all(|value| off(value) <= 0.02 + rounding)
    })?;
    BITS.into_iter().find(|bits| levels < 1 << bits)
}
