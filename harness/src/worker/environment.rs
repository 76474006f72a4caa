//! The environment of a run: machine, versions and settings.

use super::usage::output_of;
use mlx_parity_core::run_folder::{Environment, Job};

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

/// Returns the environment of this process. `device` and `mlx` are MLX's device and version.
pub(super) fn environment(job: &Job, device: &str, mlx: String) -> Environment {
    let variables =
        NUMERIC.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    Environment {
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

fn chip() -> Option<String> {
    if cfg!(target_os = "macos") {
        return output_of("sysctl", &["-n", "machdep.cpu.brand_string"]);
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

fn os_version() -> Option<String> {
    if cfg!(target_os = "macos") {
        return output_of("sw_vers", &["-productVersion"]);
    }
    std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned())
}
