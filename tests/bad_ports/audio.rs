//! Faults in the front-ends of audio models.

#[path = "../parity/audio.rs"]
pub(crate) mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::fft::irfft;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{broadcast_to, maximum};
use parity_tests::audio::{
    Config, Guard, Logarithm, Normalise, Padding, Scale, Shape, Stft, inverse, log_mel, overlapped, spectrum,
};
use right::transform;

/// The fault's name, and what it changes in the config.
type ConfigFault = (&'static str, fn(&mut Config));

const CONFIGS: &[ConfigFault] = &[
    ("htk_scale", |config| config.mel.scale = Scale::Htk),
    ("slaney_scale", |config| config.mel.scale = Scale::Slaney),
    ("no_norm", |config| config.mel.norm = false),
    ("htk_without_norm", |config| {
        config.mel.scale = Scale::Htk;
        config.mel.norm = false;
    }),
    // The default of librosa, for a model with another rate.
    ("rate_of_librosa", |config| config.rate = 22050.0),
    ("lower_end", |config| config.mel.high = 7600.0),
    ("symmetric_window", |config| config.window.periodic = false),
    ("periodic_window", |config| config.window.periodic = true),
    ("hamming_window", |config| config.window.shape = Shape::Hamming),
    // As long as the frame, in place of in its middle.
    ("long_window", |config| config.window.length = config.n_fft),
    ("zeros_around", |config| config.padding = Padding::Constant),
    ("mirrored_around", |config| config.padding = Padding::Reflect),
    ("magnitudes", |config| config.power = 1),
    ("powers", |config| config.power = 2),
    ("natural_logarithm", |config| config.logarithm = Logarithm::Natural),
    ("logarithm_to_ten", |config| config.logarithm = Logarithm::Ten),
    ("guard_of_vocoders", |config| config.guard = Guard::AtLeast(1e-5)),
    ("guard_of_whisper", |config| config.guard = Guard::AtLeast(1e-10)),
    ("guard_as_bound", |config| {
        if let Guard::Added(number) = config.guard {
            config.guard = Guard::AtLeast(number);
        }
    }),
    ("guard_added", |config| {
        if let Guard::AtLeast(number) = config.guard {
            config.guard = Guard::Added(number);
        }
    }),
    // Decibels in place of decades.
    ("range_in_decibels", |config| config.normalise = Normalise::Whisper { range: 80.0 }),
    ("no_range", |config| config.normalise = Normalise::Whisper { range: f32::INFINITY }),
    ("population_deviation", |config| config.normalise = Normalise::PerFilter { ddof: 0, eps: 1e-5 }),
    ("no_preemphasis", |config| config.preemphasis = 0.0),
];

type Forward = fn(&Stft, &Array) -> Result<Array, Exception>;
type Back = fn(&Stft, &Array, usize) -> Result<Array, Exception>;

/// The fault's name, what it changes in the transform, and the two directions.
type StftFault = (&'static str, fn(&mut Stft), Forward, Back);

const TRANSFORMS: &[StftFault] = &[
    ("symmetric_window", |stft| stft.window.periodic = false, spectrum, inverse),
    ("hann_for_hamming", |stft| stft.window.shape = Shape::Hann, spectrum, inverse),
    ("zeros_around", |stft| stft.padding = Padding::Constant, spectrum, inverse),
    ("not_normalized", |stft| stft.normalized = false, spectrum, inverse),
    // Engineers write the angle with the other sign.
    ("conjugated", |_| {}, |stft, audio| crate::change::conjugated(&spectrum(stft, audio)?), inverse),
    // The sum of windows, not of their squares.
    (
        "window_sum",
        |_| {},
        spectrum,
        |stft, given, length| {
            inverse_by(stft, given, length, |window| Ok(window.clone()), |sum, weights| sum.divide(weights))
        },
    ),
    (
        "sum_not_divided",
        |_| {},
        spectrum,
        |stft, given, length| inverse_by(stft, given, length, Array::square, |sum, _| Ok(sum.clone())),
    ),
    // The start of the padded signal in place of that of the signal.
    (
        "not_trimmed",
        |_| {},
        spectrum,
        |stft, given, length| {
            let whole = whole_inverse(stft, given, Array::square, |sum, weights| {
                sum.divide(maximum(weights, Array::from_f32(1e-11))?)
            })?;
            whole.try_index(..length as i32)
        },
    ),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = CONFIGS.iter().fold(right::ports(suite), |suite, &(name, fault)| {
        suite.port(format!("audio::log_mel/{name}"), move |run| with(run, fault))
    });
    TRANSFORMS.iter().fold(suite, |suite, &(name, fault, forward, back)| {
        suite.port(format!("audio::stft/{name}"), move |run| {
            let wrong = |stft: &Stft| {
                let mut stft = stft.clone();
                fault(&mut stft);
                stft
            };
            let filtered = |found: &Array, gain: &Array| found.multiply(gain);
            let there = |stft: &Stft, audio: &Array| forward(&wrong(stft), audio);
            transform(run, there, filtered, |stft, found, length| back(&wrong(stft), found, length))
        })
    })
}

/// Runs the front-end with this change to its config.
fn with(run: &Run, fault: fn(&mut Config)) -> PortResult {
    let mut config = run.params()?;
    fault(&mut config);
    log_mel(&config, &run.input("audio")?)?;
    Ok(())
}

/// The inverse transform with another weight per window, and another use of the sum of weights.
fn inverse_by(
    stft: &Stft,
    spectrum: &Array,
    length: usize,
    weight: impl Fn(&Array) -> Result<Array, Exception>,
    divided: impl Fn(&Array, &Array) -> Result<Array, Exception>,
) -> Result<Array, Exception> {
    let start = stft.n_fft as i32 / 2;
    whole_inverse(stft, spectrum, weight, divided)?.try_index(start..start + length as i32)
}

/// The same with the half frames before and after the signal.
fn whole_inverse(
    stft: &Stft,
    spectrum: &Array,
    weight: impl Fn(&Array) -> Result<Array, Exception>,
    divided: impl Fn(&Array, &Array) -> Result<Array, Exception>,
) -> Result<Array, Exception> {
    let window = stft.window.array(stft.n_fft);
    let scale = if stft.normalized { (stft.n_fft as f32).sqrt() } else { 1.0 };
    let frames = irfft(spectrum.multiply(Array::from_f32(scale))?, stft.n_fft as i32, -1)?;
    let sum = overlapped(&frames.multiply(&window)?, stft.hop)?;
    let weights = broadcast_to(&weight(&window)?.reshape(&[1, -1])?, frames.shape())?;
    divided(&sum, &overlapped(&weights, stft.hop)?)
}
