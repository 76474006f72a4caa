//! Convolutions, and transposed convolutions, over one to three axes.
//!
//! The windows become the columns of a matrix, so that a convolution is a matrix product. The matrix holds a limited number
//! of windows at a time, so that memory stays bounded.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::matrix::{Matrix, product};
use super::window::{Axis, check_lists, index_of, three};
use super::work::Work;

/// The most numbers in the matrix of windows at a time.
const COLUMNS: usize = 1 << 20;

/// The attributes of a convolution.
pub(super) struct Conv<'a> {
    pub(super) stride: &'a [usize],
    pub(super) padding: &'a [[usize; 2]],
    pub(super) dilation: &'a [usize],
    pub(super) groups: usize,
}

/// The convolution of `x` (batch, channels, space…) with a weight (out, channels / groups, kernel…).
pub(super) fn conv(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    conv: &Conv<'_>,
    work: &Work,
) -> Result<Array, ReplayError> {
    let Sizes { batch, channels, space, out: to, per_group, kernel } = sizes(x, weight)?;
    let Conv { stride, padding, dilation, groups } = conv;
    check_lists(space, &[kernel.len(), stride.len(), padding.len(), dilation.len()])?;
    if *groups == 0 || per_group.checked_mul(*groups) != Some(channels) || to % groups != 0 {
        return Err(ReplayError::operands(format!(
            "a weight of shape {:?} in {groups} groups does not fit shape {:?}",
            weight.shape(),
            x.shape()
        )));
    }
    let axes = (0..space.len())
        .map(|axis| Axis::new(space[axis], kernel[axis], stride[axis], padding[axis], dilation[axis]))
        .collect::<Result<Vec<_>, _>>()?;
    let windows: Vec<usize> = axes.iter().map(|axis| axis.windows).collect();
    let shape = [&[batch, to], &windows[..]].concat();
    let length = elements(&shape)?;
    let (positions, taps) = (elements(&windows)?, elements(kernel)?);
    // Each row of the matrix of windows holds one element of the window in one channel of the group.
    let rows = elements(&[per_group, taps])?;
    work.products(&[length, rows])?;
    work.elements(elements(&[length.max(1), 1])?)?;
    // Windows are copied, which takes less time than an operation.
    work.spend((elements(&[batch, *groups, rows, positions])? as u64).saturating_mul(4))?;
    let mut out = work.filled(length, 0.0)?;
    if length == 0 {
        return Ok(Array::real(shape, out));
    }
    check_bias(bias, to)?;
    let per_part = (COLUMNS / rows.max(1)).clamp(1, positions);
    let mut columns = work.filled(elements(&[rows, per_part])?, 0.0)?;
    let to_group = to / groups;
    let mut part_out = work.filled(elements(&[to_group, per_part])?, 0.0)?;
    let (axes, volume) = (three(&axes), space.iter().product::<usize>());
    for (at, group_out) in out.chunks_exact_mut(to_group * positions).enumerate() {
        let group = at % groups;
        let inputs = &x.values()[at * per_group * volume..][..per_group * volume];
        let weights = &weight.values()[group * to_group * rows..][..to_group * rows];
        for start in (0..positions).step_by(per_part) {
            let count = per_part.min(positions - start);
            let columns = &mut columns[..rows * count];
            fill_columns(inputs, &axes, start, count, columns);
            let part_out = &mut part_out[..to_group * count];
            let (left, right) = (Matrix::rows(weights, rows), Matrix::rows(columns, count));
            product([to_group, rows, count], left, right, part_out);
            for (row, part) in part_out.chunks_exact(count).enumerate() {
                group_out[row * positions + start..][..count].copy_from_slice(part);
            }
        }
    }
    add_bias(&mut out, bias, to, positions);
    Ok(Array::real(shape, out))
}

/// Writes `count` windows from `start` on as columns.
fn fill_columns(inputs: &[f64], axes: &[Axis; 3], start: usize, count: usize, columns: &mut [f64]) {
    let [depth, height, width] = axes;
    let volume = depth.length * height.length * width.length;
    let kernels = axes.map(|axis| axis.kernel);
    let taps = kernels.iter().product::<usize>();
    for (row, out) in columns.chunks_exact_mut(count).enumerate() {
        let [z, y, x] = index_of(row % taps, kernels);
        let channel = &inputs[row / taps * volume..][..volume];
        let [mut window_z, mut window_y, mut window_x] = index_of(start, axes.map(|axis| axis.windows));
        let mut filled = 0;
        while filled < count {
            // One run of windows along the last axis.
            let run = (width.windows - window_x).min(count - filled);
            let out = &mut out[filled..][..run];
            match depth.place(window_z, z).zip(height.place(window_y, y)) {
                None => out.fill(0.0),
                Some((at_z, at_y)) => {
                    let line = &channel[(at_z * height.length + at_y) * width.length..][..width.length];
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = width.place(window_x + i, x).map_or(0.0, |place| line[place]);
                    }
                }
            }
            filled += run;
            window_x = 0;
            window_y += 1;
            if window_y == height.windows {
                (window_y, window_z) = (0, window_z + 1);
            }
        }
    }
}

/// The attributes of a transposed convolution.
pub(super) struct ConvTranspose<'a> {
    pub(super) stride: &'a [usize],
    pub(super) padding: &'a [usize],
    pub(super) output_padding: &'a [usize],
    pub(super) dilation: &'a [usize],
    pub(super) groups: usize,
}

