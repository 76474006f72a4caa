//! Tables of cosines and sines with another base or the opposite angles.
//!
//! A column that is slow enough not to wrap around gives the positions. The positions give the speed of every column, in
//! golden and actual. With another base, the actual's speeds are powers of the golden's.

use super::super::{CauseKind, Explanation, Search};
use super::base::usual_bases;
use crate::number::Short;
use crate::tensor::Dtype;
use crate::tensor::Float64View;

/// Only this many rows of a longer table are read.
const MOST_ROWS: usize = 4096;

pub(super) fn explain(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    let bounded = |values: &[f64]| values.iter().all(|x| x.abs() <= 1.0 + 1e-5);
    if pair.shape().len() < 2 || pair.bound.eps() > 1e-4 || !bounded(&pair.e) || !bounded(&pair.a) {
        return None;
    }
    // In a complex table, every second column has the sines.
    if search.checkpoint.expected.dtype() == Dtype::Complex64 {
        let width = pair.shape()[pair.shape().len() - 2..].iter().product();
        let tables =
            (0..width).map(|column| if column % 2 == 0 { Table::Cosine } else { Table::Sine }).collect();
        return conjugate(search).or_else(|| other_base(search, tables));
    }
    let all = |table| vec![table; pair.actual.width()];
    [Table::Cosine, Table::Sine].into_iter().find_map(|table| other_base(search, all(table)))
}

/// Complex numbers with the opposite angles.
fn conjugate(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    let residual = pair
        .explained(0, |index| if pair.positions[index] % 2 == 1 { -pair.e[index] } else { pair.e[index] })?;
    Some(Explanation::new(CauseKind::RopeSign, 1, residual, "the golden with the opposite angles".to_owned()))
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

    /// Of all angles with this value, the nearest to `near`.
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

    /// Whether the value determines its angle precisely.
    fn is_steep(self, x: f64) -> bool {
        match self {
            Self::Cosine => x.abs() < 0.999,
            Self::Sine => x.abs() < 0.9,
        }
    }

    /// The positions of the rows, if a column of the golden is slow enough to show them: no angle has wrapped around, and all
    /// are whole multiples of the smallest.
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
        (whole && positions.iter().any(|p| p.abs() == 1.0)).then_some(positions)
    }

    /// The angle per position of a column, and the largest error of the column with that angle.
    fn speed(self, column: &[f64], positions: &[f64]) -> Option<(f64, f64)> {
        let mut order: Vec<usize> = (0..column.len()).filter(|&row| positions[row] != 0.0).collect();
        order.sort_by(|&x, &y| positions[x].abs().total_cmp(&positions[y].abs()));
        let first = *order.first()?;
        let mut speed = self.angle(column[first]) / positions[first];
        if matches!(self, Self::Cosine) {
            speed = speed.abs();
        }
        for row in order {
            // A slow column is nearly flat, so that its last rows are the most precise.
            if self.is_steep(column[row]) || (speed * positions[row]).abs() < 0.05 {
                let near = speed * positions[row];
                speed = self.unwrapped(column[row], near) / positions[row];
            }
        }
        let off =
            column.iter().zip(positions).map(|(x, p)| (self.at(p * speed) - x).abs()).fold(0.0, f64::max);
        (off < 2e-3 && speed >= 0.0).then_some((speed, off))
    }
}

fn other_base(search: &Search, tables: Vec<Table>) -> Option<Explanation> {
    let pair = &search.pair;
    let width = tables.len();
    let rows = (pair.actual.len() / width).min(MOST_ROWS);
    let column = |numbers: &Float64View, at: usize| {
        (0..rows).map(|row| numbers.at(row * width + at)).collect::<Vec<f64>>()
    };
    let golden: Vec<Vec<f64>> = (0..width).map(|at| column(&pair.expected, at)).collect();
    let mut guides: Vec<Vec<f64>> =
        golden.iter().zip(&tables).filter_map(|(column, table)| table.positions(column)).collect();
    guides.dedup();
    // With two positions only, any angle fits some base.
    if guides.iter().flatten().all(|position| position.abs() <= 1.0) {
        return None;
    }
    // Per column that turns: its positions, and the speeds of golden and actual.
    let mut columns = Vec::with_capacity(width);
    for (at, values) in golden.iter().enumerate() {
        let table = tables[at];
        let still = values.iter().all(|x| (x - table.at(0.0)).abs() < 1e-6);
        let actual = column(&pair.actual, at);
        // A flat column fits many positions, and those of its own axis best.
        let fits = guides.iter().filter_map(|positions| {
            let ((right, one), (wrong, two)) =
                (table.speed(values, positions)?, table.speed(&actual, positions)?);
            Some((one + two, (positions, right, wrong)))
        });
        let best = fits.min_by(|x, y| x.0.total_cmp(&y.0)).map(|best| best.1);
        match best {
            Some(best) => columns.push(Some(best)),
            None if still => columns.push(None),
            None => return None,
        }
    }
    let clear = |(_, right, wrong): &&(&Vec<f64>, f64, f64)| *right < 0.9 && *right > 0.01 && *wrong > 1e-3;
    let mut ratios: Vec<f64> =
        columns.iter().flatten().filter(clear).map(|(_, right, wrong)| wrong.ln() / right.ln()).collect();
    ratios.sort_by(f64::total_cmp);
    let measured = *ratios.get(ratios.len() / 2)?;
    let alike = ratios.iter().all(|ratio| (ratio - measured).abs() < 5e-3 * measured);
    // With any base, the fastest pair turns by one radian per position; other angles come from other positions.
    let fastest = columns.iter().flatten().filter(|(_, right, _)| (right - 1.0).abs() < 1e-3);
    let from_one = fastest.into_iter().all(|(_, _, wrong)| (wrong - 1.0).abs() < 1e-3);
    if (measured - 1.0).abs() < 1e-3 || ratios.len() < 2 || !alike || !from_one {
        return None;
    }
    // One speed per column was fitted.
    let residual = pair.explained(width, |index| {
        let (row, at) = (pair.positions[index] / width, pair.positions[index] % width);
        match (&columns[at], row < rows) {
            (Some((positions, _, wrong)), true) => tables[at].at(positions[row] * wrong),
            _ => pair.e[index],
        }
    })?;
    let base = 10_000f64.powf(measured);
    let base = usual_bases(base).first().copied().unwrap_or(base);
    let text = format!(
        "angles with another base: {} if the golden's base is 10000 (the logarithms of the speeds are {} times the golden's)",
        Short(base),
        Short(measured)
    );
    Some(Explanation::new(CauseKind::RopeBase, 1, residual, text))
}
