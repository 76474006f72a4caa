//! Versions of the Rust compiler: the oldest that a project builds with, and how two versions compare.

use std::path::Path;

use mlx_parity_core::files::regular;

/// Returns `rust-version` from the manifest in `root`: the workspace's, or else the package's.
pub(crate) fn rust_version(root: &Path) -> Option<String> {
    let text = regular::read_text(&root.join("Cargo.toml"), regular::TEXT).ok()?;
    let manifest: toml::Table = toml::from_str(&text).ok()?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let package = package.or_else(|| manifest.get("package"))?;
    Some(package.get("rust-version")?.as_str()?.to_owned())
}

/// Whether the compiler that printed `line` for `--version` is at least as new as `oldest`.
pub(crate) fn is_new_enough(line: &str, oldest: &str) -> bool {
    let version = line.split_whitespace().nth(1).unwrap_or_default();
    numbers(version) >= numbers(oldest)
}

/// Returns the parts of a version as numbers. A `rust-version` may have two parts, which a semver parser rejects; a
/// suffix such as `-nightly` does not count.
fn numbers(version: &str) -> Vec<u32> {
    let plain = version.split('-').next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(is_new_enough("rustc 1.100.0 (abc 2027-01-01)", "1.94"));
        assert!(is_new_enough("rustc 1.94.0-nightly (abc 2026-01-01)", "1.94"));
        assert!(!is_new_enough("rustc 1.93.1", "1.94"));
        assert!(!is_new_enough("", "1.94"));
    }

    #[test]
    fn the_oldest_rust_is_read_from_the_manifest() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(rust_version(root.path()), None);
        let path = root.path().join("Cargo.toml");
        std::fs::write(&path, "[package]\nrust-version = \"1.90\"\n").unwrap();
        assert_eq!(rust_version(root.path()).as_deref(), Some("1.90"));
        std::fs::write(&path, "[workspace.package]\nrust-version = \"999.0\"\n").unwrap();
        assert_eq!(rust_version(root.path()).as_deref(), Some("999.0"));
    }
}
