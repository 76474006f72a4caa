//! Scaled dot-product attention.

use super::array::{Array, elements};
use super::binary::maximum;
use super::error::ReplayError;
use super::matrix::{Matrix, product};
use super::walk::{Walk, broadcast, broadcast_strides};
use super::work::Work;
use crate::recipe::Mask;

/// The attributes of attention.
pub(super) struct Attention {
    pub(super) scale: f64,
    pub(super) causal: bool,
    pub(super) groups: usize,
    pub(super) mask: Option<Mask>,
}

/// Attention of queries (…, heads, tokens, dim) to keys and values, as torch's fused kernels compute it.
///
/// Each head of keys and values serves `groups` consecutive heads of queries. The result is 0 for a query that may attend to
/// no key.
pub(super) fn attention(
    [q, k, v]: [&Array; 3],
    mask: Option<&Array>,
    Attention { scale, causal, groups, mask: kind }: Attention,
    work: &Work,
) -> Result<Array, ReplayError> {
    let bad = || {
        let shapes = [q, k, v].map(Array::shape);
        ReplayError::operands(format!("shapes {shapes:?} with {groups} queries per key have no attention"))
    };
    for operand in [q, k, v].into_iter().chain(mask) {
        operand.check_real()?;
    }
    let ([q_outer @ .., queries, dim], [k_outer @ .., keys, k_dim]) = (q.shape(), k.shape()) else {
        return Err(bad());
    };
    let [v_outer @ .., v_keys, v_dim] = v.shape() else { return Err(bad()) };
    if dim != k_dim || keys != v_keys || groups == 0 {
        return Err(bad());
    }
    // A new axis repeats each head of keys for its group of queries. The stride of the keys along it is 0.
    let outer_of_q =
        if groups == 1 { q_outer.to_vec() } else { split_heads(q_outer, groups).ok_or_else(bad)? };
    let grouped = |outer: &[usize]| match (groups, outer) {
        (1, _) | (_, []) => outer.to_vec(),
        _ => [outer, &[1]].concat(),
    };
    let (outer_of_k, outer_of_v) = (grouped(k_outer), grouped(v_outer));
    let outer = broadcast(&[&outer_of_q, &outer_of_k, &outer_of_v]).map_err(|_| bad())?;
    let mut shape = outer.clone();
    if groups > 1 {
        // The two axes of the heads become one again.
        let group = shape.pop().unwrap_or(1);
        let heads = shape.pop().unwrap_or(1);
        shape.push(elements(&[heads, group])?);
    }
    let full_mask = [&shape[..], &[*queries, *keys]].concat();
    shape.extend([*queries, *v_dim]);
    let (length, batches) = (elements(&shape)?, elements(&outer)?);
    let scores_length = elements(&[*queries, *keys])?;
    work.products(&[batches, scores_length, elements(&[dim + v_dim])?])?;
    work.functions(elements(&[batches, scores_length])?.max(length))?;
    let mut out = work.filled(length, 0.0)?;
    let mask = match (mask, kind) {
        (None, None) => None,
        (Some(mask), Some(kind)) => {
            if broadcast(&[mask.shape(), &full_mask]).ok().as_ref() != Some(&full_mask) {
                return Err(ReplayError::operands(format!(
                    "a mask of shape {:?} does not fit scores of shape {full_mask:?}",
                    mask.shape()
                )));
            }
            let strides = broadcast_strides(mask.shape(), &full_mask);
            Some((mask.values(), strides, kind))
        }
        _ => return Err(ReplayError::operands("the mask and the attribute `mask` contradict each other")),
    };
    if length == 0 || *keys == 0 {
        return Ok(Array::real(shape, out));
    }
    let mut scores = work.filled(scores_length, 0.0)?;
    let sizes = [queries * dim, keys * dim, keys * v_dim];
    let strides =
        [(&outer_of_q, sizes[0]), (&outer_of_k, sizes[1]), (&outer_of_v, sizes[2])].map(|(own, size)| {
            broadcast_strides(own, &outer).into_iter().map(|stride| stride * size).collect::<Vec<_>>()
        });
    let walk = Walk::new(&outer, strides.each_ref().map(Vec::as_slice));
    let mut results = out.chunks_exact_mut(queries * v_dim).enumerate();
    walk.rows(|at| {
        for i in 0..walk.length {
            let Some((batch, out)) = results.next() else { return };
            let at = [0, 1, 2].map(|operand| at[operand] + i * walk.steps[operand]);
            let queries_of = Matrix::rows(&q.values()[at[0]..], *dim);
            let keys_of = Matrix::transposed(&k.values()[at[1]..], *dim);
            product([*queries, *dim, *keys], queries_of, keys_of, &mut scores);
            for (query, row) in scores.chunks_exact_mut(*keys).enumerate() {
                row.iter_mut().for_each(|score| *score *= scale);
                if let Some((mask, strides, kind)) = &mask {
                    apply_mask(row, mask, strides, &full_mask, batch * queries + query, *kind);
                }
                if causal {
                    row[(query + 1).min(*keys)..].fill(f64::NEG_INFINITY);
                }
                softmax(row);
            }
            let values_of = Matrix::rows(&v.values()[at[2]..], *v_dim);
            product([*queries, *keys, *v_dim], Matrix::rows(&scores, *keys), values_of, out);
        }
    });
    Ok(Array::real(shape, out))
}

