//! The scores that a reference chose from, and what counts as a tie.

use super::distribution::TopRows;
use crate::gate::Floor;
use crate::tensor::{Dtype, Float64View, TensorView};

/// Fill values, such as those of a mask, tell nothing about the size of the scores.
const FILL: f64 = 1e30;

/// The reference's scores: one row per choice, and along the last axis one score per id.
#[derive(Debug, Clone)]
pub struct Scores<'a> {
    held: Held<'a>,
    unit: f64,
    /// For each row that is judged, its row here; `None` when these are the same.
    selected: Option<Vec<usize>>,
}

#[derive(Debug, Clone)]
enum Held<'a> {
    All(Float64View<'a>),
    Top(TopRows<'a>),
}

impl<'a> Scores<'a> {
    /// The scores of all ids. `dtype` is that of the port's scores, which rounds.
    pub fn all(view: &TensorView<'a>, floor: Floor, dtype: Dtype) -> Self {
        let view = Float64View::new(view);
        let largest = (0..view.len()).map(|at| view.at(at).abs()).filter(|x| *x < FILL).fold(0.0, f64::max);
        Self { unit: unit(floor, dtype, largest), held: Held::All(view), selected: None }
    }

    /// The log-probabilities of the most probable ids.
    pub fn top(rows: TopRows<'a>, floor: Floor, dtype: Dtype) -> Self {
        let largest = rows.largest();
        Self { unit: unit(floor, dtype, largest), held: Held::Top(rows), selected: None }
    }

    /// Only some of the rows, in this order.
    pub fn select(self, rows: Vec<usize>) -> Self {
        Self { selected: Some(rows), ..self }
    }

    /// The reference's own error in one score: the floor of the scores, and at least `eps * absmax(scores)` with the `eps`
    /// of the port's dtype.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Why these scores cannot belong to choices with these axes; `None` when they can.
    pub(super) fn misfit(&self, axes: &[usize]) -> Option<String> {
        let long = |axes: &[usize]| axes.iter().copied().filter(|length| *length != 1).collect::<Vec<_>>();
        if let Some(rows) = &self.selected {
            let count = self.count();
            return (rows.len() != axes.iter().product::<usize>() || rows.iter().any(|row| *row >= count))
                .then(|| format!("the scores have {count} rows, which do not correspond to {axes:?}"));
        }
        let own = self.axes();
        (long(own) != long(axes))
            .then(|| format!("the scores have a row for each of {own:?}, but the choices have {axes:?}"))
    }

    fn axes(&self) -> &[usize] {
        match &self.held {
            Held::All(view) => view.shape().split_last().map_or(&[], |(_, axes)| axes),
            Held::Top(rows) => rows.axes(),
        }
    }

    fn count(&self) -> usize {
        self.axes().iter().product()
    }

    fn row(&self, row: usize) -> usize {
        self.selected.as_ref().map_or(row, |rows| rows[row])
    }

    /// The score of an id. `None` when there is no such id, and negative infinity when it is not among those kept.
    pub(super) fn of(&self, row: usize, id: i64) -> Option<f64> {
        let (row, id) = (self.row(row), usize::try_from(id).ok()?);
        match &self.held {
            Held::All(view) => (id < view.width()).then(|| view.at(row * view.width() + id)),
            Held::Top(rows) => {
                (id < rows.vocabulary(row)).then(|| rows.of(row, id).unwrap_or(f64::NEG_INFINITY))
            }
        }
    }

    /// The highest scores of a row, highest first, at most `count`.
    pub(super) fn highest(&self, row: usize, count: usize) -> Vec<f64> {
        let row = self.row(row);
        match &self.held {
            Held::All(view) => {
                let (width, mut found) = (view.width(), Vec::with_capacity(count + 1));
                let row = (0..width).map(|id| view.at(row * width + id));
                for score in row.filter(|score| !score.is_nan()) {
                    if found.len() < count || found.last().is_some_and(|least| score > *least) {
                        let at = found.partition_point(|other| *other >= score);
                        found.insert(at, score);
                        found.truncate(count);
                    }
                }
                found
            }
            Held::Top(rows) => (0..count.min(rows.kept())).map(|at| rows.entry(row, at).0).collect(),
        }
    }
}

fn unit(floor: Floor, dtype: Dtype, largest: f64) -> f64 {
    floor.max.max(dtype.epsilon().unwrap_or(0.0) * largest)
}
