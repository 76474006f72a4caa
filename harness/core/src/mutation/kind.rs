//! The changes that `mutate` makes to the tensor of a tap. Each keeps dtype and shape, since every checkpoint notices
//! another shape.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::tensor::{Dtype, Tensor};

/// A change of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationKind {
    /// The last two axes longer than one are exchanged and the result keeps the old shape, like a reshape in place of a
    /// transpose.
    Transposed,
    /// Every element is multiplied by 1.01.
    Scaled,
    /// The mean of each channel (index of the last axis) is subtracted, like a bias that is not added.
    Unbiased,
    /// The elements are moved by one along the longest axis.
    Rolled,
    /// Every element is rounded to bfloat16.
    Rounded,
    /// The channel in the middle of the last axis is set to zero.
    Zeroed,
    /// The two halves of the last axis are exchanged.
    Halves,
}

impl MutationKind {
    /// All kinds, in the order in which they are tried.
    pub const ALL: [Self; 7] = [
        Self::Transposed,
        Self::Scaled,
        Self::Unbiased,
        Self::Rolled,
        Self::Rounded,
        Self::Zeroed,
        Self::Halves,
    ];

    /// The word for it in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transposed => "transposed",
            Self::Scaled => "scaled",
            Self::Unbiased => "unbiased",
            Self::Rolled => "rolled",
            Self::Rounded => "rounded",
            Self::Zeroed => "zeroed",
            Self::Halves => "halves",
        }
    }

    /// The change in words that follow the tensor's name.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Transposed => "with two axes exchanged",
            Self::Scaled => "times 1.01",
            Self::Unbiased => "without the mean of each channel",
            Self::Rolled => "moved by one along its longest axis",
            Self::Rounded => "rounded to bfloat16",
            Self::Zeroed => "with one channel zero",
            Self::Halves => "with its halves exchanged",
        }
    }

    /// Whether the change is made to tensors of this dtype. Integers are only moved, so that indices stay in range.
    pub fn fits(self, dtype: Dtype) -> bool {
        match self {
            Self::Rolled | Self::Halves => true,
            Self::Transposed | Self::Scaled | Self::Rounded | Self::Zeroed => dtype.epsilon().is_some(),
            Self::Unbiased => dtype.is_float(),
        }
    }

    /// Returns the changed tensor; `None` if the change leaves every bit as it was or does not fit the shape.
    pub fn apply(self, tensor: &Tensor) -> Option<Tensor> {
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        let mut before = vec![0; tensor.len() * dtype.size()];
        tensor.view().gather(0, &mut before);
        let size = dtype.size();
        let last = shape.last().copied().unwrap_or(1);
        let after = match self {
            Self::Transposed => {
                let mut long = shape.iter().rev().filter(|length| **length > 1);
                let (columns, rows) = (*long.next()?, *long.next()?);
                moved(&before, size, rows * columns, |at| (at % rows) * columns + at / rows)
            }
            Self::Rolled => {
                let (axis, length) = shape.iter().copied().enumerate().max_by_key(|(_, length)| *length)?;
                let inner: usize = shape[axis + 1..].iter().product();
                moved(&before, size, length * inner, |at| (at + (length - 1) * inner) % (length * inner))
            }
            Self::Halves if last % 2 == 0 => moved(&before, size, last, |at| (at + last / 2) % last),
            Self::Zeroed if last > 1 => {
                let mut after = before.clone();
                let channels = after.chunks_exact_mut(size).skip(last / 2).step_by(last);
                channels.for_each(|element| element.fill(0));
                after
            }
            Self::Scaled => with_reals(dtype, &before, |_, x| x * 1.01),
            Self::Rounded => with_reals(dtype, &before, |_, x| bf16::from_f64(x).to_f64()),
            Self::Unbiased => {
                let rows = tensor.len() / last.max(1);
                // The mean of one row is the row.
                let means = (rows > 1).then(|| means(dtype, &before, last))?;
                with_reals(dtype, &before, |at, x| x - means[at % last])
            }
            Self::Halves | Self::Zeroed => return None,
        };
        (after != before)
            .then(|| Tensor::from_vec(dtype, shape.to_vec(), little_endian(dtype, after)).ok())?
    }
}

/// Reorders elements: within each block, element `at` is the old element `from(at)`.
fn moved(bytes: &[u8], size: usize, block: usize, from: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for block in bytes.chunks_exact((block * size).max(1)) {
        for at in 0..block.len() / size {
            let from = from(at) * size;
            out.extend_from_slice(&block[from..from + size]);
        }
    }
    out
}

/// Changes every real number, which are both parts of a complex one. `change` gets the index of the number.
fn with_reals(dtype: Dtype, bytes: &[u8], change: impl Fn(usize, f64) -> f64) -> Vec<u8> {
    let size = if dtype == Dtype::Complex64 { 4 } else { dtype.size() };
    let mut out = Vec::with_capacity(bytes.len());
    for (at, element) in bytes.chunks_exact(size).enumerate() {
        let number = change(at, real(dtype, element));
        match dtype {
            Dtype::Float16 => out.extend(f16::from_f64(number).to_ne_bytes()),
            Dtype::Bfloat16 => out.extend(bf16::from_f64(number).to_ne_bytes()),
            Dtype::Float64 => out.extend(number.to_ne_bytes()),
            _ => out.extend((number as f32).to_ne_bytes()),
        }
    }
    out
}

