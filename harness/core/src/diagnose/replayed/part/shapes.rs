//! Shapes of nodes, without computing their values.

use crate::recipe::{Complex, Form, Leaf, Lookup, Normalizer, Op, Product};

/// The shape of an operation's result; `None` for operations that are not replayed in parts.
///
/// The operands should fit each other, because the reference computed the same operation. If they do not, as in an edited
/// recipe, the shape is wrong, and the replay of the part fails.
pub(super) fn result(op: &Op, operands: &[Option<&[usize]>]) -> Option<Vec<usize>> {
    let operand = |at: usize| operands.get(at).copied().flatten();
    let first = || operand(0).map(<[usize]>::to_vec);
    Some(match op {
        Op::Leaf(Leaf::Full { shape, .. } | Leaf::Table { shape, .. }) => shape.clone(),
        Op::Leaf(Leaf::Arange { start, end, step }) => {
            let count = ((end - start) / step).ceil();
            // Also false for NaN.
            if !(0.0..1e9).contains(&count) {
                return None;
            }
            vec![count as usize]
        }
        Op::Unary(_) | Op::Cast { .. } | Op::Cumsum { .. } | Op::Sort { .. } => first()?,
        Op::Topk { k, axis, .. } => with(first()?, *axis, *k)?,
        Op::Binary(_) | Op::Where | Op::Complex(Complex::Complex | Complex::Polar) => {
            broadcast(operands.iter().flatten().copied())
        }
        Op::Reduce { axes, keep, .. } => {
            let shape = first()?.into_iter().enumerate();
            let reduced = |axis: &usize| axes.contains(axis);
            match keep {
                true => shape.map(|(axis, length)| if reduced(&axis) { 1 } else { length }).collect(),
                false => shape.filter(|(axis, _)| !reduced(axis)).map(|(_, length)| length).collect(),
            }
        }
        Op::Normalize(
            Normalizer::Softmax { .. }
            | Normalizer::LogSoftmax { .. }
            | Normalizer::LayerNorm { .. }
            | Normalizer::RmsNorm { .. }
            | Normalizer::GroupNorm { .. }
            | Normalizer::BatchNorm { .. }
            | Normalizer::L2Normalize { .. },
        ) => first()?,
        Op::Product(product) => of_product(product, operand)?,
        Op::Lookup(Lookup::Embedding) => [operand(1)?, operand(0)?.get(1..)?].concat(),
        Op::Lookup(Lookup::OneHot { classes }) => [operand(0)?, &[*classes]].concat(),
        Op::Lookup(Lookup::Gather { .. }) => operand(1)?.to_vec(),
        Op::Form(form) => of_form(form, operands)?,
        Op::Complex(Complex::ViewAsComplex) => first()?.split_last()?.1.to_vec(),
        Op::Complex(Complex::ViewAsReal) => [operand(0)?, &[2]].concat(),
        Op::Complex(Complex::Real | Complex::Imag | Complex::Conj) => first()?,
        Op::Leaf(_)
        | Op::Unknown { .. }
        | Op::Pool { .. }
        | Op::Lookup(Lookup::Take { .. })
        | Op::Dequantize { .. } => {
            return None;
        }
    })
}

fn of_product<'s>(product: &Product, operand: impl Fn(usize) -> Option<&'s [usize]>) -> Option<Vec<usize>> {
    let (x, y) = (operand(0)?, operand(1)?);
    match product {
        Product::Linear => with(x.to_vec(), x.len().checked_sub(1)?, *y.first()?),
        Product::Matmul => {
            let ([x_outer @ .., rows, _], [y_outer @ .., _, columns]) = (x, y) else { return None };
            Some([&broadcast([x_outer, y_outer].into_iter())[..], &[*rows, *columns]].concat())
        }
        Product::Attention { .. } => with(x.to_vec(), x.len().checked_sub(1)?, *operand(2)?.last()?),
        Product::Conv { stride, padding, dilation, .. } => {
            let ([batch, _, space @ ..], [channels, _, kernel @ ..]) = (x, y) else { return None };
            let mut shape = vec![*batch, *channels];
            for (axis, (&length, &kernel)) in space.iter().zip(kernel).enumerate() {
                let [before, after] = *padding.get(axis)?;
                let window = dilation.get(axis)?.checked_mul(kernel.checked_sub(1)?)?;
                let room =
                    length.checked_add(before)?.checked_add(after)?.checked_sub(window)?.checked_sub(1)?;
                shape.push(room.checked_div(*stride.get(axis)?)? + 1);
            }
            Some(shape)
        }
        Product::Einsum { .. } | Product::ConvTranspose { .. } => None,
    }
}

