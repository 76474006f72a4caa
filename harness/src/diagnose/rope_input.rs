//! What may have been rotated.

use super::Looked;
use super::scene::Other;
use crate::tensor::Tensor;

/// So many tensors before are tried as the input.
const INPUTS: usize = 6;
/// Larger tensors are not put together.
const MOST_JOINED: usize = 1 << 22;

/// The tensors that may have been rotated: those before with as many elements, then two of them put together, as the
/// streams of text and image are.
pub(super) fn inputs<'l>(looked: &'l Looked) -> impl Iterator<Item = (String, Tensor)> + 'l {
    let others = looked.scene.others;
    let shape = looked.scene.expected.shape();
    let len = looked.scene.expected.len();
    let single = others.before().iter().filter(move |other| other.len() == len).take(INPUTS);
    let single = single.filter_map(move |other| Some((other.name.clone(), looked.tensor(other)?)));
    let near: Vec<&Other> =
        others.before().iter().filter(|other| other.shape.len() == shape.len()).take(INPUTS * 2).collect();
    let pairs: Vec<(&Other, &Other)> = near
        .iter()
        .flat_map(|&one| near.iter().map(move |&two| (one, two)))
        .filter(|(one, two)| one.name != two.name)
        .collect();
    let fit = move |(one, two): &(&Other, &Other)| {
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
        let tensor = concatenated(&looked.tensor(one)?, &looked.tensor(two)?, axis)?;
        Some((format!("{}` and `{}", one.name, two.name), tensor))
    });
    single.chain(joined)
}

/// Two tensors put together along an axis.
fn concatenated(one: &Tensor, two: &Tensor, axis: usize) -> Option<Tensor> {
    let (a, b) = (one.view(), two.view());
    let (a, b) = (a.row_major_bytes()?, b.row_major_bytes()?);
    let run = |tensor: &Tensor| tensor.shape()[axis..].iter().product::<usize>() * tensor.dtype().size();
    let bytes = a.chunks(run(one)).zip(b.chunks(run(two))).flat_map(|(a, b)| [a, b].concat()).collect();
    let mut shape = one.shape().to_vec();
    shape[axis] += two.shape()[axis];
    Tensor::from_vec(one.dtype(), shape, bytes).ok()
}
