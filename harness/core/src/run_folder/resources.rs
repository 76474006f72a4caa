//! The resources that a port used: `resources.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::number;

/// The name of the file in the folder of each spec.
pub const RESOURCES: &str = "resources.json";

/// The content of `resources.json`. Memory is that of the checked pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// MLX's default stream, on which the port ran.
    pub stream: String,
    /// Bytes that MLX had in use when the port returned.
    pub active_bytes: u64,
    /// The most bytes that MLX had in use.
    pub peak_bytes: u64,
    /// Bytes that MLX kept for later use when the port returned.
    pub cache_bytes: u64,
    /// Resident memory of the worker when the port returned, if it is known.
    pub rss_bytes: Option<u64>,
    /// The most resident memory of the worker, if it is known.
    pub peak_rss_bytes: Option<u64>,
    /// Memory of the machine, if it is known.
    pub machine_bytes: Option<u64>,
    /// The port's own time, with an evaluation per tap.
    #[serde(with = "number")]
    pub port_millis: f64,
    /// Time in which the harness read, compared and wrote.
    #[serde(with = "number")]
    pub harness_millis: f64,
    /// Taps that were evaluated.
    pub evaluations: u64,
    /// The weights that the port took.
    pub weights: Option<WeightSize>,
    /// The port's own numbers, from `Run::metric`.
    pub metrics: BTreeMap<String, Metric>,
    /// Times of warm passes, with `PARITY_TIMES`.
    pub warm: Option<WarmPasses>,
}

/// A number in JSON, in which NaN and infinities are text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metric(#[serde(with = "number")] pub f64);

/// The weights that a port took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightSize {
    /// The number of tensors.
    pub tensors: u64,
    /// The number of elements. A packed element of a quantised weight counts once.
    pub parameters: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Median times of warm passes over the whole port, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmPasses {
    /// The number of passes of each kind.
    pub passes: u32,
    /// With an evaluation at each declared tap.
    #[serde(with = "number")]
    pub tapped_millis: f64,
    /// With a single evaluation, at the last declared tap.
    #[serde(with = "number")]
    pub untapped_millis: f64,
}
