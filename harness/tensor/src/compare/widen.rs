//! Converting vectors of floats to wider floats.
//!
//! Operations that are the same for every lane are plain code on arrays, which compilers turn into single instructions.
//! Nothing here is a closure: closures are compiled without the instructions that `pulp` selects.

use bytemuck::{Pod, cast};
use half::{bf16, f16};
use pulp::Simd;

/// A 16-bit float; a 32-bit word holds two. Only finite ones are converted correctly.
pub(super) trait Narrow: Pod {
    /// The bits of the first magnitude that is not subnormal.
    const NORMAL: u16;
    fn low(word: u32) -> f32;
    fn high(word: u32) -> f32;
}

impl Narrow for bf16 {
    const NORMAL: u16 = 1 << 7;
    #[inline(always)]
    fn low(word: u32) -> f32 {
        f32::from_bits(word << 16)
    }
    #[inline(always)]
    fn high(word: u32) -> f32 {
        f32::from_bits(word & 0xffff_0000)
    }
}

impl Narrow for f16 {
    const NORMAL: u16 = 1 << 10;
    #[inline(always)]
    fn low(word: u32) -> f32 {
        Self::high(word << 16)
    }
    #[inline(always)]
    fn high(word: u32) -> f32 {
        // The sign stays at the top; exponent and fraction move to their places in float32. The exponent's bias differs
        // by 112, which a multiplication corrects, for subnormals too.
        let bits = (word as i32 >> 3) as u32 & 0x8fff_e000;
        f32::from_bits(bits) * f32::from_bits((127 + 112) << 23)
    }
}

/// `total + x`, lane by lane in float64.
#[inline(always)]
pub(super) fn add_wide<S: Simd>(simd: S, total: S::f64s, x: S::f32s) -> S::f64s {
    let [low, high] = widen::<S>(x);
    simd.add_f64s(total, simd.add_f64s(low, high))
}

/// A vector of float32 as two of float64. Without vector instructions the second is zero, which adds nothing.
#[inline(always)]
pub(super) fn widen<S: Simd>(x: S::f32s) -> [S::f64s; 2] {
    #[inline(always)]
    fn halves<const N: usize>([low, high]: [[f32; N]; 2]) -> [[f64; N]; 2] {
        let mut wide = [[0.0; N]; 2];
        for i in 0..N {
            wide[0][i] = f64::from(low[i]);
            wide[1][i] = f64::from(high[i]);
        }
        wide
    }
    match S::F32_LANES {
        1 => [cast(f64::from(cast::<_, f32>(x))), cast(0f64)],
        4 => cast_both(halves::<2>(cast(x))),
        8 => cast_both(halves::<4>(cast(x))),
        _ => cast_both(halves::<8>(cast(x))),
    }
}

/// The low and the high floats of a vector of words.
#[inline(always)]
pub(super) fn unpack<S: Simd, T: Narrow>(words: S::u32s) -> [S::f32s; 2] {
    #[inline(always)]
    fn both<T: Narrow, const N: usize>(words: [u32; N]) -> [[f32; N]; 2] {
        let mut floats = [[0.0; N]; 2];
        for i in 0..N {
            floats[0][i] = T::low(words[i]);
            floats[1][i] = T::high(words[i]);
        }
        floats
    }
    match S::U32_LANES {
        1 => cast_both(both::<T, 1>(cast(words))),
        4 => cast_both(both::<T, 4>(cast(words))),
        8 => cast_both(both::<T, 8>(cast(words))),
        _ => cast_both(both::<T, 16>(cast(words))),
    }
}

#[inline(always)]
fn cast_both<A: Pod, B: Pod>([x, y]: [A; 2]) -> [B; 2] {
    [cast(x), cast(y)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_widens_to_itself() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            let words = [u32::from(bits) | 0x1234_0000, u32::from(bits) << 16 | 0x4321];
            if half.is_finite() {
                assert_eq!(f16::low(words[0]).to_bits(), half.to_f32().to_bits());
                assert_eq!(f16::high(words[1]).to_bits(), half.to_f32().to_bits());
            }
            if brain.is_finite() {
                assert_eq!(bf16::low(words[0]).to_bits(), brain.to_f32().to_bits());
                assert_eq!(bf16::high(words[1]).to_bits(), brain.to_f32().to_bits());
            }
        }
    }
}
