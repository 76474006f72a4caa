//! Which parts of a block need a closer check.
//!
//! The loops over all elements avoid costly and rare work: one division per element, and the search for the worst. They
//! only find the runs of a block that *could* hold an element outside the gate, or worse than the worst so far: an
//! element above a threshold.

use super::BLOCK;

/// Elements per run: a small part of a block, and a whole number of vectors of any width.
pub(super) const RUN: usize = 256;
/// Runs per block.
pub(super) const COUNT: usize = BLOCK / RUN;

/// `offset + slope * |expected|`: a distance above it needs a closer check.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Threshold {
    pub(super) offset: f64,
    pub(super) slope: f64,
}

impl Threshold {
    /// The threshold for arithmetic in float32, lowered by more than the three roundings of
    /// `distance - slope * |expected|` can add up to. For every distance above the threshold, that difference is not
    /// below `offset`.
    pub(super) fn low(self) -> LowThreshold {
        let Self { offset, slope } = self.lower(1e-30, 1e-6);
        LowThreshold { offset: offset as f32, slope: slope as f32 }
    }

    /// The same for arithmetic in float64.
    pub(super) fn low_wide(self) -> Self {
        self.lower(1e-290, 1e-12)
    }

    fn lower(self, tiny: f64, part: f64) -> Self {
        let scale = |x: f64| x.min(1e30) * (1.0 - part);
        // Among the smallest numbers, a rounding error is not relative to the result; only the sign is reliable.
        let offset = if self.offset < tiny { 0.0 } else { scale(self.offset) };
        Self { offset, slope: scale(self.slope) }
    }
}

/// A threshold in float32; see [`Threshold::low`].
#[derive(Debug, Clone, Copy)]
pub(super) struct LowThreshold {
    pub(super) offset: f32,
    pub(super) slope: f32,
}

/// The thresholds above which elements need a closer check.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Thresholds {
    /// For the gate and for the worst elements.
    pub(super) gate: Threshold,
    /// For the relative distance.
    pub(super) relative: Threshold,
    /// Two earlier elements of the actual; an element between them is not a new extreme.
    pub(super) seen: [f64; 2],
}

impl Thresholds {
    /// Both thresholds, for arithmetic in float32.
    pub(super) fn low(&self) -> [LowThreshold; 2] {
        [self.gate.low(), self.relative.low()]
    }
}

/// Some of the runs of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs(u16);

const _: () = assert!(COUNT == u16::BITS as usize);

impl Runs {
    pub(super) const NONE: Self = Self(0);

    #[inline(always)]
    pub(super) fn set(&mut self, index: usize, is_set: bool) {
        self.0 |= u16::from(is_set) << index;
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The indices of the runs, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(move |&index| self.contains(index))
    }

    pub(super) fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }
}

/// The runs that may have an element above either threshold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) gate: Runs,
    pub(super) relative: Runs,
}
