//! Filling a [`WideScan`] or a [`NarrowScan`], in vectors.

use std::hint::black_box;

use bytemuck::{Pod, cast, cast_slice};
use pulp::{Simd, WithSimd};

use super::BLOCK;
use super::scan::{NarrowScan, WideScan};
use super::thresholds::{self, Runs};

pub(super) struct Extremes<S: Simd> {
    simd: S,
    min: S::f32s,
    max: S::f32s,
    equal: S::u32s,
    least: S::u32s,
    bits_apart: [S::i32s; 2],
}

impl<S: Simd> Extremes<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self {
            simd,
            min: simd.splat_f32s(f32::INFINITY),
            max: simd.splat_f32s(f32::NEG_INFINITY),
            equal: simd.splat_u32s(0),
            least: simd.splat_u32s(u32::MAX),
            bits_apart: [simd.splat_i32s(0); 2],
        }
    }

    /// Adds a vector, and to `above` the largest `distance - slope * |expected|` for each threshold.
    #[inline(always)]
    pub(super) fn add(&mut self, e: S::f32s, a: S::f32s, slopes: [S::f32s; 2], above: &mut [S::f32s; 2]) {
        let simd = self.simd;
        let (magnitude, one) = (simd.splat_u32s(u32::MAX >> 1), simd.splat_u32s(1));
        self.min = simd.min_f32s(self.min, e);
        self.max = simd.max_f32s(self.max, e);
        let distance = simd.abs_f32s(simd.sub_f32s(a, e));
        let equal = simd.select_u32s(simd.equal_f32s(e, a), one, simd.splat_u32s(0));
        self.equal = simd.add_u32s(self.equal, equal);
        let apart = simd.sub_i32s(simd.transmute_i32s_f32s(e), simd.transmute_i32s_f32s(a));
        self.bits_apart[0] = simd.min_i32s(self.bits_apart[0], apart);
        self.bits_apart[1] = simd.max_i32s(self.bits_apart[1], apart);
        let e = simd.and_u32s(simd.transmute_u32s_f32s(e), magnitude);
        let a = simd.and_u32s(simd.transmute_u32s_f32s(a), magnitude);
        let m = simd.transmute_f32s_u32s(e);
        above[0] = simd.max_f32s(above[0], simd.mul_add_e_f32s(slopes[0], m, distance));
        above[1] = simd.max_f32s(above[1], simd.mul_add_e_f32s(slopes[1], m, distance));
        let least = simd.min_u32s(simd.sub_u32s(e, one), simd.sub_u32s(a, one));
        self.least = simd.min_u32s(self.least, least);
    }

    #[inline(always)]
    pub(super) fn finish(self) -> WideScan {
        let simd = self.simd;
        let [down, up]: [i32; 2] = [join(self.bits_apart[0], i32::min), join(self.bits_apart[1], i32::max)];
        WideScan {
            min: simd.reduce_min_f32s(self.min),
            max: simd.reduce_max_f32s(self.max),
            bits_apart: down.unsigned_abs().max(up.unsigned_abs()),
            equal: join(self.equal, u32::wrapping_add),
            least: join(self.least, u32::min),
        }
    }
}

/// The smallest and the largest float32 of a block.
pub(super) struct Ends<'a>(pub(super) &'a [f32; BLOCK]);

impl WithSimd for Ends<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; 2] {
        let (mut min, mut max) = (simd.splat_f32s(f32::INFINITY), simd.splat_f32s(f32::NEG_INFINITY));
        for &x in S::as_simd_f32s(self.0).0 {
            min = simd.min_f32s(min, x);
            max = simd.max_f32s(max, x);
        }
        [simd.reduce_min_f32s(min), simd.reduce_max_f32s(max)]
    }
}

pub(super) struct NarrowExtremes<S: Simd> {
    simd: S,
    one: S::u16s,
    max_signed: S::i16s,
    max_unsigned: S::u16s,
    differ: S::u16s,
    ratio: S::u16s,
    across: S::u16s,
    /// The smallest magnitude of the run.
    least: S::u16s,
}

impl<S: Simd> NarrowExtremes<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        let zero = simd.splat_u16s(0);
        Self {
            simd,
            // Hidden from the compiler, which would replace `min` with a comparison that takes more instructions.
            one: simd.splat_u16s(black_box(1)),
            max_signed: simd.splat_i16s(i16::MIN),
            max_unsigned: zero,
            differ: zero,
            ratio: zero,
            across: zero,
            least: simd.splat_u16s(u16::MAX),
        }
    }

    /// Adds a vector.
    #[inline(always)]
    pub(super) fn add(&mut self, e: S::u16s, a: S::u16s) {
        let (simd, magnitude) = (self.simd, self.simd.splat_u16s(u16::MAX >> 1));
        self.max_signed = simd.max_i16s(self.max_signed, simd.transmute_i16s_u16s(e));
        self.max_unsigned = simd.max_u16s(self.max_unsigned, e);
        let unlike = simd.xor_u16s(e, a);
        self.differ = simd.add_u16s(self.differ, simd.min_u16s(unlike, self.one));
        let (e, a) = (simd.and_u16s(e, magnitude), simd.and_u16s(a, magnitude));
        let lesser = simd.min_u16s(e, a);
        self.least = simd.min_u16s(self.least, lesser);
        self.ratio = simd.max_u16s(self.ratio, simd.sub_u16s(simd.max_u16s(e, a), lesser));
        let across = simd.and_u16s(simd.add_u16s(e, a), signs::<S>(unlike));
        self.across = simd.max_u16s(self.across, across);
    }

    /// Ends a run, and returns its smallest magnitude.
    #[inline(always)]
    pub(super) fn end_run(&mut self) -> S::u16s {
        std::mem::replace(&mut self.least, self.simd.splat_u16s(u16::MAX))
    }

    /// The scan, from the results of [`NarrowExtremes::end_run`] and the smallest magnitude that is not subnormal.
    #[inline(always)]
    pub(super) fn finish(self, least: &[S::u16s; thresholds::COUNT], normal: u16) -> NarrowScan {
        let mut least_of_all = least[0];
        for &run in &least[1..] {
            least_of_all = self.simd.min_u16s(least_of_all, run);
        }
        let (least_of_all, mut small) = (join(least_of_all, u16::min), Runs::NONE);
        if least_of_all < normal {
            for (index, &run) in least.iter().enumerate() {
                small.set(index, join(run, u16::min) < normal);
            }
        }
        NarrowScan {
            max_signed: join(self.max_signed, i16::max),
            max_unsigned: join(self.max_unsigned, u16::max),
            differ: join(self.differ, u16::wrapping_add),
            least: least_of_all,
            small,
            ratio: join(self.ratio, u16::max),
            across: join(self.across, u16::max),
        }
    }
}

/// All bits of a lane when its highest bit is set, else none.
#[inline(always)]
fn signs<S: Simd>(x: S::u16s) -> S::u16s {
    #[inline(always)]
    fn each<const N: usize>(mut lanes: [u16; N]) -> [u16; N] {
        for lane in &mut lanes {
            *lane = (*lane as i16 >> 15) as u16;
        }
        lanes
    }
    match S::U16_LANES {
        1 => cast(each::<1>(cast(x))),
        8 => cast(each::<8>(cast(x))),
        16 => cast(each::<16>(cast(x))),
        _ => cast(each::<32>(cast(x))),
    }
}

#[inline(always)]
fn join<V: Pod, T: Pod>(lanes: V, with: fn(T, T) -> T) -> T {
    cast_slice::<V, T>(&[lanes]).iter().copied().reduce(with).unwrap_or(T::zeroed())
}
