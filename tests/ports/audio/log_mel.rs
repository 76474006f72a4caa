//! Log-mel spectrograms, as Whisper, NeMo and vocoders compute them.

use mlx_parity_tap::tap;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::fft::rfft;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, maximum};
use serde::Deserialize;

use super::frames::{Padding, framed, padded};
use super::mel::{Mel, filter_bank};
use super::window::Window;

/// A front-end.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Samples per second.
    pub rate: f64,
    /// The part of the sample before that is subtracted from each sample; 0 for none.
    #[serde(default)]
    pub preemphasis: f32,
    /// Elements of a frame.
    pub n_fft: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// What each frame is multiplied with.
    pub window: Window,
    /// Elements before and after the signal.
    pub pad: usize,
    /// What these elements are.
    pub padding: Padding,
    /// Whether the last frame is left out, as Whisper does it.
    #[serde(default)]
    pub drop_last: bool,
    /// The power of the magnitudes: 1 or 2.
    pub power: u32,
    /// The filters.
    pub mel: Mel,
    /// The base of the logarithm.
    pub logarithm: Logarithm,
    /// What keeps zeros away from the logarithm.
    pub guard: Guard,
    /// What happens to the logarithms.
    pub normalise: Normalise,
}

/// The base of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logarithm {
    /// Base 10.
    Ten,
    /// The natural logarithm.
    Natural,
}

/// What keeps zeros away from a logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// No number below this one.
    AtLeast(f32),
    /// This number is added.
    Added(f32),
}

/// What happens to the logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalise {
    /// Nothing.
    None,
    /// Nothing is more than `range` below the largest number of all; then 4 is added, and the sum divided by 4.
    Whisper {
        /// Decades below the largest number.
        range: f32,
    },
    /// Each filter has mean 0 and deviation 1 over all frames.
    PerFilter {
        /// 1 for the deviation of a sample.
        ddof: i32,
        /// Added to the deviation.
        eps: f32,
    },
}

/// Maps a signal `[samples]` to features `[frames, filters]`.
pub fn log_mel(config: &Config, audio: &Array) -> Result<Array, Exception> {
    let signal = match config.preemphasis {
        0.0 => audio.clone(),
        part => {
            let before = audio.try_index(..-1)?.multiply(Array::from_f32(part))?;
            concatenate(&[audio.try_index(..1)?, audio.try_index(1..)?.subtract(before)?], 0)?
        }
    };
    let signal = padded(&signal, config.pad, config.padding)?;
    let mut frames = framed(&signal, config.n_fft, config.hop)?;
    if config.drop_last {
        frames = frames.try_index((..-1, ..))?;
    }
    let frames = tap("frames", frames.multiply(config.window.array(config.n_fft))?)?;
    let magnitudes = rfft(&frames, None, -1)?.abs()?;
    let power = tap("power", if config.power == 2 { magnitudes.square()? } else { magnitudes })?;
    let filters = tap("filters", filter_bank(&config.mel, config.n_fft / 2 + 1, config.rate))?;
    let mel = tap("mel", power.matmul(filters)?)?;
    let guarded = match config.guard {
        Guard::AtLeast(least) => maximum(&mel, Array::from_f32(least))?,
        Guard::Added(number) => mel.add(Array::from_f32(number))?,
    };
    let log = tap(
        "log",
        match config.logarithm {
            Logarithm::Ten => guarded.log10()?,
            Logarithm::Natural => guarded.log()?,
        },
    )?;
    tap("features", normalised(config.normalise, &log)?)
}

fn normalised(how: Normalise, log: &Array) -> Result<Array, Exception> {
    match how {
        Normalise::None => Ok(log.clone()),
        Normalise::Whisper { range } => {
            let least = log.max(None)?.subtract(Array::from_f32(range))?;
            maximum(log, least)?.add(Array::from_f32(4.0))?.divide(Array::from_f32(4.0))
        }
        Normalise::PerFilter { ddof, eps } => {
            let deviation = log.var_axis(0, true, ddof)?.sqrt()?.add(Array::from_f32(eps))?;
            log.subtract(log.mean_axis(0, true)?)?.divide(deviation)
        }
    }
}
