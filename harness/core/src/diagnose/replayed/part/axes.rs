//! Which indices of an operand a part of a result needs.

use crate::recipe::{Complex, Form, Lookup, Normalizer, Op, Product};

/// What is needed of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// All of it.
    Whole,
    /// The same indices along this axis.
    Along(usize),
}

/// What a range of indices of the result along `axis` needs of operand `at`. `None` if the operation mixes the indices.
pub(super) fn needed(
    op: &Op,
    at: usize,
    axis: usize,
    result: &[usize],
    operands: &[Option<&[usize]>],
) -> Option<Needed> {
    use Needed::{Along, Whole};
    let shape = operands.get(at).copied().flatten()?;
    let same_unless = |mixed: bool| if mixed { None } else { Some(Along(axis)) };
    let last = result.len().checked_sub(1)?;
    match op {
        Op::Unary(_) | Op::Cast { .. } => Some(Along(axis)),
        Op::Cumsum { axis: mixed } | Op::Topk { axis: mixed, .. } | Op::Sort { axis: mixed, .. } => {
            same_unless(axis == *mixed)
        }
        Op::Binary(_)
        | Op::Where
        | Op::Complex(Complex::Complex | Complex::Polar)
        | Op::Form(Form::Expand { .. }) => broadcast(axis, result, shape),
        Op::Reduce { axes, keep: true, .. } => same_unless(axes.contains(&axis)),
        Op::Reduce { axes, keep: false, .. } => {
            (0..shape.len()).filter(|axis| !axes.contains(axis)).nth(axis).map(Along)
        }
        Op::Normalize(normalizer) => match (normalizer, at) {
            (
                Normalizer::Softmax { axis: mixed }
                | Normalizer::LogSoftmax { axis: mixed }
                | Normalizer::L2Normalize { axis: mixed, .. },
                _,
            ) => same_unless(axis == *mixed),
            (Normalizer::LayerNorm { rank, .. } | Normalizer::RmsNorm { rank, .. }, at) => {
                let is_outer = axis + rank <= last;
                if at == 0 { same_unless(!is_outer) } else { is_outer.then_some(Whole) }
            }
            (Normalizer::GroupNorm { .. } | Normalizer::BatchNorm { .. }, 0) => same_unless(axis != 0),
            (Normalizer::GroupNorm { .. } | Normalizer::BatchNorm { .. }, _) => (axis == 0).then_some(Whole),
        },
        Op::Product(product) => of_product(product, at, axis, result, shape),
        Op::Lookup(Lookup::Embedding) => match (at, axis == last) {
            (0, true) => Some(Along(1)),
            (1, false) => Some(Along(axis)),
            _ => Some(Whole),
        },
        Op::Lookup(Lookup::OneHot { .. }) => same_unless(axis == last),
        Op::Lookup(Lookup::Gather { axis: mixed }) => same_unless(axis == *mixed),
        Op::Form(form) => of_form(form, axis, result, shape),
        Op::Complex(Complex::ViewAsReal) => same_unless(axis == last),
        Op::Complex(_) => Some(Along(axis)),
        Op::Leaf(_)
        | Op::Unknown { .. }
        | Op::Pool { .. }
        | Op::Lookup(Lookup::Take { .. })
        | Op::Dequantize { .. } => None,
    }
}

fn of_product(
    product: &Product,
    at: usize,
    axis: usize,
    result: &[usize],
    shape: &[usize],
) -> Option<Needed> {
    use Needed::{Along, Whole};
    let last = result.len() - 1;
    let second = last.checked_sub(1)?;
    match product {
        Product::Linear => Some(match (at, axis == last) {
            (0, false) => Along(axis),
            (1 | 2, true) => Along(0),
            _ => Whole,
        }),
        Product::Matmul => match (at, axis) {
            (0, axis) if axis == second => Some(Along(shape.len().checked_sub(2)?)),
            (1, axis) if axis == last => Some(Along(shape.len().checked_sub(1)?)),
            (_, axis) if axis >= second => Some(Whole),
            // An outer axis broadcasts, unlike the two inner ones.
            _ => broadcast_outer(axis, result, shape),
        },
        Product::Attention { causal, groups, .. } => match (at, axis) {
            // Queries and keys have different numbers of heads.
            (_, axis) if axis + 1 == second && *groups != 1 => None,
            // A causal mask depends on the position of the query in the whole tensor.
            (_, axis) if axis == second && *causal => None,
            (0, axis) if axis == second => Some(Along(shape.len().checked_sub(2)?)),
            (3, axis) if axis == second => broadcast(axis, result, &[shape.split_last()?.1, &[1]].concat()),
            (2, axis) if axis == last => Some(Along(shape.len().checked_sub(1)?)),
            (_, axis) if axis >= second => Some(Whole),
            _ => broadcast_outer(axis, result, shape),
        },
        Product::Conv { groups, .. } => match (at, axis) {
            (0, 0) => Some(Along(0)),
            (_, 0) => Some(Whole),
            (0, 1) if *groups == 1 => Some(Whole),
            (1 | 2, 1) if *groups == 1 => Some(Along(0)),
            _ => None,
        },
        Product::Einsum { .. } | Product::ConvTranspose { .. } => None,
    }
}

fn of_form(form: &Form, axis: usize, result: &[usize], shape: &[usize]) -> Option<Needed> {
    use Needed::Along;
    let same_unless = |mixed: bool| if mixed { None } else { Some(Along(axis)) };
    let from_end = result.len() - axis;
    match form {
        Form::Reshape { .. } => {
            // An axis survives if its length and the number of elements before it stay the same.
            let before: usize = result[..axis].iter().product();
            let mut product = 1usize;
            for (other, &length) in shape.iter().enumerate() {
                if product == before && length == result[axis] {
                    return Some(Along(other));
                }
                product = product.checked_mul(length)?;
            }
            None
        }
        Form::Permute { axes } => axes.get(axis).copied().map(Along),
        Form::Slice(slice) => same_unless(slice.axis == axis),
        Form::Cat { axis: joined } => same_unless(*joined == axis),
        Form::Stack { axis: new } if axis == *new => None,
        Form::Stack { axis: new } => Some(Along(if axis > *new { axis - 1 } else { axis })),
        Form::Pad { pads, .. } => same_unless(pads.get(axis) != Some(&[0, 0])),
        Form::Roll { axes, .. } | Form::Flip { axes } => same_unless(axes.contains(&axis)),
        Form::RepeatInterleave { axis: repeated, .. } => same_unless(*repeated == axis),
        Form::Tril { .. } | Form::Triu { .. } => same_unless(from_end <= 2),
        Form::PutSlices { slices } => same_unless(slices.iter().any(|slice| slice.axis == axis)),
        Form::Upsample { size, .. } => same_unless(from_end <= size.len()),
        Form::Expand { .. } | Form::Tile { .. } | Form::PixelShuffle { .. } | Form::PixelUnshuffle { .. } => {
            None
        }
    }
}

/// The axis of a broadcast operand that is `axis` of the result.
fn broadcast(axis: usize, result: &[usize], shape: &[usize]) -> Option<Needed> {
    let offset = result.len().checked_sub(shape.len())?;
    Some(match axis.checked_sub(offset) {
        Some(own) if shape[own] == result[axis] => Needed::Along(own),
        _ => Needed::Whole,
    })
}

/// As [`broadcast`], for all but the last two axes.
fn broadcast_outer(axis: usize, result: &[usize], shape: &[usize]) -> Option<Needed> {
    broadcast(axis, result.get(..result.len().checked_sub(2)?)?, shape.get(..shape.len().checked_sub(2)?)?)
}
