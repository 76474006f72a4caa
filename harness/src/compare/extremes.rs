//! What a [`WideScan`] holds, in vectors.

use pulp::Simd;

use super::bits::WideScan;
use super::runs::{LowLine, RUN};

pub(super) struct Extremes<S: Simd> {
    simd: S,
    min: [S::f32s; 2],
    max: [S::f32s; 2],
    bits_apart: S::u32s,
    equal: S::u32s,
    least: S::u32s,
}

impl<S: Simd> Extremes<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self {
            simd,
            min: [simd.splat_f32s(f32::INFINITY); 2],
            max: [simd.splat_f32s(f32::NEG_INFINITY); 2],
            bits_apart: simd.splat_u32s(0),
            equal: simd.splat_u32s(0),
            least: simd.splat_u32s(u32::MAX),
        }
    }

    /// Adds a run, and answers the largest `distance - slope * |expected|` for either line.
    #[inline(always)]
    pub(super) fn add(&mut self, e: &[f32; RUN], a: &[f32; RUN], lines: [LowLine; 2]) -> [S::f32s; 2] {
        let simd = self.simd;
        let slopes = [simd.splat_f32s(-lines[0].slope), simd.splat_f32s(-lines[1].slope)];
        let mut above = [simd.splat_f32s(f32::NEG_INFINITY); 2];
        let (magnitude, one) = (simd.splat_u32s(u32::MAX >> 1), simd.splat_u32s(1));
        for (&e, &a) in S::as_simd_f32s(e).0.iter().zip(S::as_simd_f32s(a).0) {
            self.min = [simd.min_f32s(self.min[0], e), simd.min_f32s(self.min[1], a)];
            self.max = [simd.max_f32s(self.max[0], e), simd.max_f32s(self.max[1], a)];
            let equal = simd.select_u32s(simd.equal_f32s(e, a), one, simd.splat_u32s(0));
            self.equal = simd.add_u32s(self.equal, equal);
            let distance = simd.abs_f32s(simd.sub_f32s(a, e));
            let (e, a) = (simd.transmute_u32s_f32s(e), simd.transmute_u32s_f32s(a));
            let apart = simd.min_u32s(simd.sub_u32s(e, a), simd.sub_u32s(a, e));
            self.bits_apart = simd.max_u32s(self.bits_apart, apart);
            let (e, a) = (simd.and_u32s(e, magnitude), simd.and_u32s(a, magnitude));
            let m = simd.transmute_f32s_u32s(e);
            above[0] = simd.max_f32s(above[0], simd.mul_add_e_f32s(slopes[0], m, distance));
            above[1] = simd.max_f32s(above[1], simd.mul_add_e_f32s(slopes[1], m, distance));
            let least = simd.min_u32s(simd.sub_u32s(e, one), simd.sub_u32s(a, one));
            self.least = simd.min_u32s(self.least, least);
        }
        above
    }

    #[inline(always)]
    pub(super) fn finish(self) -> WideScan {
        let simd = self.simd;
        WideScan {
            min: [simd.reduce_min_f32s(self.min[0]), simd.reduce_min_f32s(self.min[1])],
            max: [simd.reduce_max_f32s(self.max[0]), simd.reduce_max_f32s(self.max[1])],
            bits_apart: join::<S>(self.bits_apart, u32::max),
            equal: join::<S>(self.equal, u32::wrapping_add),
            least: join::<S>(self.least, u32::min),
        }
    }
}

fn join<S: Simd>(lanes: S::u32s, with: fn(u32, u32) -> u32) -> u32 {
    bytemuck::cast_slice::<S::u32s, u32>(&[lanes]).iter().copied().reduce(with).unwrap_or(0)
}
