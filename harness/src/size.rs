//! Sizes of folders: what they are, how they are written, and how much is too much.

use std::path::Path;

use thiserror::Error;
use walkdir::WalkDir;

/// A size as people read it: `17 MB`, `2.5 GB`.
pub(crate) fn words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // What would be written as 1000 of a unit is 1 of the next.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// The bytes of all files below a folder, links not followed; 0 where there is none.
pub(crate) fn of_folder(folder: &Path) -> u64 {
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    files.filter_map(|entry| entry.metadata().ok()).filter(|data| data.is_file()).map(|data| data.len()).sum()
}

/// A setting that is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{name} is `{found}`, expected a size such as `500 MB`, `10 GB` or a number of bytes")]
pub(crate) struct SizeError {
    name: &'static str,
    found: String,
}

/// How much fixtures and runs may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) warn: u64,
    pub(crate) stop: u64,
}

impl Limits {
    /// 1 GB and 10 GB, or what `PARITY_SIZE_WARN` and `PARITY_SIZE_LIMIT` say.
    pub(crate) fn read() -> Result<Self, SizeError> {
        let setting = |name, default| match std::env::var_os(name) {
            None => Ok(default),
            Some(value) => {
                let found = value.to_string_lossy().into_owned();
                parse(&found).ok_or(SizeError { name, found })
            }
        };
        Ok(Self {
            warn: setting("PARITY_SIZE_WARN", 1_000_000_000)?,
            stop: setting("PARITY_SIZE_LIMIT", 10_000_000_000)?,
        })
    }
}

fn parse(text: &str) -> Option<u64> {
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
