//! Changes of resolution, as `torch.nn.functional.interpolate` computes them.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::pick::resize;
use super::work::Work;
use crate::recipe::{Resampling, Upsampling};

/// The last axes of `x` with new lengths.
pub(super) fn upsample(
    x: &Array,
    size: &[usize],
    how: Resampling,
    work: &Work,
) -> Result<Array, ReplayError> {
    x.check_real()?;
    let Resampling { mode, align, antialias, cubic: a } = how;
    let axes = match mode {
        Upsampling::Nearest | Upsampling::NearestExact => 1..=3,
        Upsampling::Linear => 1..=1,
        Upsampling::Bilinear | Upsampling::Bicubic => 2..=2,
        Upsampling::Trilinear => 3..=3,
    };
    let first = x.ndim().checked_sub(size.len()).filter(|_| axes.contains(&size.len()));
    let Some(first) = first.filter(|&first| !x.shape()[first..].contains(&0) && !size.contains(&0)) else {
        let shape = x.shape();
        return Err(ReplayError::operands(format!("shape {shape:?} cannot get size {size:?} by {mode:?}")));
    };
    let lengths = size.iter().enumerate().map(|(axis, &length)| (first + axis, length));
    lengths.filter(|&(axis, length)| x.shape()[axis] != length).try_fold(x.clone(), |x, (axis, to)| {
        let from = x.shape()[axis];
        // `elements` bounds the product, so that nothing overflows.
        elements(&[from, to, 4])?;
        match mode {
            Upsampling::Bilinear if antialias => {
                resample(&x, axis, to, work, |i| smooth(i, from, to, 1.0, |x| 1.0 - x))
            }
            Upsampling::Bicubic if antialias => {
                resample(&x, axis, to, work, |i| smooth(i, from, to, 2.0, |x| cubic_weight(a, x)))
            }
            Upsampling::Nearest => resize(&x, axis, to, work, |i| i * from / to),
            Upsampling::NearestExact => resize(&x, axis, to, work, |i| (2 * i + 1) * from / (2 * to)),
            Upsampling::Linear | Upsampling::Bilinear | Upsampling::Trilinear => {
                resample(&x, axis, to, work, |i| linear(source(i, from, to, align).max(0.0), from))
            }
            Upsampling::Bicubic => {
                resample(&x, axis, to, work, |i| cubic(source(i, from, to, align), from, a))
            }
        }
    })
}

/// The position of the new element `i` on the original axis.
fn source(i: usize, from: usize, to: usize, align: bool) -> f64 {
    if !align {
        return (i as f64 + 0.5) * (from as f64 / to as f64) - 0.5;
    }
    if to == 1 { 0.0 } else { i as f64 * ((from - 1) as f64 / (to - 1) as f64) }
}

/// Old elements with their weights.
type Taps = Vec<(usize, f64)>;

fn linear(place: f64, length: usize) -> Taps {
    let left = (place as usize).min(length - 1);
    let part = place - left as f64;
    vec![(left, 1.0 - part), ((left + 1).min(length - 1), part)]
}

/// The weight of an element at this distance by cubic convolution.
fn cubic_weight(a: f64, x: f64) -> f64 {
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    }
}

/// Weights of a function that is as wide as the distance of two new elements. They add up to 1; elements beyond the ends do not
/// count. `radius` is where the function becomes 0.
fn smooth(i: usize, from: usize, to: usize, radius: f64, weight: impl Fn(f64) -> f64) -> Taps {
    let scale = from as f64 / to as f64;
    let width = scale.max(1.0);
    let centre = scale * (i as f64 + 0.5);
    let first = (centre - radius * width + 0.5).max(0.0) as usize;
    let end = ((centre + radius * width + 0.5) as usize).min(from);
    let of = |at: usize| {
        let distance = ((at as f64 - centre + 0.5) / width).abs();
        if distance < radius { weight(distance) } else { 0.0 }
    };
    let taps: Taps = (first..end).map(|at| (at, of(at))).collect();
    let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
    taps.into_iter().map(|(at, weight)| (at, weight / sum)).collect()
}

/// Weights of cubic convolution. The outermost elements repeat beyond the ends.
fn cubic(place: f64, length: usize, a: f64) -> Taps {
    let floor = place.floor();
    let part = place - floor;
    let of = |shift: f64| {
        let at = (floor + shift).clamp(0.0, (length - 1) as f64) as usize;
        (at, cubic_weight(a, (part - shift).abs()))
    };
    [-1.0, 0.0, 1.0, 2.0].map(of).into()
}

