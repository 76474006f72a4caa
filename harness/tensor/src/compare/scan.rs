//! The result of one scan of the bits of a block. `fast_extremes` fills it, `float_bits` reads it.

use super::thresholds::Runs;

/// The scan of a block of float32.
#[derive(Debug, Clone, Copy)]
pub(super) struct WideScan {
    /// Of expected.
    pub(super) min: f32,
    pub(super) max: f32,
    /// The largest difference of bits, in either direction. It counts steps when the signs are equal, and is at least 2^23
    /// when they differ and both elements are finite.
    pub(super) bits_apart: u32,
    pub(super) equal: u32,
    /// The smallest magnitude except zero, minus one.
    pub(super) least: u32,
}

/// The scan of a block of 16-bit floats.
///
/// As signed integers, the bits of positive numbers have the order of the numbers. As unsigned integers, the bits of
/// negative numbers are above all others, and larger the further the number is from zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct NarrowScan {
    /// Of expected.
    pub(super) max_signed: i16,
    pub(super) max_unsigned: u16,
    /// Elements with different bits.
    pub(super) differ: u16,
    /// The smallest magnitude.
    pub(super) least: u16,
    /// The runs with a subnormal or a zero.
    pub(super) small: Runs,
    /// The most steps between magnitudes, regardless of sign.
    pub(super) ratio: u16,
    /// The most steps across zero.
    pub(super) across: u16,
}