fn of_form(form: &Form, operands: &[Option<&[usize]>]) -> Option<Vec<usize>> {
    let x = operands.first().copied().flatten()?;
    match form {
        Form::Reshape { shape } | Form::Expand { shape } => Some(shape.clone()),
        Form::Permute { axes } => axes.iter().map(|&axis| x.get(axis).copied()).collect(),
        Form::Slice(slice) => {
            let length = slice.end.min(*x.get(slice.axis)?).saturating_sub(slice.start);
            with(x.to_vec(), slice.axis, length.div_ceil(slice.step.max(1)))
        }
        Form::Cat { axis } => {
            let lengths = operands.iter().map(|operand| operand.as_ref()?.get(*axis).copied());
            let length = lengths.sum::<Option<usize>>()?;
            with(x.to_vec(), *axis, length)
        }
        Form::Stack { axis } if *axis <= x.len() => {
            let mut shape = x.to_vec();
            shape.insert(*axis, operands.len());
            Some(shape)
        }
        Form::Pad { pads, .. } => x
            .iter()
            .zip(pads)
            .map(|(length, [before, after])| length.checked_add(*before)?.checked_add(*after))
            .collect(),
        Form::RepeatInterleave { repeats, axis } => {
            with(x.to_vec(), *axis, x.get(*axis)?.checked_mul(*repeats)?)
        }
        Form::Roll { .. }
        | Form::Flip { .. }
        | Form::Tril { .. }
        | Form::Triu { .. }
        | Form::PutSlices { .. } => Some(x.to_vec()),
        Form::Upsample { size, .. } => {
            let kept = x.len().checked_sub(size.len())?;
            Some([&x[..kept], size].concat())
        }
        Form::Stack { .. } | Form::Tile { .. } | Form::PixelShuffle { .. } | Form::PixelUnshuffle { .. } => {
            None
        }
    }
}

/// The shape with another length of an axis.
fn with(mut shape: Vec<usize>, axis: usize, length: usize) -> Option<Vec<usize>> {
    *shape.get_mut(axis)? = length;
    Some(shape)
}

/// The common shape of broadcast operands.
fn broadcast<'s>(shapes: impl Iterator<Item = &'s [usize]>) -> Vec<usize> {
    let mut common: Vec<usize> = Vec::new();
    for shape in shapes {
        let longer = shape.len().saturating_sub(common.len());
        common.splice(0..0, std::iter::repeat_n(1, longer));
        let offset = common.len() - shape.len();
        for (length, &other) in common[offset..].iter_mut().zip(shape) {
            if *length == 1 {
                *length = other;
            }
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Binary, Reduction, Slice};

    #[test]
    fn shapes_are_those_of_the_values() {
        let check = |op: Op, operands: &[&[usize]], expected: &[usize]| {
            let operands: Vec<Option<&[usize]>> = operands.iter().map(|shape| Some(*shape)).collect();
            assert_eq!(result(&op, &operands).as_deref(), Some(expected), "{op:?}");
        };
        check(Op::Binary(Binary::Add), &[&[4, 1, 3], &[2, 1]], &[4, 2, 3]);
        check(Op::Product(Product::Linear), &[&[1, 5, 8], &[6, 8], &[6]], &[1, 5, 6]);
        check(Op::Product(Product::Matmul), &[&[2, 5, 8], &[8, 3]], &[2, 5, 3]);
        let reduce = |keep| Op::Reduce { function: Reduction::Sum, axes: vec![1], keep };
        check(reduce(true), &[&[2, 3, 4]], &[2, 1, 4]);
        check(reduce(false), &[&[2, 3, 4]], &[2, 4]);
        check(Op::Form(Form::Slice(Slice { axis: 1, start: 1, end: 6, step: 2 })), &[&[2, 6]], &[2, 3]);
        check(Op::Form(Form::Cat { axis: 0 }), &[&[2, 3], &[5, 3]], &[7, 3]);
        check(Op::Form(Form::Permute { axes: vec![2, 0, 1] }), &[&[2, 3, 4]], &[4, 2, 3]);
        let conv = Product::Conv {
            stride: vec![2, 1],
            padding: vec![[1, 1], [0, 0]],
            dilation: vec![1, 2],
            groups: 1,
        };
        check(Op::Product(conv), &[&[1, 3, 8, 9], &[16, 3, 3, 3]], &[1, 16, 4, 5]);
        check(Op::Lookup(Lookup::Embedding), &[&[100, 8], &[2, 7]], &[2, 7, 8]);
        check(Op::Leaf(Leaf::Arange { start: 1.0, end: 6.0, step: 2.0 }), &[], &[3]);
        assert_eq!(result(&Op::Leaf(Leaf::Arange { start: 0.0, end: 1.0, step: 0.0 }), &[]), None);
    }
}
