//! Variants of the front-end of vision models.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::tap;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, ops};
use parity_tests::image::Config;

use super::{Variant, add};
use crate::change::{backwards, plus, taken, times};

const NAMES: &[&str] = &[
    "nearest",
    "corners_aligned",
    "cropped_at_corner",
    "bgr_after_resize",
    "rescaled_by_256",
    "mean_after_division",
    "deviation_multiplied",
    "columns_as_rows",
    "only_first_frame",
    // Rewrites.
    "axes_in_other_order",
    "rounded_by_floor",
    "normalised_at_once",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "image::preprocess", NAMES, preprocess)
}

fn preprocess(run: &Run, v: &Variant) -> PortResult {
    let config: Config = run.params()?;
    let bytes = run.input("bytes")?.as_dtype(Dtype::Float32)?;
    let (from_height, from_width) = (bytes.dim(0), bytes.dim(1));
    let (height, width) = config.size.of(from_height as usize, from_width as usize);
    let resized = if v.is("nearest") {
        let rows = (0..height as i32).map(|at| at * from_height / height as i32);
        let columns = (0..width as i32).map(|at| at * from_width / width as i32);
        taken(&taken(&bytes, 0, rows)?, 1, columns)?
    } else if v.is("corners_aligned") {
        let rows = aligned(&bytes, height as i32)?;
        aligned(&rows.transpose_axes(&[1, 0, 2])?, width as i32)?.transpose_axes(&[1, 0, 2])?
    } else if v.is("axes_in_other_order") {
        let turned = bytes.transpose_axes(&[1, 0, 2])?;
        config.resampler.resize(&turned, width, height)?.transpose_axes(&[1, 0, 2])?
    } else {
        config.resampler.resize(&bytes, height, width)?
    };
    let resized = tap("resized", resized)?;
    let limits = (Array::from_f32(0.0), Array::from_f32(255.0));
    let clipped = ops::clip(&resized, (&limits.0, &limits.1))?;
    let whole =
        if v.is("rounded_by_floor") { plus(&clipped, 0.5)?.floor()? } else { ops::round(clipped, None)? };
    let pixels = tap("pixels", whole.as_dtype(Dtype::Uint8)?)?;
    let pixels = match config.crop {
        Some(side) => {
            let corner = v.is("cropped_at_corner");
            let first = |length: usize| if corner { 0 } else { ((length - side) / 2) as i32 };
            let (top, left, side) = (first(height), first(width), side as i32);
            pixels.try_index((top..top + side, left..left + side))?
        }
        None => pixels,
    };
    let pixels = if v.is("bgr_after_resize") { backwards(&pixels, 2)? } else { pixels };
    let pixels = pixels.as_dtype(Dtype::Float32)?;
    let mean = Array::from_slice(&config.mean, &[3]);
    let deviation = Array::from_slice(&config.deviation, &[3]);
    let scaled = times(&pixels, if v.is("rescaled_by_256") { 1.0 / 256.0 } else { 1.0 / 255.0 })?;
    let normalised = if v.is("mean_after_division") {
        scaled.divide(&deviation)?.subtract(&mean)?
    } else if v.is("deviation_multiplied") {
        scaled.subtract(&mean)?.multiply(&deviation)?
    } else if v.is("normalised_at_once") {
        let factor = times(&deviation, 255.0)?.reciprocal()?;
        pixels.multiply(factor)?.subtract(mean.divide(&deviation)?)?
    } else {
        scaled.subtract(&mean)?.divide(&deviation)?
    };
    let normalised = tap("normalised", normalised)?;
    let Some(patches) = &config.patches else {
        let axes: &[i32] = if v.is("columns_as_rows") { &[2, 1, 0] } else { &[2, 0, 1] };
        let first = normalised.transpose_axes(axes)?;
        let shape = [3, normalised.dim(0), normalised.dim(1)];
        tap("pixel_values", first.reshape(&shape)?)?;
        return Ok(());
    };
    let cut = patches.cut(&normalised)?;
    let cut = if v.is("only_first_frame") {
        let (size, frames) = (patches.size * patches.size, patches.frames);
        let parts = cut.reshape(&[-1, 3, frames, size])?;
        let rest = ops::zeros_like(parts.try_index((.., .., 1.., ..))?)?;
        ops::concatenate(&[parts.try_index((.., .., ..1, ..))?, rest], 2)?.reshape(cut.shape())?
    } else {
        cut
    };
    tap("patches", cut)?;
    Ok(())
}

/// Resizes the first axis linearly, with the centres of the outermost pixels in place.
fn aligned(x: &Array, to: i32) -> Result<Array, mlx_rs::error::Exception> {
    let from = x.dim(0);
    let step = f64::from(from - 1) / f64::from(to - 1);
    let mut weights = vec![0f32; (from * to) as usize];
    for new in 0..to {
        let place = f64::from(new) * step;
        let left = (place.floor() as i32).min(from - 2);
        let part = (place - f64::from(left)) as f32;
        weights[(new * from + left) as usize] += 1.0 - part;
        weights[(new * from + left + 1) as usize] += part;
    }
    let flat = x.reshape(&[from, -1])?;
    let found = Array::from_slice(&weights, &[to, from]).matmul(&flat)?;
    found.reshape(&[to, x.dim(1), x.dim(2)])
}
