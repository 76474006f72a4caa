//! Sizes of folders: measuring, printing and limiting them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

/// A size in decimal units, with one decimal below 10 and none above: `17 MB`, `2.5 GB`.
///
/// Hand-written, because crates for this print a fixed number of decimals.
pub fn words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // A value that would print as 1000 of a unit is 1 of the next.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// The bytes of all files in a folder and its subfolders, without following links; 0 when it does not exist.
pub fn of_folder(folder: &Path) -> u64 {
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    files.filter_map(|entry| entry.metadata().ok()).filter(|data| data.is_file()).map(|data| data.len()).sum()
}

/// How much fixtures and runs may take together, and how much one run may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// Bytes above which a command warns.
    pub warn: u64,
    /// Bytes above which a command stops.
    pub stop: u64,
    /// Bytes of one run above which it keeps no more actuals.
    #[serde(default = "keep_by_default")]
    pub keep: u64,
}

/// For runs of versions that had no such limit, too.
const fn keep_by_default() -> u64 {
    1_000_000_000
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self { warn: 1_000_000_000, stop: 10_000_000_000, keep: keep_by_default() }
    }
}

/// The bytes of a size such as `512 MiB`, `1.5 GB` or `4096`; `None` for anything else.
/// Hand-written, so that what the setting accepts does not change with a crate.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit: f64 = match text[end..].trim().to_lowercase().as_str() {
        "" | "b" | "bytes" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return None,
    };
    (number.is_finite() && number * unit < u64::MAX as f64).then_some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (16_918_164, "17 MB"),
            (999_999, "1.0 MB"),
            (2_460_000_000, "2.5 GB"),
            (5_000_000_000_000_000, "5000 TB"),
        ] {
            assert_eq!(words(bytes), text);
        }
    }

    #[test]
    fn settings_have_units() {
        for (text, bytes) in [
            ("12", 12),
            ("1.5 GB", 1_500_000_000),
            ("20GB", 20_000_000_000),
            ("512 MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("0", 0),
            (" 10 mb ", 10_000_000),
        ] {
            assert_eq!(parse(text), Some(bytes));
        }
        for text in ["", "GB", "10 parsecs", "-1", "1e400", "1.2.3"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