/// Changes the length of an axis. Each new element is a weighted sum of old ones.
fn resample(
    x: &Array,
    axis: usize,
    to: usize,
    work: &Work,
    taps: impl Fn(usize) -> Taps,
) -> Result<Array, ReplayError> {
    let mut shape = x.shape().to_vec();
    let from = shape[axis];
    shape[axis] = to;
    let length = elements(&shape)?;
    let inner: usize = shape[axis + 1..].iter().product();
    work.elements(elements(&[from.max(to), 4])?)?;
    let mut out = work.filled(length, 0.0)?;
    if length > 0 {
        let taps: Vec<Taps> = (0..to).map(taps).collect();
        let each = taps.iter().map(Vec::len).max().unwrap_or(0);
        work.elements(length.saturating_mul(each))?;
        for (rows, old) in out.chunks_exact_mut(to * inner).zip(x.values().chunks_exact(from * inner)) {
            for (row, taps) in rows.chunks_exact_mut(inner).zip(&taps) {
                for &(at, weight) in taps {
                    row.iter_mut().zip(&old[at * inner..][..inner]).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        }
    }
    Ok(Array::real(shape, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    fn counted(shape: &[usize]) -> Array {
        let length = elements(shape).unwrap();
        Array::new(shape.to_vec(), (0..length).map(|i| (i * i) as f64).collect()).unwrap()
    }

    #[track_caller]
    fn check(x: &[usize], mode: Upsampling, size: &[usize], align: bool, expected: &[f64]) {
        check_how(x, plain(mode, align), size, expected);
    }

    fn plain(mode: Upsampling, align: bool) -> Resampling {
        Resampling { mode, align, antialias: false, cubic: -0.75 }
    }

    #[track_caller]
    fn check_how(x: &[usize], how: Resampling, size: &[usize], expected: &[f64]) {
        let found = upsample(&counted(x), size, how, &work()).unwrap();
        assert_eq!(&found.shape()[x.len() - size.len()..], size);
        assert_eq!(found.len(), expected.len());
        for (x, y) in found.values().iter().zip(expected) {
            assert!((x - y).abs() < 1e-12, "{:?}, expected {expected:?}", found.values());
        }
    }

    // Printed by torch.nn.functional.interpolate in float64.
    #[test]
    fn values_are_those_of_torch() {
        check(&[1, 1, 3], Upsampling::Nearest, &[5], false, &[0., 0., 1., 1., 4.]);
        check(&[1, 1, 3], Upsampling::NearestExact, &[5], false, &[0., 0., 1., 4., 4.]);
        check(&[1, 1, 3], Upsampling::Linear, &[5], false, &[0., 0.4, 1., 2.8, 4.]);
        check(&[1, 1, 3], Upsampling::Linear, &[5], true, &[0., 0.5, 1., 2.5, 4.]);
        check(&[1, 1, 4], Upsampling::Linear, &[2], false, &[0.5, 6.5]);
        check(&[1, 1, 4], Upsampling::Linear, &[1], true, &[0.0]);
        let bilinear = [0., 0.25, 0.75, 1., 1., 1.75, 3.25, 4., 3., 4.75, 8.25, 10., 4., 6.25, 10.75, 13.];
        let x = Array::new(vec![1, 1, 2, 2], vec![0., 1., 4., 13.]).unwrap();
        let found = upsample(&x, &[4, 4], plain(Upsampling::Bilinear, false), &work()).unwrap();
        assert!(
            found.values().iter().zip(bilinear).all(|(x, y)| (x - y).abs() < 1e-12),
            "{:?}",
            found.values()
        );
        let bicubic = [
            -0.8156433105468733,
            -0.7471211751302058,
            0.6439310709635458,
            2.3550313313802134,
            4.212890625,
            6.3994140625,
            11.1015625,
            14.9306640625,
            9.241424560546877,
            13.545949300130214,
            21.55919392903646,
            27.506296793619796,
        ];
        check(&[1, 1, 2, 3], Upsampling::Bicubic, &[3, 4], false, &bicubic);
        let aligned = [
            0.0,
            0.35185185185185164,
            2.0555555555555562,
            4.0,
            4.5,
            6.574074074074073,
            10.833333333333336,
            14.5,
            9.0,
            12.796296296296294,
            19.611111111111114,
            25.0,
        ];
        check(&[1, 1, 2, 3], Upsampling::Bicubic, &[3, 4], true, &aligned);
        check(
            &[1, 1, 2, 2, 2],
            Upsampling::Trilinear,
            &[3, 2, 1],
            false,
            &[0.5, 6.5, 10.5, 24.5, 20.5, 42.5],
        );
        check(&[1, 1, 1, 2], Upsampling::Nearest, &[2, 4], false, &[0., 0., 1., 1., 0., 0., 1., 1.]);
    }

    // Printed by torch.nn.functional.interpolate in float64, with `antialias=True`.
    #[test]
    fn antialiased_values_are_those_of_torch() {
        let smooth = |mode| Resampling { mode, align: false, antialias: true, cubic: -0.5 };
        check_how(&[1, 1, 1, 8], smooth(Upsampling::Bilinear), &[1, 3], &BILINEAR);
        check_how(&[1, 1, 1, 8], smooth(Upsampling::Bicubic), &[1, 3], &BICUBIC);
        check_how(&[1, 1, 1, 3], smooth(Upsampling::Bicubic), &[1, 5], &LARGER);
    }

    const BILINEAR: [f64; 3] = [2.052631578947368, 13.452380952380953, 35.57894736842105];
    const BICUBIC: [f64; 3] = [1.0357935216683918, 12.718559656037264, 37.485283242123955];
    const LARGER: [f64; 5] =
        [-0.07547169811320774, 0.2164179104477606, 1.0, 2.9925373134328366, 4.226415094339623];

    #[test]
    fn a_length_or_mode_that_does_not_fit_is_an_error() {
        for (shape, mode, size) in [
            (&[1, 1, 3][..], Upsampling::Bilinear, &[4][..]),
            (&[3], Upsampling::Bicubic, &[4, 4]),
            (&[1, 1, 0], Upsampling::Nearest, &[4]),
            (&[1, 1, 3], Upsampling::Nearest, &[0]),
            (&[1, 1, 3], Upsampling::Linear, &[1 << 40]),
            (&[1, 1, 3], Upsampling::Nearest, &[usize::MAX]),
        ] {
            let how = plain(mode, false);
            assert!(upsample(&counted(shape), size, how, &work()).is_err(), "{shape:?} {size:?}");
        }
    }
}
