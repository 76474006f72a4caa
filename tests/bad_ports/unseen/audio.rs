//! Variants of the front-ends of audio models.

use std::f64::consts::TAU;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::fft::{fft, irfft, rfft};
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, maximum, zeros};
use mlx_rs::{Array, ops};
use parity_tests::audio::{
    Config, Guard, Logarithm, Normalise, Stft, filter_bank, framed, inverse, overlapped, padded, spectrum,
};

use super::{Variant, add};
use crate::audio::right::transform;
use crate::change::{backwards, plus, times};

const NAMES: &[&str] = &[
    "windowed_twice",
    "not_windowed",
    "edges_repeated",
    "first_frame_dropped",
    "orthogonal_transform",
    "weaker_preemphasis",
    "eps_under_root",
    "largest_of_frame",
    "divided_before_sum",
    "mean_of_frame",
    "variance_for_deviation",
    // Rewrites.
    "transform_by_matmul",
    "whole_transform",
    "parts_squared",
    "bound_after_logarithm",
    "filters_first",
];

const TRANSFORMS: &[&str] = &[
    "inverse_not_windowed",
    "gain_backwards",
    "inverse_not_scaled",
    // Rewrites.
    "transform_by_matmul",
    "added_row_by_row",
    "window_divided_first",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(add(suite, "audio::log_mel", NAMES, log_mel), "audio::stft", TRANSFORMS, stft)
}

fn log_mel(run: &Run, v: &Variant) -> PortResult {
    let config: Config = run.params()?;
    let audio = run.input("audio")?;
    let signal = if config.preemphasis == 0.0 {
        audio
    } else {
        let part = if v.is("weaker_preemphasis") { 0.95 } else { config.preemphasis };
        let before = times(&audio.try_index(..-1)?, part)?;
        concatenate(&[audio.try_index(..1)?, audio.try_index(1..)?.subtract(before)?], 0)?
    };
    let signal = if v.is("edges_repeated") {
        ops::pad(&signal, config.pad as i32, None, ops::PadMode::Edge)?
    } else {
        padded(&signal, config.pad, config.padding)?
    };
    let frames = framed(&signal, config.n_fft, config.hop)?;
    let frames = if !config.drop_last {
        frames
    } else if v.is("first_frame_dropped") {
        frames.try_index((1.., ..))?
    } else {
        frames.try_index((..-1, ..))?
    };
    let window = config.window.array(config.n_fft);
    let frames = if v.is("windowed_twice") {
        frames.multiply(&window)?.multiply(&window)?
    } else if v.is("not_windowed") {
        frames.contiguous()?
    } else {
        frames.multiply(&window)?
    };
    let frames = tap("frames", frames)?;

    let bins = config.n_fft / 2 + 1;
    let transformed = if v.is("transform_by_matmul") {
        by_matmul(&frames)?
    } else if v.is("whole_transform") {
        fft(&frames, None, -1)?.try_index((.., ..bins as i32))?
    } else if v.is("orthogonal_transform") {
        rfft(&times(&frames, (config.n_fft as f32).sqrt().recip())?, None, -1)?
    } else {
        rfft(&frames, None, -1)?
    };
    let power = if v.is("parts_squared") {
        let power = transformed.real()?.square()?.add(transformed.imag()?.square()?)?;
        if config.power == 2 { power } else { power.sqrt()? }
    } else if v.is("eps_under_root") {
        let power = transformed.abs()?.square()?;
        plus(&power, 1e-6)?.sqrt()?
    } else {
        let magnitudes = transformed.abs()?;
        if config.power == 2 { magnitudes.square()? } else { magnitudes }
    };
    let power = tap("power", power)?;
    let filters = tap("filters", filter_bank(&config.mel, bins, config.rate))?;
    let mel = if v.is("filters_first") {
        filters.t().matmul(power.t())?.t().contiguous()?
    } else {
        power.matmul(filters)?
    };
    let mel = tap("mel", mel)?;

    let log = |x: &Array| if config.logarithm == Logarithm::Ten { x.log10() } else { x.log() };
    let log = match config.guard {
        Guard::AtLeast(least) if v.is("bound_after_logarithm") => {
            maximum(log(&mel)?, log(&Array::from_f32(least))?)?
        }
        Guard::AtLeast(least) => log(&maximum(&mel, Array::from_f32(least))?)?,
        Guard::Added(number) => log(&plus(&mel, number)?)?,
    };
    let log = tap("log", log)?;
    let features = match config.normalise {
        Normalise::None => log,
        Normalise::Whisper { range } => {
            let largest = if v.is("largest_of_frame") { log.max_axis(-1, true)? } else { log.max(None)? };
            let bounded = maximum(&log, plus(&largest, -range)?)?;
            match v.is("divided_before_sum") {
                true => plus(&times(&bounded, 0.25)?, 4.0)?,
                false => times(&plus(&bounded, 4.0)?, 0.25)?,
            }
        }
        Normalise::PerFilter { ddof, eps } => {
            let variance = log.var_axis(0, true, ddof)?;
            let deviation = if v.is("variance_for_deviation") { variance } else { variance.sqrt()? };
            let mean = if v.is("mean_of_frame") { log.mean_axis(1, true)? } else { log.mean_axis(0, true)? };
            log.subtract(mean)?.divide(plus(&deviation, eps)?)?
        }
    };
    tap("features", features)?;
    Ok(())
}

