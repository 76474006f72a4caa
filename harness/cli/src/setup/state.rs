//! The inputs of a finished set-up, by which the next one finds out quickly whether anything changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::machine::Compiler;
use super::pins::{PinnedWheel, Pins};
use super::wheels;
use super::{SetupError, config, native};
use crate::cargo::cargo;
use crate::python::last_lines;
use crate::workspace::packages;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::hash::hex;
use mlx_parity_core::files::regular;

/// mlx-sys as `Cargo.lock` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockedMlxSys {
    pub(super) version: String,
    checksum: Option<String>,
}

/// Reads which mlx-sys the project uses.
pub(super) fn mlx_sys(root: &Path) -> Result<LockedMlxSys, SetupError> {
    #[derive(Deserialize)]
    struct Lock {
        #[serde(default)]
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let path = root.join("Cargo.lock");
    let text =
        regular::read_text(&path, regular::TEXT).map_err(|_| SetupError::NoLock { path: path.clone() })?;
    let lock: Lock = toml::from_str(&text)
        .map_err(|source| SetupError::Config { path: path.clone(), source: Box::new(source) })?;
    lock.package
        .into_iter()
        .find(|package| package.name == "mlx-sys")
        .map(|package| LockedMlxSys { version: package.version, checksum: package.checksum })
        .ok_or(SetupError::NoMlxSys { lock: path })
}

/// Lets Cargo write `Cargo.lock`, if that does not have mlx-sys yet but a package depends on mlx-rs.
///
/// A project that was just prepared has no lock, or one from before.
pub(super) fn ensure_lock(root: &Path) -> Result<(), SetupError> {
    if !matches!(mlx_sys(root), Err(SetupError::NoLock { .. } | SetupError::NoMlxSys { .. })) {
        return Ok(());
    }
    let packages = packages(root).unwrap_or_default();
    let needs_mlx = |name: &str| matches!(name, "mlx-rs" | "mlx-parity" | "mlx-parity-tap");
    if !packages.iter().flat_map(|package| &package.dependencies).any(|one| needs_mlx(&one.name)) {
        return Ok(());
    }
    eprintln!("resolving dependencies, so that Cargo.lock has mlx-sys");
    let output = cargo(root)
        .args(["metadata", "--format-version", "1"])
        .stdout(Stdio::null())
        .output()
        .map_err(|source| SetupError::Metadata { reason: source.to_string() })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(SetupError::Metadata { reason: last_lines(&output.stderr) }),
    }
}

/// The inputs of a build; a change in any of them needs a new build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetupState {
    root: PathBuf,
    mlx_sys: LockedMlxSys,
    wheels: Vec<String>,
    compiler: Compiler,
    recipe: String,
}

const FILE: &str = "state.json";

impl SetupState {
    pub(super) fn new(root: &Path, mlx_sys: &LockedMlxSys, pins: &Pins, compiler: &Compiler) -> Self {
        Self {
            root: root.to_owned(),
            mlx_sys: mlx_sys.clone(),
            wheels: both(pins).map(|wheel| wheel.sha256.to_owned()).to_vec(),
            compiler: compiler.clone(),
            recipe: hex(&Sha256::digest(native::RECIPE.join("\n"))),
        }
    }

    /// The state of the last finished set-up; none if its file does not exist or cannot be read.
    pub(super) fn read(home: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.join(FILE)).ok()?).ok()
    }

    pub(super) fn write(&self, home: &Path) -> Result<(), SetupError> {
        let path = home.join(FILE);
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_atomically(&path, |out| out.write_all(&text)).map_err(|source| SetupError::write(&path, source))
    }

    /// Whether no input has changed and every file that was made still exists.
    pub(super) fn is_current(&self, root: &Path, home: &Path, mlx_sys: &LockedMlxSys, pins: &Pins) -> bool {
        let native = self.native(home);
        *self == Self::new(root, mlx_sys, pins, &self.compiler)
            && self.compiler.is_current()
            && self.files(home, pins).iter().all(|file| file.is_file())
            && config::text(std::env::consts::ARCH, &native).ok()
                == fs::read_to_string(config::path(root)).ok()
    }

    /// The files that programs are compiled with and link against: MLX itself, mlx-c, the bindings.
    pub(super) fn files(&self, home: &Path, pins: &Pins) -> Vec<PathBuf> {
        let native = self.native(home);
        let runtime = wheels::folder(home, &pins.mlx).join("mlx/lib/libmlx.so");
        vec![runtime, native.join(native::LIBRARY), native.join(native::BINDINGS)]
    }

    /// The folder of the library and the bindings made from this state; it may not exist yet.
    pub(super) fn native(&self, home: &Path) -> PathBuf {
        let text = serde_json::to_vec(self).unwrap_or_default();
        home.join(format!("native-{}", &hex(&Sha256::digest(text))[..12]))
    }

    /// Removes what earlier set-ups left in `home`.
    pub(super) fn remove_others(&self, home: &Path, pins: &Pins) -> Result<(), SetupError> {
        let mut kept = both(pins).map(|wheel| wheels::folder(home, &wheel)).to_vec();
        kept.push(self.native(home));
        let entries = fs::read_dir(home).map_err(|source| SetupError::read(home, source))?;
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.is_dir() && !kept.contains(&path) {
                wheels::remove_folder(&path)?;
            }
        }
        Ok(())
    }
}

fn both(pins: &Pins) -> [PinnedWheel; 2] {
    [pins.mlx, pins.libclang]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(text: &str) -> Result<LockedMlxSys, SetupError> {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("Cargo.lock"), text).unwrap();
        mlx_sys(root.path())
    }

    #[test]
    fn the_version_of_mlx_sys_is_read_from_the_lock() {
        let found =
            locked("version = 4\n[[package]]\nname = \"mlx-sys\"\nversion = \"0.7.0\"\nchecksum = \"ab\"");
        assert_eq!(found.unwrap(), LockedMlxSys { version: "0.7.0".into(), checksum: Some("ab".into()) });
        assert!(matches!(locked("version = 4\n"), Err(SetupError::NoMlxSys { .. })));
        assert!(matches!(locked("<<<<<<< HEAD"), Err(SetupError::Config { .. })));
        assert!(matches!(mlx_sys(Path::new("/nowhere")), Err(SetupError::NoLock { .. })));
    }

    #[test]
    fn a_state_that_was_cut_short_counts_as_none() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), "{\"root\": \"/x\", \"mlx").unwrap();
        assert_eq!(SetupState::read(home.path()), None);
    }
}
