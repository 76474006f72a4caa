//! Which parts of a block have to be looked at closely.
//!
//! What is costly and rare, a division for each element and the search for the worst, is left out of the loops over
//! all elements. These only tell which runs of a block *could* hold an element that is outside, or worse than the worst
//! so far: one above a line.

use super::BLOCK;

/// Elements in a run: a small part of a block, and a whole number of vectors of any width.
pub(super) const RUN: usize = 256;
/// Runs in a block.
pub(super) const COUNT: usize = BLOCK / RUN;

/// `offset + slope * |expected|`: a distance above it has to be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Line {
    pub(super) offset: f64,
    pub(super) slope: f64,
}

impl Line {
    /// The line for arithmetic in float32, lower by more than what the three roundings of
    /// `distance - slope * |expected|` can add up to. What that comes to is not below `offset` for all that is above
    /// the line.
    pub(super) fn low(self) -> LowLine {
        let Self { offset, slope } = self.lower(1e-30, 1e-6);
        LowLine { offset: offset as f32, slope: slope as f32 }
    }

    /// The same for arithmetic in float64.
    pub(super) fn low_wide(self) -> Self {
        self.lower(1e-290, 1e-12)
    }

    fn lower(self, tiny: f64, part: f64) -> Self {
        let scale = |x: f64| x.min(1e30) * (1.0 - part);
        // Among the smallest numbers roundings are no part of the result; the sign alone is always right.
        let offset = if self.offset < tiny { 0.0 } else { scale(self.offset) };
        Self { offset, slope: scale(self.slope) }
    }
}

/// A line in float32; see [`Line::low`].
#[derive(Debug, Clone, Copy)]
pub(super) struct LowLine {
    pub(super) offset: f32,
    pub(super) slope: f32,
}

/// From where on elements have to be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Limits {
    /// For the gate and for the worst elements.
    pub(super) gate: Line,
    /// For the relative distance.
    pub(super) relative: Line,
    /// Elements of the actual that were met before, such that another between the two is no new extreme.
    pub(super) seen: [f64; 2],
}

impl Limits {
    /// Both lines, for arithmetic in float32.
    pub(super) fn low(&self) -> [LowLine; 2] {
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

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Their indices, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(move |&index| self.contains(index))
    }

    pub(super) fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }
}

/// The runs that may have an element above either line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) gate: Runs,
    pub(super) relative: Runs,
}
