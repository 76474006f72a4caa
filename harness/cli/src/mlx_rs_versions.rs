//! Finds a second mlx-rs in a project. Its `Array` is another type than the one that mlx-parity takes.

use std::path::Path;

use semver::{Version, VersionReq};
use serde::Deserialize;

use super::workspace::Package;
use mlx_parity_core::files::regular;

/// The mlx-rs that mlx-parity is built with, as its manifest asks for it.
pub(crate) const WANTED: &str = "0.33";
const MINOR: u64 = 33;
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What to do about a second mlx-rs.
pub(crate) fn next() -> String {
    format!(
        "use mlx-rs {WANTED} everywhere (`cargo tree --invert mlx-rs` shows who asks for another). For a fork of {WANTED}, \
         add `[patch.crates-io]` with `mlx-rs = {{ git = \"…\" }}` to the workspace's Cargo.toml: it then replaces mlx-rs for \
         mlx-parity too. For another version, use a revision of mlx-parity that is built with it"
    )
}

/// Returns the problem of a package whose own mlx-rs is not the one of mlx-parity; none if they can be the same.
pub(crate) fn declared(package: &Package) -> Option<String> {
    let own = package.dependencies.iter().find(|dependency| dependency.name == "mlx-rs")?;
    let what = match own.source.as_deref() {
        Some(CRATES_IO) if allows(&own.req) => return None,
        Some(CRATES_IO) => format!("mlx-rs {}", own.req),
        Some(source) => format!("mlx-rs from `{source}`"),
        None => "mlx-rs from a folder".to_owned(),
    };
    Some(format!(
        "package `{}` depends on {what}, but mlx-parity on mlx-rs {WANTED} from crates.io: {DIFFERENT}",
        package.name
    ))
}

const DIFFERENT: &str = "their `Array` types are different, so the port's arrays do not fit into `tap` (the compiler reports `expected \
     mlx_rs::Array, found mlx_rs::Array`)";

/// Whether a requirement allows a version that mlx-parity allows, too.
fn allows(requirement: &str) -> bool {
    let Ok(requirement) = VersionReq::parse(requirement) else { return false };
    (0..100).any(|patch| requirement.matches(&Version::new(0, MINOR, patch)))
}

/// Returns the problem of a lock with more than one mlx-rs; none if it has one, or cannot be read.
pub(crate) fn locked(root: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Lock {
        #[serde(default)]
        package: Vec<LockedPackage>,
    }
    #[derive(Deserialize)]
    struct LockedPackage {
        name: String,
        version: String,
        source: Option<String>,
    }
    let text = regular::read_text(&root.join("Cargo.lock"), regular::TEXT).ok()?;
    let lock: Lock = toml::from_str(&text).ok()?;
    let found: Vec<String> = lock
        .package
        .iter()
        .filter(|package| package.name == "mlx-rs")
        .map(|package| match package.source.as_deref() {
            Some(CRATES_IO) => package.version.clone(),
            Some(other) => format!("{} from `{other}`", package.version),
            None => format!("{} from a folder", package.version),
        })
        .collect();
    (found.len() > 1).then(|| format!("Cargo.lock has mlx-rs {}: {DIFFERENT}", found.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(req: &str, source: Option<&str>) -> Package {
        let source = source.map(str::to_owned);
        let own = Dependency { name: "mlx-rs".into(), req: req.into(), source };
        Package {
            name: "port".into(),
            manifest_path: "/port/Cargo.toml".into(),
            targets: Vec::new(),
            dependencies: vec![own],
        }
    }

    #[test]
    fn another_version_or_source_is_a_second_array_type() {
        for fits in ["^0.33", "=0.33.2", ">=0.30, <0.40", "*"] {
            assert_eq!(declared(&package(fits, Some(CRATES_IO))), None, "{fits}");
        }
        let other = declared(&package("^0.25.1", Some(CRATES_IO))).unwrap();
        assert!(other.contains("`port` depends on mlx-rs ^0.25.1"), "{other}");
        let fork = declared(&package("*", Some("git+https://example.invalid/mlx-rs"))).unwrap();
        assert!(fork.contains("from `git+https://example.invalid/mlx-rs`"), "{fork}");
        assert!(declared(&package("*", None)).unwrap().contains("from a folder"));
    }

    #[test]
    fn two_versions_in_a_lock_are_a_problem() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(locked(root.path()), None);
        let one = "[[package]]\nname = \"mlx-rs\"\nversion = \"0.33.0\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        std::fs::write(root.path().join("Cargo.lock"), one).unwrap();
        assert_eq!(locked(root.path()), None);
        let two = format!("{one}[[package]]\nname = \"mlx-rs\"\nversion = \"0.25.0\"\n");
        std::fs::write(root.path().join("Cargo.lock"), two).unwrap();
        assert!(locked(root.path()).unwrap().contains("mlx-rs 0.33.0 and 0.25.0 from a folder: "));
    }

    /// The workspace's manifest decides which mlx-rs mlx-parity is built with.
    #[test]
    fn the_wanted_version_is_that_of_the_workspace() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("Cargo.toml");
        let table: toml::Table = toml::from_str(&std::fs::read_to_string(manifest).unwrap()).unwrap();
        assert_eq!(table["workspace"]["dependencies"]["mlx-rs"]["version"].as_str(), Some(WANTED));
        assert_eq!(WANTED, format!("0.{MINOR}"));
    }
}
