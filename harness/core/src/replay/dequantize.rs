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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unpack(words: &[f64], scales: &[f64], bits: usize, group_size: usize) -> Result<Array, ReplayError> {
        let packed = Array::new(vec![1, words.len()], words.to_vec()).unwrap();
        let scales = Array::new(vec![1, scales.len()], scales.to_vec()).unwrap();
        dequantize([&packed, &scales, &scales], bits, group_size, &Work::new(1 << 30, 1 << 30))
    }

    #[test]
    fn the_lowest_bits_come_first() {
        let found = unpack(&[f64::from(0x8765_4321u32)], &[1.0, 10.0], 4, 4).unwrap();
        assert_eq!((found.shape(), found.values()), (&[1, 8][..], &[2., 3., 4., 5., 60., 70., 80., 90.][..]));
        assert!(unpack(&[0.0], &[1.0], 4, 4).is_err());
        assert!(unpack(&[0.0], &[1.0], 3, 10).is_err());
        assert!(unpack(&[0.0], &[1.0], 7, 4).is_err());
        assert!(unpack(&[0.0], &[1.0], 4, usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn numbers_cross_words(
            bits in prop::sample::select(vec![2usize, 3, 4, 5, 6, 8]),
            seed in prop::collection::vec(0u64..256, 32),
        ) {
            let numbers: Vec<u64> = seed.iter().map(|x| x & ((1 << bits) - 1)).collect();
            let mut stream = vec![false; 32 * bits];
            for (at, number) in numbers.iter().enumerate() {
                (0..bits).for_each(|bit| stream[at * bits + bit] = number >> bit & 1 == 1);
            }
            let words: Vec<f64> = stream
                .chunks(32)
                .map(|bits| bits.iter().rev().fold(0u64, |word, &bit| word << 1 | u64::from(bit)) as f64)
                .collect();
            let found = unpack(&words, &[1.0], bits, 32).unwrap();
            let expected: Vec<f64> = numbers.iter().map(|&x| x as f64 + 1.0).collect();
            prop_assert_eq!(found.values(), &expected[..]);
        }
    }
}