fn real(dtype: Dtype, element: &[u8]) -> f64 {
    match dtype {
        Dtype::Float16 => bytemuck::pod_read_unaligned::<f16>(element).to_f64(),
        Dtype::Bfloat16 => bytemuck::pod_read_unaligned::<bf16>(element).to_f64(),
        Dtype::Float64 => bytemuck::pod_read_unaligned(element),
        _ => bytemuck::pod_read_unaligned::<f32>(element).into(),
    }
}

/// The mean of each index of the last axis over finite numbers below 1e30, since the fill values of a mask are no bias.
fn means(dtype: Dtype, bytes: &[u8], last: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); last];
    for (at, element) in bytes.chunks_exact(dtype.size()).enumerate() {
        let number = real(dtype, element);
        if number.abs() < 1e30 {
            let (sum, count) = &mut sums[at % last];
            *sum += number;
            *count += 1.0;
        }
    }
    sums.into_iter().map(|(sum, count): (f64, f64)| sum / count.max(1.0)).collect()
}

/// Converts elements from native byte order to that of tensors.
fn little_endian(dtype: Dtype, mut bytes: Vec<u8>) -> Vec<u8> {
    if cfg!(target_endian = "big") {
        let size = if dtype == Dtype::Complex64 { 4 } else { dtype.size() };
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(shape: &[usize], values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
    }

    #[track_caller]
    fn check(kind: MutationKind, shape: &[usize], before: &[f32], after: &[f32]) {
        let changed = kind.apply(&floats(shape, before));
        let mut bytes = vec![0; before.len() * 4];
        changed.unwrap().view().gather(0, &mut bytes);
        let found: Vec<f32> = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        assert_eq!(found, after, "{kind:?}");
    }

    #[track_caller]
    fn is_equivalent(kind: MutationKind, shape: &[usize], values: &[f32]) {
        assert!(kind.apply(&floats(shape, values)).is_none(), "{kind:?} {shape:?}");
    }

    #[test]
    fn each_kind_changes_what_it_documents() {
        let six = [0., 1., 2., 3., 4., 5.];
        check(MutationKind::Transposed, &[2, 3], &six, &[0., 3., 1., 4., 2., 5.]);
        check(MutationKind::Transposed, &[1, 2, 1, 3], &six, &[0., 3., 1., 4., 2., 5.]);
        check(MutationKind::Rolled, &[2, 3], &six, &[2., 0., 1., 5., 3., 4.]);
        check(MutationKind::Rolled, &[3, 2], &six, &[4., 5., 0., 1., 2., 3.]);
        check(MutationKind::Halves, &[3, 2], &six, &[1., 0., 3., 2., 5., 4.]);
        check(MutationKind::Zeroed, &[2, 3], &six, &[0., 0., 2., 3., 0., 5.]);
        check(MutationKind::Scaled, &[1], &[100.], &[101.]);
        check(MutationKind::Unbiased, &[2, 2], &[1., 2., 3., 6.], &[-1., -2., 1., 2.]);
        check(MutationKind::Rounded, &[2], &[1.001, 1.0], &[1.0, 1.0]);
    }

    #[test]
    fn a_change_of_nothing_is_no_mutation() {
        is_equivalent(MutationKind::Rounded, &[2], &[0.5, 2.0]);
        is_equivalent(MutationKind::Transposed, &[2, 2], &[1., 7., 7., 1.]);
        is_equivalent(MutationKind::Transposed, &[1, 4], &[1., 2., 3., 4.]);
        is_equivalent(MutationKind::Rolled, &[3], &[1., 1., 1.]);
        is_equivalent(MutationKind::Rolled, &[], &[1.]);
        is_equivalent(MutationKind::Halves, &[3], &[1., 2., 3.]);
        is_equivalent(MutationKind::Zeroed, &[3, 1], &[1., 2., 3.]);
        is_equivalent(MutationKind::Zeroed, &[2], &[1., 0.]);
        is_equivalent(MutationKind::Unbiased, &[1, 3], &[1., 2., 3.]);
        is_equivalent(MutationKind::Scaled, &[2], &[0., 0.]);
        is_equivalent(MutationKind::Rolled, &[0, 2], &[]);
    }

    #[test]
    fn integers_are_only_moved() {
        let moves: Vec<MutationKind> =
            MutationKind::ALL.into_iter().filter(|kind| kind.fits(Dtype::Int32)).collect();
        assert_eq!(moves, [MutationKind::Rolled, MutationKind::Halves]);
        let ids = Tensor::from_vec(Dtype::Uint8, vec![4], vec![1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 4];
        MutationKind::Halves.apply(&ids).unwrap().view().gather(0, &mut bytes);
        assert_eq!(bytes, [3, 4, 1, 2]);
    }

    #[test]
    fn other_dtypes_are_rounded_as_they_are_stored() {
        let bytes: Vec<u8> = [1f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let complex = Tensor::from_vec(Dtype::Complex64, vec![1], bytes).unwrap();
        let mut out = [0; 8];
        MutationKind::Scaled.apply(&complex).unwrap().view().gather(0, &mut out);
        let parts: [f32; 2] = [0, 4].map(|at| bytemuck::pod_read_unaligned(&out[at..at + 4]));
        assert_eq!(parts, [1.01, -2.02]);
        let half =
            Tensor::from_vec(Dtype::Bfloat16, vec![1], bf16::from_f32(4.0).to_le_bytes().to_vec()).unwrap();
        assert!(MutationKind::Rounded.apply(&half).is_none());
        assert!(MutationKind::Scaled.apply(&half).is_some());
    }
}
