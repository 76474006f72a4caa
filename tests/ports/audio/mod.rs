//! Front-ends of audio models: log-mel spectrograms, and the short-time Fourier transform with its inverse.

mod frames;
mod log_mel;
mod mel;
mod stft;
mod window;

pub use frames::{Padding, framed, overlapped, padded};
pub use log_mel::{Config, Guard, Logarithm, Normalise, log_mel};
pub use mel::{Mel, Scale, filter_bank};
pub use stft::{Stft, inverse, spectrum};
pub use window::{Shape, Window};
