//! Rotations with another base: pair `f` turns by `base^(-2 f / width)` per position.

use num_complex::Complex64;

use super::super::{CauseKind, Explanation};
use super::rotation::{Pairing, Rotation, unit};
use crate::number::Short;
use crate::tensor::row_major;

/// A sequence may begin at any position below this one.
const MOST_POSITIONS: u32 = 1 << 14;

pub(super) fn wrong_base(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let (half, axes) = (rotation.width / 2, rotation.pair.shape().len() - 1);
    let actual = |row: usize, f: usize| {
        unit(rotation.actual(row, pairing, f) * rotation.input(row, pairing, f).conj())
    };
    (0..axes).filter(|&axis| rotation.pair.shape()[axis] >= 2).find_map(|axis| {
        // The angle that each pair turns by from one position to the next.
        let speeds = |of: &dyn Fn(usize, usize) -> Complex64| -> Vec<f64> {
            let mut sums = vec![Complex64::ZERO; half];
            for (row, f) in rotation.some_pairs() {
                if let Some(next) = rotation.along(row, axis, 1) {
                    sums[f] += of(next, f) * of(row, f).conj();
                }
            }
            sums.into_iter().map(Complex64::arg).collect()
        };
        let right = speeds(&|row, f| rotation.turn(row, pairing, f));
        let wrong = speeds(&actual);
        let (golden, found) = (base_of(&right, rotation.width)?, base_of(&wrong, rotation.width)?);
        let golden = usual_bases(golden).first().copied().unwrap_or(golden);
        let angle = |position: f64, base: f64, f: usize| {
            position * base.powf(-2.0 * f as f64 / rotation.width as f64)
        };
        let first = first_position(|position| {
            let gap = |f: usize| {
                let wanted = Complex64::cis(angle(position, golden, f));
                (rotation.turn(0, pairing, f) - wanted).norm_sqr()
            };
            (0..half).map(gap).sum()
        });
        let stride = row_major(&rotation.pair.shape()[..axes])[axis];
        let explained = |base: f64| {
            rotation.pair.explained_where(1, |index| {
                rotation.predicted(index, pairing, |row, f| {
                    let position = first + (row / stride % rotation.pair.shape()[axis]) as f64;
                    Some(Complex64::cis(angle(position, base, f)))
                })
            })
        };
        let candidates = usual_bases(found).into_iter().chain([found]);
        let (found, residual) = candidates
            .filter_map(|base| Some((base, explained(base)?)))
            .min_by(|x, y| x.1.rms.total_cmp(&y.1.rms))?;
        let text = format!(
            "`{name}` rotated with a base of {}, where the golden has {}",
            Short(found),
            Short(golden)
        );
        Some(Explanation::new(CauseKind::RopeBase, 1, residual, text))
    })
}

/// The whole position at which `gap` is smallest.
fn first_position(gap: impl Fn(f64) -> f64) -> f64 {
    let gaps = (0..MOST_POSITIONS).map(|position| (f64::from(position), gap(f64::from(position))));
    gaps.min_by(|x, y| x.1.total_cmp(&y.1)).map_or(0.0, |best| best.0)
}

/// The base of speeds `base^(-2 f / width)`, from the slope of their logarithms. Fast pairs are measured best and so
/// weigh more.
fn base_of(speeds: &[f64], width: usize) -> Option<f64> {
    let fast: Vec<f64> = speeds.iter().copied().take_while(|speed| *speed > 0.01).collect();
    if fast.len() < 2 || !fast.is_sorted_by(|a, b| a > b) {
        return None;
    }
    let (mut up, mut down) = (0.0, 0.0);
    for (f, speed) in fast.iter().enumerate().skip(1) {
        let exponent = 2.0 * f as f64 / width as f64;
        up -= speed * speed * exponent * speed.ln();
        down += speed * speed * exponent * exponent;
    }
    Some((up / down).exp()).filter(|base| base.is_finite())
}

/// The bases in common use that are within 8 % of `found`, nearest first.
pub(super) fn usual_bases(found: f64) -> Vec<f64> {
    let magnitude = 10f64.powf(found.log10().floor());
    let digits = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0].map(|digit| digit * magnitude);
    let off = |base: &f64| (found / base - 1.0).abs();
    let mut near: Vec<f64> =
        digits.into_iter().chain([256.0, 512.0, 1024.0]).filter(|base| off(base) < 0.08).collect();
    near.sort_by(|x, y| off(x).total_cmp(&off(y)));
    near
}
