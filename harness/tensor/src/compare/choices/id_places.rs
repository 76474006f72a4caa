//! Which places of two rows hold the same id, so that what belongs to the ids can be compared.

use super::ids::ids;
use crate::tensor::{Tensor, TensorView};

/// For each place of a golden row, the place of the actual row with the same id.
///
/// Where a row has other ids than the golden, the places that are left correspond in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPlaces {
    /// Ids per row.
    width: usize,
    places: Vec<usize>,
}

impl IdPlaces {
    /// The places of two tensors of ids with the same shape.
    pub fn of(expected: &TensorView<'_>, actual: &TensorView<'_>) -> Self {
        let width = expected.shape().last().copied().unwrap_or(1).max(1);
        let (expected, actual) = (ids(expected), ids(actual));
        let rows = expected.chunks(width).zip(actual.chunks(width));
        Self { width, places: rows.flat_map(|(expected, actual)| places(expected, actual)).collect() }
    }

    /// Returns `actual`, which belongs to the actual's ids, in the order of the golden's ids. `None` when it has another
    /// number of elements.
    ///
    /// With `or_as_it_is`, a golden for it, rows that are nearer to the golden in their own order stay as they are: after
    /// an injection, nobody knows which ids the port went on with.
    pub fn arrange(&self, actual: &TensorView<'_>, or_as_it_is: Option<&TensorView<'_>>) -> Option<Tensor> {
        if actual.len() != self.places.len() {
            return None;
        }
        let size = actual.dtype().size();
        let mut bytes = vec![0; actual.len() * size];
        actual.gather(0, &mut bytes);
        let golden =
            or_as_it_is.filter(|golden| golden.len() == actual.len()).map(crate::tensor::Float64View::new);
        let own = crate::tensor::Float64View::new(actual);
        let mut out = Vec::with_capacity(bytes.len());
        for (row, places) in self.places.chunks(self.width).enumerate() {
            let start = row * self.width;
            let is_nearer = golden.as_ref().is_some_and(|golden| {
                let off = |place: usize, at: usize| (own.at(start + place) - golden.at(start + at)).abs();
                let as_it_is: f64 = (0..places.len()).map(|at| off(at, at)).sum();
                let arranged: f64 = places.iter().enumerate().map(|(at, &place)| off(place, at)).sum();
                as_it_is < arranged
            });
            for (at, &place) in places.iter().enumerate() {
                let from = (start + if is_nearer { at } else { place }) * size;
                out.extend_from_slice(&bytes[from..from + size]);
            }
        }
        // Tensors are little-endian, and `gather` gives the machine's own order.
        if cfg!(target_endian = "big") {
            out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Tensor::from_vec(actual.dtype(), actual.shape().to_vec(), out).ok()
    }
}

fn places(expected: &[i64], actual: &[i64]) -> Vec<usize> {
    let mut free: Vec<usize> = (0..actual.len()).collect();
    let same: Vec<Option<usize>> = expected
        .iter()
        .map(|id| free.iter().position(|&place| actual[place] == *id).map(|at| free.remove(at)))
        .collect();
    let mut left = free.into_iter();
    same.into_iter().map(|place| place.or_else(|| left.next()).unwrap_or(0)).collect()
}
