//! Mel filter banks. They are computed in float64, as libraries do, and then rounded.

use mlx_rs::Array;
use serde::Deserialize;

/// How frequencies become mels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Logarithmic from 0 Hz on.
    Htk,
    /// Linear up to 1000 Hz, then logarithmic.
    Slaney,
}

/// A bank of triangular filters.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Mel {
    /// The number of filters.
    pub filters: usize,
    /// Where the first filter starts, in Hz.
    pub low: f64,
    /// Where the last filter ends, in Hz.
    pub high: f64,
    /// The scale on which filters have equal distances.
    pub scale: Scale,
    /// Whether each filter is divided by half its width, so that wide filters do not weigh more.
    pub norm: bool,
}

impl Scale {
    fn mel(self, hertz: f64) -> f64 {
        match self {
            Self::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            Self::Slaney if hertz < 1000.0 => 3.0 * hertz / 200.0,
            Self::Slaney => 15.0 + 27.0 * (hertz / 1000.0).ln() / 6.4f64.ln(),
        }
    }

    fn hertz(self, mel: f64) -> f64 {
        match self {
            Self::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            Self::Slaney if mel < 15.0 => 200.0 * mel / 3.0,
            Self::Slaney => 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp(),
        }
    }
}

/// The weights `[bins, filters]` for `bins` frequencies from 0 to half the sample rate.
pub fn filter_bank(mel: &Mel, bins: usize, rate: f64) -> Array {
    let (first, last) = (mel.scale.mel(mel.low), mel.scale.mel(mel.high));
    let edge = |at: usize| mel.scale.hertz(first + (last - first) * at as f64 / (mel.filters + 1) as f64);
    let edges: Vec<f64> = (0..mel.filters + 2).map(edge).collect();
    let weight = |bin: usize, filter: usize| {
        let [start, peak, end] = [edges[filter], edges[filter + 1], edges[filter + 2]];
        let hertz = bin as f64 * rate / 2.0 / (bins - 1) as f64;
        let triangle = ((hertz - start) / (peak - start)).min((end - hertz) / (end - peak)).max(0.0);
        if mel.norm { triangle * 2.0 / (end - start) } else { triangle }
    };
    let all = (0..bins).flat_map(|bin| (0..mel.filters).map(move |filter| (bin, filter)));
    Array::from_iter(all.map(|(bin, filter)| weight(bin, filter) as f32), &[bins as i32, mel.filters as i32])
}