/// The outer axes of the queries with their heads split into groups.
fn split_heads(outer: &[usize], groups: usize) -> Option<Vec<usize>> {
    let (heads, rest) = outer.split_last()?;
    (heads % groups == 0).then(|| [rest, &[heads / groups, groups]].concat())
}

/// Applies a row of the mask, given by its position among all rows.
fn apply_mask(
    row: &mut [f64],
    mask: &[f64],
    strides: &[usize],
    shape: &[usize],
    position: usize,
    kind: Mask,
) {
    let (Some((&step, strides)), Some((_, lengths))) = (strides.split_last(), shape.split_last()) else {
        return;
    };
    let (mut at, mut rest) = (0, position);
    for (&length, &stride) in lengths.iter().zip(strides).rev() {
        at += rest % length * stride;
        rest /= length;
    }
    for (i, score) in row.iter_mut().enumerate() {
        let mask = mask[at + i * step];
        match kind {
            Mask::Add => *score += mask,
            Mask::Bool if mask == 0.0 => *score = f64::NEG_INFINITY,
            Mask::Bool => {}
        }
    }
}

/// The softmax of a row; zeros if all of it is minus infinity.
fn softmax(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, maximum);
    if largest == f64::NEG_INFINITY {
        return row.fill(0.0);
    }
    let mut total = 0.0;
    for x in row.iter_mut() {
        *x = (*x - largest).exp();
        total += *x;
    }
    row.iter_mut().for_each(|x| *x /= total);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], values: &[f64]) -> Array {
        Array::new(shape.to_vec(), values.to_vec()).unwrap()
    }

    fn attend(
        q: &Array,
        mask: Option<(&Array, Mask)>,
        causal: bool,
        groups: usize,
    ) -> Result<Array, ReplayError> {
        let k = array(&[1, 1, 3, 2], &[1., 0., 1., 1., 0., 2.]);
        let v = array(&[1, 1, 3, 1], &[1., 2., 4.]);
        let attributes = Attention { scale: 0.5, causal, groups, mask: mask.map(|(_, kind)| kind) };
        attention([q, &k, &v], mask.map(|(mask, _)| mask), attributes, &Work::new(1 << 30, 1 << 30))
    }

    #[track_caller]
    fn check(found: Result<Array, ReplayError>, shape: &[usize], expected: &[f64]) {
        let found = found.unwrap();
        assert_eq!(found.shape(), shape);
        for (x, y) in found.values().iter().zip(expected) {
            assert!((x - y).abs() < 1e-13, "{:?}, expected {expected:?}", found.values());
        }
    }

    // Printed by torch.nn.functional.scaled_dot_product_attention in float64.
    #[test]
    fn values_are_those_of_torch() {
        let q = array(&[1, 1, 2, 2], &[1., 0., 0., 1.]);
        let plain = [2.0817413440472468, 2.826637058885461];
        check(attend(&q, None, false, 1), &[1, 1, 2, 1], &plain);
        check(attend(&q, None, true, 1), &[1, 1, 2, 1], &[1.0, 1.622459331201855]);
        let mask = array(&[2, 3], &[1., 0., 1., 0., 0., 0.]);
        let masked = attend(&q, Some((&mask, Mask::Bool)), false, 1);
        check(masked, &[1, 1, 2, 1], &[2.1326220063944366, 0.0]);
        let added = array(&[1, 3], &[0., 1., f64::NEG_INFINITY]);
        let masked = attend(&q, Some((&added, Mask::Add)), false, 1);
        check(masked, &[1, 1, 2, 1], &[1.731058578630005, 1.8175744761936437]);
        // Two heads of one query each share the only head of keys.
        let heads = array(&[1, 2, 1, 2], &[1., 0., 0., 1.]);
        check(attend(&heads, None, false, 2), &[1, 2, 1, 1], &plain);
        let per_head = array(&[2, 1, 3], &[1., 0., 1., 0., 0., 0.]);
        let masked = attend(&heads, Some((&per_head, Mask::Bool)), false, 2);
        check(masked, &[1, 2, 1, 1], &[2.1326220063944366, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let q = array(&[1, 1, 2, 2], &[0.; 4]);
        assert!(attend(&array(&[1, 1, 2, 1], &[0.; 2]), None, false, 1).is_err());
        assert!(attend(&array(&[2], &[0.; 2]), None, false, 1).is_err());
        assert!(attend(&q, None, false, 2).is_err());
        assert!(attend(&q, None, false, 0).is_err());
        assert!(attend(&q, Some((&array(&[2], &[0.; 2]), Mask::Add)), false, 1).is_err());
        assert!(attend(&array(&[1, 3, 2, 2], &[0.; 12]), None, false, 2).is_err());
        check(attend(&array(&[1, 1, 0, 2], &[]), None, false, 1), &[1, 1, 0, 1], &[]);
    }
}
