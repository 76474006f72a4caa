//! Convolutions against plain loops.

use proptest::prelude::*;

use super::*;
use crate::replay::walk::broadcast_strides;

fn work() -> Work {
    Work::new(1 << 40, 1 << 30)
}

fn counted(shape: &[usize]) -> Array {
    let length = elements(shape).unwrap();
    Array::new(shape.to_vec(), (0..length).map(|i| (i * 5 % 11) as f64 - 4.0).collect()).unwrap()
}

/// The indices of all positions of a shape.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    (0..shape.iter().product())
        .map(|position: usize| {
            let mut rest = position;
            let mut index = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            index
        })
        .collect()
}

fn at(x: &Array, index: &[usize]) -> f64 {
    let strides = broadcast_strides(x.shape(), x.shape());
    x.values()[index.iter().zip(strides).map(|(i, stride)| i * stride).sum::<usize>()]
}

#[test]
fn one_window_is_a_sum_of_products() {
    let x = Array::new(vec![1, 1, 3], vec![1., 2., 3.]).unwrap();
    let weight = Array::new(vec![1, 1, 2], vec![10., 1.]).unwrap();
    let bias = Array::new(vec![1], vec![0.5]).unwrap();
    let plain = Conv { stride: &[1], padding: &[[1, 0]], dilation: &[1], groups: 1 };
    let found = conv(&x, &weight, Some(&bias), &plain, &work()).unwrap();
    assert_eq!((found.shape(), found.values()), (&[1, 1, 3][..], &[1.5, 12.5, 23.5][..]));
    let turned =
        ConvTranspose { stride: &[2], padding: &[0], output_padding: &[1], dilation: &[1], groups: 1 };
    let found = conv_transpose(&x, &weight, Some(&bias), &turned, &work()).unwrap();
    assert_eq!(found.values(), [10.5, 1.5, 20.5, 2.5, 30.5, 3.5, 0.5]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let (x, weight) = (counted(&[1, 4, 3]), counted(&[2, 4, 2]));
    let of =
        |x: &Array, weight: &Array, bias: Option<&Array>, padding: usize, stride: usize, groups: usize| {
            let [stride, dilation] = [[stride], [1]];
            let padding = [[padding, padding]];
            conv(
                x,
                weight,
                bias,
                &Conv { stride: &stride, padding: &padding, dilation: &dilation, groups },
                &work(),
            )
        };
    assert!(of(&x, &weight, None, 0, 1, 1).is_ok());
    assert!(of(&x, &weight, Some(&counted(&[3])), 0, 1, 1).is_err());
    assert!(of(&x, &weight, None, 0, 1, 2).is_err());
    assert!(of(&x, &weight, None, 0, 1, 0).is_err());
    assert!(of(&x, &weight, None, 0, 0, 1).is_err());
    assert!(of(&x, &weight, None, usize::MAX, 1, 1).is_err());
    assert!(of(&x, &weight, None, 1 << 50, 1, 1).is_err());
    assert!(of(&x, &counted(&[2, 4, 5]), None, 0, 1, 1).is_err());
    assert!(of(&counted(&[1, 4, 3, 3]), &weight, None, 0, 1, 1).is_err());
    assert!(of(&counted(&[4]), &weight, None, 0, 1, 1).is_err());
    assert_eq!(of(&counted(&[0, 4, 3]), &weight, None, 0, 1, 1).unwrap().shape(), [0, 2, 2]);
    let turned = |padding: usize, groups: usize| {
        let padding = [padding];
        let one = [1];
        let conv =
            ConvTranspose { stride: &one, padding: &padding, output_padding: &[0], dilation: &one, groups };
        conv_transpose(&x, &counted(&[4, 1, 2]), None, &conv, &work())
    };
    assert!(turned(0, 1).is_ok());
    assert!(turned(3, 1).is_err());
    assert!(turned(usize::MAX, 1).is_err());
    assert!(turned(0, 3).is_err());
}

prop_compose! {
    /// Lengths, kernels, strides, paddings and dilations of one to three axes.
    fn axes()(axes in prop::collection::vec((3usize..7, 1usize..4, 1usize..4, 0usize..3, 0usize..3, 1usize..3), 1..4))
        -> Vec<(usize, usize, usize, usize, usize, usize)> {
        axes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_convolution_is_what_plain_loops_compute(
        axes in axes(), batch in 1usize..3, groups in 1usize..3, per_group in 1usize..3, to_group in 1usize..3,
    ) {
        let lengths: Vec<usize> = axes.iter().map(|a| a.0).collect();
        let kernel: Vec<usize> = axes.iter().map(|a| a.1).collect();
        let stride: Vec<usize> = axes.iter().map(|a| a.2).collect();
        let padding: Vec<[usize; 2]> = axes.iter().map(|a| [a.3, a.4]).collect();
        let dilation: Vec<usize> = axes.iter().map(|a| a.5).collect();
        let x = counted(&[&[batch, groups * per_group], &lengths[..]].concat());
        let weight = counted(&[&[groups * to_group, per_group], &kernel[..]].concat());
        let attributes = Conv { stride: &stride, padding: &padding, dilation: &dilation, groups };
        let fits = axes.iter().all(|a| a.0 + a.3 + a.4 > (a.1 - 1) * a.5);
        let found = conv(&x, &weight, None, &attributes, &work());
        prop_assert_eq!(found.is_ok(), fits);
        let Ok(found) = found else { return Ok(()) };
        for index in indices(found.shape()) {
            let group = index[1] / to_group;
            let mut sum = 0.0;
            for tap in indices(&weight.shape()[1..]) {
                let mut place = vec![index[0], group * per_group + tap[0]];
                for axis in 0..axes.len() {
                    let padded = index[axis + 2] * stride[axis] + tap[axis + 1] * dilation[axis];
                    place.push(padded.wrapping_sub(padding[axis][0]));
                }
                if place[2..].iter().zip(&lengths).all(|(i, length)| i < length) {
                    sum += at(&x, &place) * at(&weight, &[&[index[1]], &tap[..]].concat());
                }
            }
            prop_assert_eq!(at(&found, &index), sum);
        }
    }

    #[test]
    fn a_transposed_convolution_spreads_every_element(
        axes in axes(), batch in 1usize..3, groups in 1usize..3, per_group in 1usize..3, to_group in 1usize..3,
    ) {
        let lengths: Vec<usize> = axes.iter().map(|a| a.0).collect();
        let kernel: Vec<usize> = axes.iter().map(|a| a.1).collect();
        let stride: Vec<usize> = axes.iter().map(|a| a.2).collect();
        let padding: Vec<usize> = axes.iter().map(|a| a.3.min((a.1 - 1) * a.5)).collect();
        let more: Vec<usize> = axes.iter().map(|a| a.4).collect();
        let dilation: Vec<usize> = axes.iter().map(|a| a.5).collect();
        let x = counted(&[&[batch, groups * per_group], &lengths[..]].concat());
        let weight = counted(&[&[groups * per_group, to_group], &kernel[..]].concat());
        let attributes = ConvTranspose {
            stride: &stride, padding: &padding, output_padding: &more, dilation: &dilation, groups,
        };
        let found = conv_transpose(&x, &weight, None, &attributes, &work());
        let sizes: Vec<usize> = (0..axes.len())
            .map(|i| ((lengths[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + more[i] + 1)
                .saturating_sub(2 * padding[i]))
            .collect();
        let shape = [&[batch, groups * to_group], &sizes[..]].concat();
        let found = found.unwrap();
        prop_assert_eq!(found.shape(), &shape[..]);
        let strides = broadcast_strides(&shape, &shape);
        let mut expected = vec![0.0; found.len()];
        for index in indices(x.shape()) {
            let group = index[1] / per_group;
            for tap in indices(&weight.shape()[1..]) {
                let mut place = vec![index[0], group * to_group + tap[0]];
                for axis in 0..axes.len() {
                    let spread = index[axis + 2] * stride[axis] + tap[axis + 1] * dilation[axis];
                    place.push(spread.wrapping_sub(padding[axis]));
                }
                if place.iter().zip(&shape).all(|(i, length)| i < length) {
                    // An axis of length 1 has stride 0 here, and its only index is 0.
                    let position: usize = place.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
                    expected[position] += at(&x, &index) * at(&weight, &[&[index[1]], &tap[..]].concat());
                }
            }
        }
        prop_assert_eq!(found.values(), &expected[..]);
    }
}
