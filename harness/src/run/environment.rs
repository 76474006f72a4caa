//! What a run was made in: `run.json`, so that two runs can be told apart later.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::job::Job;

/// The file, in the folder of each spec.
pub(super) const ENVIRONMENT: &str = "run.json";

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    spec: String,
    level: u8,
    /// What MLX runs on, `cpu` or `gpu`.
    device: String,
    /// The version of MLX that answered.
    mlx: String,
    mlx_parity: String,
    /// The processor, as the system names it.
    chip: String,
    cores: usize,
    os: String,
    os_version: String,
    arch: String,
    /// Whether the port was built with optimisation.
    optimised: bool,
    started: String,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// What this process runs in, with what MLX says of itself.
    pub(super) fn of(job: &Job, device: &str, mlx: String) -> Self {
        let variables =
            NUMERIC.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
        Self {
            spec: job.spec.clone(),
            level: job.level,
            device: device.to_owned(),
            mlx,
            mlx_parity: env!("CARGO_PKG_VERSION").to_owned(),
            chip: chip().unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            os: std::env::consts::OS.to_owned(),
            os_version: os_version().unwrap_or_else(|| "unknown".to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
            optimised: !cfg!(debug_assertions),
            started: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            variables,
        }
    }
}

/// `MLX 0.32.2 on cpu, linux x86_64, …`.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MLX {} on {}, {} {}, {}", self.mlx, self.device, self.os, self.arch, self.chip)
    }
}

fn chip() -> Option<String> {
    if cfg!(target_os = "macos") {
        return said("sysctl", &["-n", "machdep.cpu.brand_string"]);
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

fn os_version() -> Option<String> {
    if cfg!(target_os = "macos") {
        return said("sw_vers", &["-productVersion"]);
    }
    std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned())
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}
