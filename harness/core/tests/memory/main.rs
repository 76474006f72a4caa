//! The memory of comparison and diagnosis. This is a separate binary, since both tests measure the whole process: any other
//! test that runs at the same time would count.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod diagnose;

use std::sync::{Mutex, MutexGuard};

/// Lock that the measuring test holds.
static MEASURING: Mutex<()> = Mutex::new(());

/// Waits until no other test measures.
fn measure_alone() -> MutexGuard<'static, ()> {
    // A failed test has released the lock as well.
    MEASURING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A number of bytes that the kernel reports for this process.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
