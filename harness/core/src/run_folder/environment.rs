//! The environment of a run: `run.json`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of the file in the folder of each spec.
pub const ENVIRONMENT: &str = "run.json";

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The id of the spec.
    pub spec: String,
    /// The level up to which checkpoints were checked.
    pub level: u8,
    /// The device of MLX, `cpu` or `gpu`.
    pub device: String,
    /// The version of MLX.
    pub mlx: String,
    /// The version of mlx-parity.
    pub mlx_parity: String,
    /// The processor, as the system names it.
    pub chip: String,
    /// The number of processor cores.
    pub cores: usize,
    /// The operating system.
    pub os: String,
    /// The version of the operating system.
    pub os_version: String,
    /// The processor architecture.
    pub arch: String,
    /// Whether the port was built with optimisation.
    pub optimised: bool,
    /// When the worker started.
    pub started: String,
    /// The recorded environment variables.
    pub variables: BTreeMap<String, String>,
}

/// Prints `MLX 0.32.2 on cpu, linux x86_64, …`.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MLX {} on {}, {} {}, {}", self.mlx, self.device, self.os, self.arch, self.chip)
    }
}
