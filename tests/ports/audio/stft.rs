//! The short-time Fourier transform and its inverse.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::fft::{irfft, rfft};
use mlx_rs::ops::indexing::TryIndexOp;
use serde::Deserialize;

use super::frames::{Padding, framed, overlapped, padded};
use super::window::Window;

/// A transform, with the names of `torch.stft`.
#[derive(Debug, Clone, Deserialize)]
pub struct Stft {
    /// Elements of a frame.
    pub n_fft: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// What each frame is multiplied with.
    pub window: Window,
    /// What stands before and after the signal: half a frame each, so that frame `i` is centred at sample `i * hop`.
    pub padding: Padding,
    /// Whether the transform is divided by the root of `n_fft`.
    pub normalized: bool,
}

impl Stft {
    fn scale(&self) -> Array {
        Array::from_f32(if self.normalized { (self.n_fft as f64).sqrt() as f32 } else { 1.0 })
    }
}

/// Maps a signal `[samples]` to complex numbers `[frames, n_fft / 2 + 1]`.
pub fn spectrum(stft: &Stft, audio: &Array) -> Result<Array, Exception> {
    let signal = padded(audio, stft.n_fft / 2, stft.padding)?;
    let frames = framed(&signal, stft.n_fft, stft.hop)?.multiply(stft.window.array(stft.n_fft))?;
    rfft(&frames, None, -1)?.divide(stft.scale())
}

/// Maps complex numbers `[frames, n_fft / 2 + 1]` to a signal of `length` samples.
pub fn inverse(stft: &Stft, spectrum: &Array, length: usize) -> Result<Array, Exception> {
    let window = stft.window.array(stft.n_fft);
    let frames = irfft(spectrum.multiply(stft.scale())?, stft.n_fft as i32, -1)?;
    let sum = overlapped(&frames.multiply(&window)?, stft.hop)?;
    // Each sample was multiplied with the window twice, once per transform, in each frame that holds it.
    let squares = window.square()?.reshape(&[1, -1])?;
    let squares = mlx_rs::ops::broadcast_to(&squares, &[frames.dim(0), stft.n_fft as i32])?;
    let weights = overlapped(&squares, stft.hop)?;
    let start = stft.n_fft as i32 / 2;
    let inner = start..start + length as i32;
    sum.try_index(inner.clone())?.divide(weights.try_index(inner)?)
}
