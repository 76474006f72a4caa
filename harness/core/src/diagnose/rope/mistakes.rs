//! Mistakes in a rotation: wrong pairs, opposite angles, two rotations, wrong positions.

use num_complex::Complex64;

use super::super::{CauseKind, Explanation};
use super::rotation::{Pairing, Rotation, unit};
use crate::number::Short;

pub(super) fn wrong_pairs(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let other = pairing.other();
    let width = rotation.width;
    let text = |more: &str| {
        format!("`{name}` rotated as {}, where the golden rotates {}{more}", other.name(), pairing.name())
    };
    let same_angles = rotation.pair.explained_where(0, |index| {
        rotation.predicted(index, other, |row, f| Some(rotation.turn(row, pairing, f)))
    });
    if let Some(residual) = same_angles {
        return Some(Explanation::new(CauseKind::RopePairs, 1, residual, text("")));
    }
    // Pairs of one kind with the table of the other: cosine and sine are taken from the feature's own column.
    for (by, table, more) in [
        (other, pairing, ""),
        (pairing, other, "; the pairs are right, and only the order of the angles is wrong"),
    ] {
        let residual = rotation.pair.explained(0, |index| {
            let position = rotation.pair.positions[index];
            let (row, feature) = (position / width, position % width);
            let (f, second) = by.pair(feature, width);
            let Complex64 { re: one, im: two } = rotation.input(row, by, f);
            let Complex64 { re: cos, im: sin } = rotation.turn(row, pairing, table.pair(feature, width).0);
            if second { two * cos + one * sin } else { one * cos - two * sin }
        });
        if let Some(residual) = residual {
            return Some(Explanation::new(CauseKind::RopePairs, 1, residual, text(more)));
        }
    }
    None
}

pub(super) fn opposite_angles(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let residual = rotation.pair.explained_where(0, |index| {
        rotation.predicted(index, pairing, |row, f| Some(rotation.turn(row, pairing, f).conj()))
    })?;
    let text = format!("`{name}` rotated by the opposite angles");
    Some(Explanation::new(CauseKind::RopeSign, 1, residual, text))
}

pub(super) fn twice(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let residual = rotation.pair.explained_where(0, |index| {
        rotation.predicted(index, pairing, |row, f| {
            let turn = rotation.turn(row, pairing, f);
            Some(turn * turn)
        })
    })?;
    Some(Explanation::new(CauseKind::ExecutedTwice, 1, residual, format!("`{name}` rotated twice")))
}

/// Positions counted along another axis, as where a rotation expects tokens behind heads and gets heads behind tokens.
fn other_axis(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let long: Vec<usize> =
        (0..rotation.row_shape().len()).filter(|&axis| rotation.row_shape()[axis] > 1).collect();
    let pairs = long.iter().flat_map(|&right| long.iter().map(move |&wrong| (right, wrong)));
    pairs.filter(|(right, wrong)| right != wrong).find_map(|(right, wrong)| {
        let residual = rotation.pair.explained_where(0, |index| {
            rotation.predicted(index, pairing, |row, f| {
                // With fewer tokens than heads, no row of the golden has the position of the last heads.
                let row = rotation.moved(row, right, rotation.index(row, wrong))?;
                Some(rotation.turn(row, pairing, f))
            })
        })?;
        let text = format!(
            "`{name}` rotated with positions along axis {wrong}, where the golden's positions run along axis {right}"
        );
        Some(Explanation::new(CauseKind::RopePosition, 1, residual, text))
    })
}

pub(super) fn wrong_position(rotation: &Rotation, pairing: Pairing, name: &str) -> Option<Explanation> {
    let axes = rotation.pair.shape().len() - 1;
    let steps = [1, -1, 2, -2].into_iter().flat_map(|step| (0..axes).map(move |axis| (step, axis)));
    let shifted = steps.into_iter().find_map(|(step, axis)| {
        let residual = rotation.pair.explained_where(0, |index| {
            rotation.predicted(index, pairing, |row, f| {
                Some(rotation.turn(rotation.along(row, axis, step)?, pairing, f))
            })
        })?;
        let text = format!("`{name}` rotated as if positions along axis {axis} were shifted by {step:+}");
        Some(Explanation::new(CauseKind::RopePosition, 1, residual, text))
    });
    shifted.or_else(|| other_axis(rotation, pairing, name)).or_else(|| {
        // An additional rotation per pair, the same at every position.
        let half = rotation.width / 2;
        let mut sums = vec![Complex64::ZERO; half];
        for (row, f) in rotation.some_pairs() {
            let golden = rotation.input(row, pairing, f) * rotation.turn(row, pairing, f);
            sums[f] += rotation.actual(row, pairing, f) * golden.conj();
        }
        let additional: Vec<Complex64> = sums.into_iter().map(unit).collect();
        let residual = rotation.pair.explained_where(half, |index| {
            rotation.predicted(index, pairing, |row, f| Some(rotation.turn(row, pairing, f) * additional[f]))
        })?;
        let text = format!(
            "`{name}` rotated with all positions off by the same amount: the fastest pair is {} radians ahead",
            Short(additional[0].arg())
        );
        Some(Explanation::new(CauseKind::RopePosition, 2, residual, text))
    })
}
