//! The tensors that a rotation may have started from.

use super::super::{KnownTensor, Search};
use crate::tensor::Tensor;

/// At most this many earlier tensors are tried as the input.
const INPUTS: usize = 6;
/// Larger tensors are not joined.
const MOST_JOINED: usize = 1 << 22;

/// Returns the tensors that may have been rotated, with their names: earlier ones with as many elements, then two of them
/// joined, as the streams of text and image are.
pub(super) fn inputs<'l>(search: &'l Search) -> impl Iterator<Item = (String, Tensor)> + 'l {
    let known = search.checkpoint.known;
    let shape = search.checkpoint.expected.shape();
    let len = search.checkpoint.expected.len();
    let single = known.before().iter().filter(move |tensor| tensor.len() == len).take(INPUTS);
    let single = single.filter_map(move |tensor| Some((tensor.name.clone(), search.tensor(tensor)?)));
    let near: Vec<&KnownTensor> =
        known.before().iter().filter(|tensor| tensor.shape.len() == shape.len()).take(INPUTS * 2).collect();
    let pairs: Vec<(&KnownTensor, &KnownTensor)> = near
        .iter()
        .flat_map(|&one| near.iter().map(move |&two| (one, two)))
        .filter(|(one, two)| one.name != two.name)
        .collect();
    let fit = move |(one, two): &(&KnownTensor, &KnownTensor)| {
        one.len() + two.len() == len
            && one.len() * two.len() > 0
            && one.dtype == two.dtype
            && len <= MOST_JOINED
    };
    let joined = pairs.into_iter().filter(fit);
    let joined = joined.filter_map(move |(one, two)| {
        let same_but = |axis: usize| (0..shape.len()).all(|at| at == axis || one.shape[at] == two.shape[at]);
        let axis = (0..shape.len())
            .find(|&axis| same_but(axis) && one.shape[axis] + two.shape[axis] == shape[axis])?;
        let tensor = concatenated(&search.tensor(one)?, &search.tensor(two)?, axis)?;
        Some((format!("{}` and `{}", one.name, two.name), tensor))
    });
    single.chain(joined)
}

/// Two tensors joined along an axis.
fn concatenated(one: &Tensor, two: &Tensor, axis: usize) -> Option<Tensor> {
    let (a, b) = (one.view(), two.view());
    let (a, b) = (a.row_major_bytes()?, b.row_major_bytes()?);
    let run = |tensor: &Tensor| tensor.shape()[axis..].iter().product::<usize>() * tensor.dtype().size();
    let bytes = a.chunks(run(one)).zip(b.chunks(run(two))).flat_map(|(a, b)| [a, b].concat()).collect();
    let mut shape = one.shape().to_vec();
    shape[axis] += two.shape()[axis];
    Tensor::from_vec(one.dtype(), shape, bytes).ok()
}