/// The transposed convolution of `x` (batch, channels, space…) with a weight (channels, out / groups, kernel…).
pub(super) fn conv_transpose(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    conv: &ConvTranspose<'_>,
    work: &Work,
) -> Result<Array, ReplayError> {
    let Sizes { batch, channels, space, out: from, per_group: to_group, kernel } = sizes(x, weight)?;
    let ConvTranspose { stride, padding, output_padding, dilation, groups } = conv;
    check_lists(space, &[kernel.len(), stride.len(), padding.len(), output_padding.len(), dilation.len()])?;
    if *groups == 0 || from != channels || channels % groups != 0 {
        return Err(ReplayError::operands(format!(
            "a weight of shape {:?} in {groups} groups does not fit shape {:?}",
            weight.shape(),
            x.shape()
        )));
    }
    let axes = (0..space.len())
        .map(|axis| {
            let (padding, more) = (padding[axis], output_padding[axis]);
            Axis::of_result(space[axis], kernel[axis], stride[axis], padding, more, dilation[axis])
        })
        .collect::<Result<Vec<_>, _>>()?;
    let lengths: Vec<usize> = axes.iter().map(|axis| axis.length).collect();
    let to = elements(&[to_group, *groups])?;
    let shape = [&[batch, to], &lengths[..]].concat();
    let length = elements(&shape)?;
    let (positions, taps) = (elements(space)?, elements(kernel)?);
    let rows = elements(&[to_group, taps])?;
    work.products(&[batch, channels, rows, positions])?;
    work.elements(elements(&[batch, *groups, rows, positions])?.max(length))?;
    let mut out = work.filled(length, 0.0)?;
    if length == 0 {
        return Ok(Array::real(shape, out));
    }
    check_bias(bias, to)?;
    let volume = lengths.iter().product::<usize>();
    if x.is_empty() || weight.is_empty() {
        add_bias(&mut out, bias, to, volume);
        return Ok(Array::real(shape, out));
    }
    let per_part = (COLUMNS / rows).clamp(1, positions);
    let mut columns = work.filled(elements(&[rows, per_part])?, 0.0)?;
    let (axes, per_group) = (three(&axes), channels / groups);
    for (at, group_out) in out.chunks_exact_mut(to_group * volume).enumerate() {
        let group = at % groups;
        let inputs = &x.values()[at * per_group * positions..][..per_group * positions];
        let weights = &weight.values()[group * per_group * rows..][..per_group * rows];
        for start in (0..positions).step_by(per_part) {
            let count = per_part.min(positions - start);
            let columns = &mut columns[..rows * count];
            let right = Matrix { values: &inputs[start..], row: positions, column: 1 };
            product([rows, per_group, count], Matrix::transposed(weights, rows), right, columns);
            add_columns(columns, &axes, start, count, group_out);
        }
    }
    add_bias(&mut out, bias, to, volume);
    Ok(Array::real(shape, out))
}

/// Adds `count` windows from `start` on, given as columns, to the places that they cover.
fn add_columns(columns: &[f64], axes: &[Axis; 3], start: usize, count: usize, out: &mut [f64]) {
    let lengths = axes.map(|axis| axis.length);
    let volume = lengths.iter().product::<usize>();
    let kernels = axes.map(|axis| axis.kernel);
    let taps = kernels.iter().product::<usize>();
    for (row, values) in columns.chunks_exact(count).enumerate() {
        let element = index_of(row % taps, kernels);
        let channel = &mut out[row / taps * volume..][..volume];
        for (i, value) in values.iter().enumerate() {
            let window = index_of(start + i, axes.map(|axis| axis.windows));
            let place = |axis: usize| axes[axis].place(window[axis], element[axis]);
            if let (Some(z), Some(y), Some(x)) = (place(0), place(1), place(2)) {
                channel[(z * lengths[1] + y) * lengths[2] + x] += value;
            }
        }
    }
}

/// Lengths of the axes of an input and a weight.
struct Sizes<'a> {
    batch: usize,
    channels: usize,
    space: &'a [usize],
    /// The first axis of the weight.
    out: usize,
    /// The second axis of the weight.
    per_group: usize,
    kernel: &'a [usize],
}

fn sizes<'a>(x: &'a Array, weight: &'a Array) -> Result<Sizes<'a>, ReplayError> {
    x.check_real()?;
    weight.check_real()?;
    let ([batch, channels, space @ ..], [out, per_group, kernel @ ..]) = (x.shape(), weight.shape()) else {
        let problem = format!("shapes {:?} and {:?} have no convolution", x.shape(), weight.shape());
        return Err(ReplayError::operands(problem));
    };
    Ok(Sizes { batch: *batch, channels: *channels, space, out: *out, per_group: *per_group, kernel })
}

fn check_bias(bias: Option<&Array>, channels: usize) -> Result<(), ReplayError> {
    let Some(bias) = bias else { return Ok(()) };
    bias.check_real()?;
    if bias.shape() == [channels] {
        return Ok(());
    }
    Err(ReplayError::operands(format!("a bias of shape {:?} does not fit {channels} channels", bias.shape())))
}

/// Adds the bias of its channel to each place of the result.
fn add_bias(out: &mut [f64], bias: Option<&Array>, channels: usize, volume: usize) {
    let Some(bias) = bias else { return };
    for (at, channel) in out.chunks_exact_mut(volume).enumerate() {
        let bias = bias.values()[at % channels];
        channel.iter_mut().for_each(|x| *x += bias);
    }
}

#[cfg(test)]
mod tests;
