//! Matrices that MLX packed into words.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::work::Work;

/// The numbers of a packed matrix: `scale * q + bias`, where `q` are whole numbers of `bits` bits.
///
/// The words of a row are one stream of bits, the lowest bit first. `group_size` numbers in a row share a scale and a bias.
pub(super) fn dequantize(
    [packed, scales, biases]: [&Array; 3],
    bits: usize,
    group_size: usize,
    work: &Work,
) -> Result<Array, ReplayError> {
    for operand in [packed, scales, biases] {
        operand.check_real()?;
    }
    let bad = || {
        let shapes = [packed, scales, biases].map(Array::shape);
        ReplayError::operands(format!(
            "shapes {shapes:?} are not packed with {bits} bits in groups of {group_size}"
        ))
    };
    let ([outer @ .., words], [scale_outer @ .., groups]) = (packed.shape(), scales.shape()) else {
        return Err(bad());
    };
    let width = words.checked_mul(32).filter(|_| [2, 3, 4, 5, 6, 8].contains(&bits)).ok_or_else(bad)? / bits;
    let fits = words * 32 == width * bits && groups.checked_mul(group_size) == Some(width);
    if !fits || outer != scale_outer || biases.shape() != scales.shape() {
        return Err(bad());
    }
    let shape = [outer, &[width]].concat();
    let length = elements(&shape)?;
    work.elements(length)?;
    let mut out = work.buffer(length)?;
    let mask = (1u64 << bits) - 1;
    for (row, stream) in packed.values().chunks_exact((*words).max(1)).enumerate() {
        for column in 0..width {
            let (word, shift) = (column * bits / 32, column * bits % 32);
            // A number may begin in one word and end in the next.
            let next = stream.get(word + 1).map_or(0, |&word| word as u64);
            let q = ((stream[word] as u64 | next << 32) >> shift) & mask;
            let group = row * groups + column / group_size;
            out.push(scales.values()[group] * q as f64 + biases.values()[group]);
        }
    }
    Ok(Array::real(shape, out))
}
