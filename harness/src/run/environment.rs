//! What a run was made in: `run.json`, so that two runs can be told apart later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::Job;

/// Environment variables that change what MLX computes.
const NUMERIC: &[&str] = &[
    "MLX_ENABLE_TF32",
    "MLX_DISABLE_COMPILE",
    "MLX_METAL_GPU_ARCH",
    "MLX_METAL_JIT",
    "MLX_SDPA_BLOCKS",
    "MLX_MAX_OPS_PER_BUFFER",
    "MLX_MAX_MB_PER_BUFFER",
];

/// The content of `run.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Environment {
    spec: String,
    level: u8,
    device: String,
    os: String,
    arch: String,
    mlx_parity: String,
    started: String,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// What this process runs in; `device` is what MLX runs on.
    pub(super) fn of(job: &Job, device: &str) -> Self {
        let variables =
            NUMERIC.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
        Self {
            spec: job.spec.clone(),
            level: job.level,
            device: device.to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            mlx_parity: env!("CARGO_PKG_VERSION").to_owned(),
            started: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            variables,
        }
    }
}
