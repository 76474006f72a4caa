//! Compares the packages of an environment with its lock: somebody may have changed the environment since it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{ReferencesError, last_lines};
use mlx_parity_core::files::regular;

/// Names and versions of packages, both as they are compared.
pub(super) type Packages = BTreeSet<(String, String)>;

/// Lists the packages of the environment itself, without those that PYTHONPATH adds.
const LIST: &str = "import json
from importlib import metadata
print(json.dumps([[one.metadata['Name'] or '?', one.version or '?'] for one in metadata.distributions()]))";

/// The packages of an environment, as its own Python lists them.
pub(super) fn installed(environment: &Path) -> Result<Packages, ReferencesError> {
    let program = environment.join("bin/python");
    let broken = |reason: String| ReferencesError::Broken { program: program.clone(), reason };
    let output = Command::new(&program)
        .args(["-I", "-c", LIST])
        .env_remove("PYTHONHOME")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| broken(error.to_string()))?;
    let found: Vec<(String, String)> =
        serde_json::from_slice(&output.stdout).map_err(|_| broken(last_lines(&output.stderr)))?;
    Ok(found.iter().map(|(name, version)| (plain_name(name), plain_version(version))).collect())
}

/// The versions that a lock has of each package; one without a version may be any, as a checkout's own package is.
pub(super) struct UvLock(BTreeMap<String, Vec<Option<String>>>);

impl UvLock {
    /// Reads the `uv.lock` in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, ReferencesError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            package: Vec<Package>,
        }
        #[derive(Deserialize)]
        struct Package {
            name: String,
            version: Option<String>,
        }
        let path = folder.join("uv.lock");
        let text = regular::read_text(&path, regular::TEXT)
            .map_err(|source| ReferencesError::Read { path: path.clone(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| ReferencesError::Toml { path, source: Box::new(source) })?;
        let mut versions: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for package in file.package {
            let version = package.version.as_deref().map(plain_version);
            versions.entry(plain_name(&package.name)).or_default().push(version);
        }
        Ok(Self(versions))
    }

    /// Why a package in that version does not match the lock; none if it does.
    pub(super) fn fault(&self, name: &str, version: &str) -> Option<String> {
        let (name, version) = (plain_name(name), plain_version(version));
        let Some(locked) = self.0.get(&name) else {
            return Some(format!("{name} {version} is not in the lock"));
        };
        let fits = |locked: &Option<String>| locked.as_ref().is_none_or(|locked| *locked == version);
        let versions: Vec<&str> = locked.iter().flatten().map(String::as_str).collect();
        (!locked.iter().any(fits))
            .then(|| format!("{name} is {version}, but the lock has {}", versions.join(" or ")))
    }

    /// Whether the lock has a package.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(&plain_name(name))
    }

    /// Every difference between the installed packages and the lock, or the packages at the time the environment was made.
    pub(super) fn faults(&self, made: &Packages, installed: &Packages) -> Vec<String> {
        let mut found: Vec<String> =
            installed.iter().filter_map(|(name, version)| self.fault(name, version)).collect();
        let names: BTreeSet<&String> = installed.iter().map(|(name, _)| name).collect();
        let gone = made.iter().filter(|(name, _)| !names.contains(name));
        found.extend(gone.map(|(name, version)| format!("{name} {version} is missing")));
        // The lock may have two versions of a package, for two systems; only one belongs here.
        if found.is_empty() {
            let other = installed.iter().filter(|one| !made.contains(*one));
            found.extend(other.map(|(name, version)| format!("{name} {version} was added later")));
        }
        found
    }
}

/// A package's name as it is compared: `ml_dtypes`, `ML-DTypes` and `ml.dtypes` are one.
fn plain_name(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

/// A version as it is compared. Locks have it as PEP 440 writes it, packages as somebody wrote it: `2024.07.04` is
/// `2024.7.4`.
fn plain_version(version: &str) -> String {
    let lower = version.trim().to_lowercase().replace(['-', '_'], ".");
    let lower = lower.strip_prefix('v').unwrap_or(&lower);
    let short = |part: &str| match part.trim_start_matches('0') {
        _ if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) => part.to_owned(),
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    };
    lower.split('.').map(short).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> UvLock {
        let folder = tempfile::tempdir().unwrap();
        let text = "version = 1\n[[package]]\nname = \"numpy\"\nversion = \"2.4.6\"\n\
            [[package]]\nname = \"numpy\"\nversion = \"2.2.0\"\n[[package]]\nname = \"ml-dtypes\"\nversion = \"0.6.0\"\n\
            [[package]]\nname = \"certifi\"\nversion = \"2024.7.4\"\n[[package]]\nname = \"parity-export\"\n";
        std::fs::write(folder.path().join("uv.lock"), text).unwrap();
        UvLock::read(folder.path()).unwrap()
    }

    fn packages(found: &[(&str, &str)]) -> Packages {
        found.iter().map(|(name, version)| (plain_name(name), plain_version(version))).collect()
    }

    #[test]
    fn installed_packages_must_match_the_lock() {
        let lock = lock();
        let made = packages(&[("numpy", "2.4.6"), ("ML_dtypes", "0.6.0"), ("certifi", "2024.07.04")]);
        assert_eq!(lock.faults(&made, &made), [""; 0]);
        let own = packages(&[("numpy", "2.4.6"), ("parity_export", "0.0.1")]);
        assert_eq!(lock.faults(&own, &own), [""; 0]);
        let other = packages(&[("numpy", "2.3.5"), ("jax", "0.9")]);
        assert_eq!(
            lock.faults(&made, &other),
            [
                "jax 0.9 is not in the lock",
                "numpy is 2.3.5, but the lock has 2.4.6 or 2.2.0",
                "certifi 2024.7.4 is missing",
                "ml-dtypes 0.6.0 is missing",
            ]
        );
        let sibling = packages(&[("numpy", "2.2.0")]);
        assert_eq!(lock.faults(&packages(&[("numpy", "2.4.6")]), &sibling), ["numpy 2.2.0 was added later"]);
    }
}
