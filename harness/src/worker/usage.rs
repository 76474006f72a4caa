//! What a port used: memory, time, evaluations and weights.

use std::process::Command;

use mlx_rs::{Stream, memory};

use super::port::Run;
use mlx_parity_core::record;
use mlx_parity_core::run_folder::Resources;

/// Counts what one pass of a port uses, tap by tap.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The port's own time up to the last tap.
    port_millis: f64,
    /// Taps that were evaluated.
    evaluations: u64,
    /// The most bytes that MLX had in use.
    peak_bytes: u64,
}

impl Usage {
    /// Counts a tap: the port's time since the previous one, and whether the array was evaluated. Returns MLX's memory.
    pub(super) fn tap(&mut self, millis: f64, evaluated: bool) -> Option<record::Memory> {
        self.port_millis += millis;
        self.evaluations += u64::from(evaluated);
        self.memory()
    }

    fn memory(&mut self) -> Option<record::Memory> {
        let active = memory::active_memory().ok()? as u64;
        let stage = memory::peak_memory().ok()? as u64;
        let cache = memory::cache_memory().ok()? as u64;
        self.peak_bytes = self.peak_bytes.max(stage);
        Some(record::Memory {
            active_bytes: active,
            peak_bytes: self.peak_bytes,
            stage_peak_bytes: stage,
            cache_bytes: cache,
        })
    }

    /// Starts a new stage: MLX's peak is the peak since this call.
    pub(super) fn next_stage() {
        // Without a reset, the peak of a stage is that of the run so far.
        let _ = memory::reset_peak_memory();
    }

    /// Returns what the pass used, once the port has returned. `rest` is the port's time after the last tap, `whole` the
    /// time of the pass.
    pub(super) fn resources(&mut self, run: &Run, rest: f64, whole: f64) -> Resources {
        let memory = self.memory();
        let port_millis = self.port_millis + rest;
        let (rss_bytes, peak_rss_bytes) = resident();
        Resources {
            stream: Stream::default().to_string(),
            active_bytes: memory.map_or(0, |memory| memory.active_bytes),
            peak_bytes: self.peak_bytes,
            cache_bytes: memory.map_or(0, |memory| memory.cache_bytes),
            rss_bytes,
            peak_rss_bytes,
            machine_bytes: machine_bytes(),
            port_millis,
            harness_millis: (whole - port_millis).max(0.0),
            evaluations: self.evaluations,
            weights: run.weight_size(),
            metrics: run.metrics(),
            warm: None,
        }
    }
}

/// Resident memory of this process now, and the most so far.
fn resident() -> (Option<u64>, Option<u64>) {
    if cfg!(target_os = "macos") {
        let id = std::process::id().to_string();
        return (output_of("ps", &["-o", "rss=", "-p", &id]).and_then(|text| kibibytes(&text)), None);
    }
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    (field(&text, "VmRSS:"), field(&text, "VmHWM:"))
}

/// The memory of the machine.
fn machine_bytes() -> Option<u64> {
    if cfg!(target_os = "macos") {
        return output_of("sysctl", &["-n", "hw.memsize"])?.parse().ok();
    }
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// A field of `/proc/self/status` or `/proc/meminfo`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(kibibytes)
}

fn kibibytes(text: &str) -> Option<u64> {
    text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the trimmed standard output of a command, or `None` if it fails or prints nothing.
pub(super) fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_kibibytes() {
        let text = "VmPeak:\t  900 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((field(text, "VmRSS:"), field(text, "VmHWM:")), (Some(1 << 20), Some(2 << 20)));
        assert_eq!(field(text, "VmSwap:"), None);
        assert_eq!(kibibytes("many kB"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_and_so_has_the_machine() {
        let (now, most) = resident();
        assert!(now > Some(0) && most >= now && machine_bytes() > now);
    }
}