/// The transform of the last axis as a product with cosines and sines.
fn by_matmul(frames: &Array) -> Result<Array, Exception> {
    let length = frames.dim(-1);
    let bins = length / 2 + 1;
    let table = |of: fn(f64) -> f64| {
        let all = (0..length).flat_map(|row| (0..bins).map(move |column| row * column % length));
        Array::from_iter(all.map(|at| of(TAU * at as f64 / f64::from(length)) as f32), &[length, bins])
    };
    let real = frames.matmul(table(f64::cos))?;
    let imaginary = frames.matmul(table(f64::sin))?.negative()?;
    crate::change::complex(&real, &imaginary)
}

fn stft(run: &Run, v: &Variant) -> PortResult {
    transform(
        run,
        |stft, audio| {
            if !v.is("transform_by_matmul") {
                return spectrum(stft, audio);
            }
            let signal = padded(audio, stft.n_fft / 2, stft.padding)?;
            let frames = framed(&signal, stft.n_fft, stft.hop)?.multiply(stft.window.array(stft.n_fft))?;
            times_complex(&by_matmul(&frames)?, scale_of(stft).recip())
        },
        |found, gain| {
            let gain = if v.is("gain_backwards") { backwards(gain, 0)? } else { gain.clone() };
            found.multiply(gain)
        },
        |stft, spectrum, length| {
            if v.is("inverse_not_scaled") {
                return times(&inverse(stft, spectrum, length)?, stft.n_fft as f32);
            }
            let window = stft.window.array(stft.n_fft);
            let frames = irfft(times_complex(spectrum, scale_of(stft))?, stft.n_fft as i32, -1)?;
            let squares = ops::broadcast_to(&window.square()?.reshape(&[1, -1])?, frames.shape())?;
            let weights = overlapped(&squares, stft.hop)?;
            let windowed =
                if v.is("inverse_not_windowed") { frames.clone() } else { frames.multiply(&window)? };
            let start = stft.n_fft as i32 / 2;
            let inner = start..start + length as i32;
            let sum = if v.is("added_row_by_row") {
                row_by_row(&windowed, stft.hop)?
            } else if v.is("window_divided_first") {
                // Each frame is divided by its part of the weights.
                let safe = maximum(&weights, Array::from_f32(1e-11))?;
                let divided = windowed.divide(framed(&safe, stft.n_fft, stft.hop)?)?;
                return overlapped(&divided, stft.hop)?.try_index(inner);
            } else {
                overlapped(&windowed, stft.hop)?
            };
            sum.try_index(inner.clone())?.divide(weights.try_index(inner)?)
        },
    )
}

fn scale_of(stft: &Stft) -> f32 {
    if stft.normalized { (stft.n_fft as f32).sqrt() } else { 1.0 }
}

fn times_complex(x: &Array, factor: f32) -> Result<Array, Exception> {
    x.multiply(Array::from_f32(factor))
}

/// The sum of overlapping frames, one padded row after the other.
fn row_by_row(frames: &Array, hop: usize) -> Result<Array, Exception> {
    let (count, size) = (frames.dim(0), frames.dim(1));
    let length = (count - 1) * hop as i32 + size;
    let mut sum = zeros::<f32>(&[length])?;
    for at in 0..count {
        let before = at * hop as i32;
        let row = frames.try_index(at)?;
        sum = sum.add(ops::pad(&row, (before, length - size - before), None, None)?)?;
    }
    Ok(sum)
}
