//! Tables of cosines and sines by another base.
//!
//! Positions are read back from a column that is slow enough not to have come around, and with them the speed of every
//! column, on both sides. Speeds of another base are powers of the golden's.

use super::rope::usual_bases;
use super::{Found, Kind, Looked};
use crate::compare::number::Short;

/// Longer tables are looked at in their first rows.
const MOST_ROWS: usize = 4096;

pub(super) fn look(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    let bounded = |values: &[f64]| values.iter().all(|x| x.abs() <= 1.0 + 1e-5);
    if pair.shape().len() < 2 || pair.bar.eps() > 1e-4 || !bounded(&pair.e) || !bounded(&pair.a) {
        return None;
    }
    [Table::Cosine, Table::Sine].into_iter().find_map(|table| other_base(looked, table))
}

#[derive(Clone, Copy)]
enum Table {
    Cosine,
    Sine,
}

impl Table {
    fn at(self, angle: f64) -> f64 {
        match self {
            Self::Cosine => angle.cos(),
            Self::Sine => angle.sin(),
        }
    }

    fn angle(self, x: f64) -> f64 {
        match self {
            Self::Cosine => x.clamp(-1.0, 1.0).acos(),
            Self::Sine => x.clamp(-1.0, 1.0).asin(),
        }
    }

    /// The angle with that value which is nearest to `near`.
    fn unwrapped(self, x: f64, near: f64) -> f64 {
        let (angle, turn) = (self.angle(x), std::f64::consts::TAU);
        let mirrored = match self {
            Self::Cosine => -angle,
            Self::Sine => std::f64::consts::PI - angle,
        };
        let nearest = |angle: f64| angle + ((near - angle) / turn).round() * turn;
        let (one, two) = (nearest(angle), nearest(mirrored));
        if (one - near).abs() <= (two - near).abs() { one } else { two }
    }

    /// Whether the value tells its angle well.
    fn is_steep(self, x: f64) -> bool {
        match self {
            Self::Cosine => x.abs() < 0.999,
            Self::Sine => x.abs() < 0.9,
        }
    }

    /// The positions of the rows, if a column of the golden is slow enough to tell them: none of its angles has come around,
    /// and all are whole multiples of the smallest.
    fn positions(self, column: &[f64]) -> Option<Vec<f64>> {
        let angles: Vec<f64> = column.iter().map(|&x| self.angle(x)).collect();
        let most = angles.iter().fold(0f64, |most, x| most.max(x.abs()));
        let limit = match self {
            Self::Cosine => 2.6,
            Self::Sine => 1.2,
        };
        let least = angles.iter().map(|x| x.abs()).filter(|x| *x > 0.02).fold(f64::INFINITY, f64::min);
        if most > limit || !least.is_finite() {
            return None;
        }
        let positions: Vec<f64> = angles.iter().map(|x| (x / least).round()).collect();
        let whole =
            angles.iter().zip(&positions).all(|(x, p)| (x - p * least).abs() < 0.02 * least.max(x.abs()));
        (whole && positions.contains(&1.0)).then_some(positions)
    }

    /// How far a column turns from one position to the next, from the positions outwards.
    fn speed(self, column: &[f64], positions: &[f64]) -> Option<f64> {
        let mut order: Vec<usize> = (0..column.len()).filter(|&row| positions[row] > 0.0).collect();
        order.sort_by(|&x, &y| positions[x].total_cmp(&positions[y]));
        let first = *order.first()?;
        let mut speed = self.angle(column[first]) / positions[first];
        for row in order {
            // A slow column is nearly flat, and its last row tells most.
            if self.is_steep(column[row]) || speed * positions[row] < 0.05 {
                speed = self.unwrapped(column[row], speed * positions[row]) / positions[row];
            }
        }
        let fits = column.iter().zip(positions).all(|(x, p)| (self.at(p * speed) - x).abs() < 2e-3);
        fits.then_some(speed)
    }
}

fn other_base(looked: &Looked, table: Table) -> Option<Found> {
    let pair = &looked.pair;
    let width = pair.actual.width();
    let rows = (pair.actual.len() / width).min(MOST_ROWS);
    let column = |field: &super::field::Field, at: usize| {
        (0..rows).map(|row| field.at(row * width + at)).collect::<Vec<f64>>()
    };
    let golden: Vec<Vec<f64>> = (0..width).map(|at| column(&pair.expected, at)).collect();
    let mut guides: Vec<Vec<f64>> = golden.iter().filter_map(|column| table.positions(column)).collect();
    guides.dedup();
    // For each column: its positions, its speed and that of the actual.
    let mut columns = Vec::with_capacity(width);
    for (at, values) in golden.iter().enumerate() {
        let still = values.iter().all(|x| (x - table.at(0.0)).abs() < 1e-6);
        let actual = column(&pair.actual, at);
        let told = guides.iter().find_map(|positions| {
            let right = table.speed(values, positions)?;
            Some((positions, right, table.speed(&actual, positions)?))
        });
        match told {
            Some(told) => columns.push(Some(told)),
            None if still => columns.push(None),
            None => return None,
        }
    }
    let ratio = |(_, right, wrong): &(&Vec<f64>, f64, f64)| f64::ln(*wrong) / f64::ln(*right);
    let mut ratios: Vec<f64> = columns
        .iter()
        .flatten()
        .filter(|(_, right, wrong)| *right < 0.9 && *right > 0.01 && *wrong > 0.0)
        .map(ratio)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = *ratios.get(ratios.len() / 2)?;
    if (ratio - 1.0).abs() < 1e-3 || ratios.iter().any(|other| (other - ratio).abs() > 0.05 * ratio) {
        return None;
    }
    let residual = pair.explained(1, |index| {
        let (row, at) = (pair.positions[index] / width, pair.positions[index] % width);
        match (&columns[at], row < rows) {
            (Some((positions, _, wrong)), true) => table.at(positions[row] * wrong),
            _ => pair.e[index],
        }
    })?;
    let base = 10_000f64.powf(ratio);
    let base = usual_bases(base).first().copied().unwrap_or(base);
    let text = format!(
        "angles of another base: {} if the golden's is 10000 (logarithms of speeds are {} times the golden's)",
        Short(base),
        Short(ratio)
    );
    Some(Found::new(Kind::RopeBase, 1, residual, text))
}
