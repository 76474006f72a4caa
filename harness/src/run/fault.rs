//! Faults that are planted into the tensor of a tap, to see who notices. Each keeps dtype and shape: another shape is
//! noticed by anyone.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::tensor::{Dtype, Tensor};

/// What is done to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// The last two axes that are longer than one are exchanged, and the result is read in the old shape: a reshape
    /// where a transpose was needed.
    Transposed,
    /// Everything times 1.01.
    Scaled,
    /// Each index of the last axis without its mean over all others: a bias that was not added.
    Unbiased,
    /// Moved by one along the longest axis.
    Rolled,
    /// Rounded to bfloat16.
    Rounded,
    /// The index in the middle of the last axis is zero.
    Zeroed,
    /// The two halves of the last axis exchanged.
    Halves,
}

impl Fault {
    /// All of them, in the order in which they are planted.
    pub(crate) const ALL: [Self; 7] = [
        Self::Transposed,
        Self::Scaled,
        Self::Unbiased,
        Self::Rolled,
        Self::Rounded,
        Self::Zeroed,
        Self::Halves,
    ];

    /// The word, as records and tables have it.
    pub(crate) const fn name(self) -> &'static str {
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

    /// What it is, in words that follow the tensor's name.
    pub(crate) const fn about(self) -> &'static str {
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

    /// Whether it is planted into tensors of that dtype. Whole numbers are only moved, so that indices stay indices.
    pub(crate) fn fits(self, dtype: Dtype) -> bool {
        match self {
            Self::Rolled | Self::Halves => true,
            Self::Transposed | Self::Scaled | Self::Rounded | Self::Zeroed => dtype.epsilon().is_some(),
            Self::Unbiased => dtype.is_float(),
        }
    }

    /// The tensor with the fault in it; nothing when that leaves every bit as it was, or cannot be done to its shape.
    pub(crate) fn plant(self, tensor: &Tensor) -> Option<Tensor> {
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

/// Elements in another order: within each block, element `at` is the old element `from(at)`.
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

/// Every real number of the elements changed; of a complex one both parts. It is told which number it is.
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

/// The mean of each index of the last axis, over finite numbers below 1e30: a mask's fill values are no bias.
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

/// Native-order elements as tensors have them.
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
    fn check(fault: Fault, shape: &[usize], before: &[f32], after: &[f32]) {
        let planted = fault.plant(&floats(shape, before));
        let mut bytes = vec![0; before.len() * 4];
        planted.unwrap().view().gather(0, &mut bytes);
        let found: Vec<f32> = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        assert_eq!(found, after, "{fault:?}");
    }

    #[track_caller]
    fn is_equivalent(fault: Fault, shape: &[usize], values: &[f32]) {
        assert!(fault.plant(&floats(shape, values)).is_none(), "{fault:?} {shape:?}");
    }

    #[test]
    fn each_fault_is_what_it_says() {
        let six = [0., 1., 2., 3., 4., 5.];
        check(Fault::Transposed, &[2, 3], &six, &[0., 3., 1., 4., 2., 5.]);
        check(Fault::Transposed, &[1, 2, 1, 3], &six, &[0., 3., 1., 4., 2., 5.]);
        check(Fault::Rolled, &[2, 3], &six, &[2., 0., 1., 5., 3., 4.]);
        check(Fault::Rolled, &[3, 2], &six, &[4., 5., 0., 1., 2., 3.]);
        check(Fault::Halves, &[3, 2], &six, &[1., 0., 3., 2., 5., 4.]);
        check(Fault::Zeroed, &[2, 3], &six, &[0., 0., 2., 3., 0., 5.]);
        check(Fault::Scaled, &[1], &[100.], &[101.]);
        check(Fault::Unbiased, &[2, 2], &[1., 2., 3., 6.], &[-1., -2., 1., 2.]);
        check(Fault::Rounded, &[2], &[1.001, 1.0], &[1.0, 1.0]);
    }

    #[test]
    fn what_changes_nothing_is_no_fault() {
        is_equivalent(Fault::Rounded, &[2], &[0.5, 2.0]);
        is_equivalent(Fault::Transposed, &[2, 2], &[1., 7., 7., 1.]);
        is_equivalent(Fault::Transposed, &[1, 4], &[1., 2., 3., 4.]);
        is_equivalent(Fault::Rolled, &[3], &[1., 1., 1.]);
        is_equivalent(Fault::Rolled, &[], &[1.]);
        is_equivalent(Fault::Halves, &[3], &[1., 2., 3.]);
        is_equivalent(Fault::Zeroed, &[3, 1], &[1., 2., 3.]);
        is_equivalent(Fault::Zeroed, &[2], &[1., 0.]);
        is_equivalent(Fault::Unbiased, &[1, 3], &[1., 2., 3.]);
        is_equivalent(Fault::Scaled, &[2], &[0., 0.]);
        is_equivalent(Fault::Rolled, &[0, 2], &[]);
    }

    #[test]
    fn whole_numbers_are_only_moved() {
        let moves: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| fault.fits(Dtype::Int32)).collect();
        assert_eq!(moves, [Fault::Rolled, Fault::Halves]);
        let ids = Tensor::from_vec(Dtype::Uint8, vec![4], vec![1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 4];
        Fault::Halves.plant(&ids).unwrap().view().gather(0, &mut bytes);
        assert_eq!(bytes, [3, 4, 1, 2]);
    }

    #[test]
    fn halves_of_other_dtypes_are_rounded_as_they_are_stored() {
        let bytes: Vec<u8> = [1f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let complex = Tensor::from_vec(Dtype::Complex64, vec![1], bytes).unwrap();
        let mut out = [0; 8];
        Fault::Scaled.plant(&complex).unwrap().view().gather(0, &mut out);
        let parts: [f32; 2] = [0, 4].map(|at| bytemuck::pod_read_unaligned(&out[at..at + 4]));
        assert_eq!(parts, [1.01, -2.02]);
        let half =
            Tensor::from_vec(Dtype::Bfloat16, vec![1], bf16::from_f32(4.0).to_le_bytes().to_vec()).unwrap();
        assert!(Fault::Rounded.plant(&half).is_none());
        assert!(Fault::Scaled.plant(&half).is_some());
    }
}
