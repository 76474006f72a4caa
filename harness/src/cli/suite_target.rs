//! Whether Cargo runs the suite as a suite: libtest's own harness finds no test in it, and passes.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::Project;
use super::cargo::cargo;

/// Why `cargo test` would not run the suite.
#[derive(Debug, Error)]
pub(crate) enum SuiteTargetError {
    #[error("cannot start Cargo to ask for the test target `{target}`")]
    Start { target: String, source: io::Error },
    #[error("Cargo cannot tell whether there is a test target `{target}`: {said}")]
    Metadata { target: String, said: String },
    #[error("no package of the workspace has a test target `{target}`, so no checkpoint is ever run")]
    NoTarget { target: String },
    #[error("cannot read `{}`", manifest.display())]
    Read { manifest: PathBuf, source: io::Error },
    #[error("`{}` cannot be understood", manifest.display())]
    Manifest { manifest: PathBuf, source: Box<toml::de::Error> },
    #[error(
        "test target `{target}` of `{}` is without `harness = false`: libtest finds no test in it, so `cargo test` \
         prints `running 0 tests` and passes",
        manifest.display()
    )]
    Harness { target: String, manifest: PathBuf, is_listed: bool },
    #[error("test target `{target}` of `{}` has `test = false`, so `cargo test` leaves it out", manifest.display())]
    LeftOut { target: String, manifest: PathBuf },
}

impl SuiteTargetError {
    /// What mends it.
    pub(crate) fn next(&self) -> String {
        match self {
            Self::Start { .. } => "install Cargo (https://rustup.rs)".into(),
            Self::Metadata { .. } => "see what `cargo metadata --no-deps` says in the project's root".into(),
            Self::Read { .. } | Self::Manifest { .. } => "mend the manifest".into(),
            Self::NoTarget { target } => format!(
                "write the suite in tests/{target}.rs, and add {} to the Cargo.toml beside `tests`; or name another target \
                 with `Project::suite`",
                lines(target)
            ),
            Self::Harness { target, is_listed: false, .. } => format!("add {} to it", lines(target)),
            Self::Harness { target, is_listed: true, .. } => {
                format!("add the line `harness = false` to its `[[test]]` named `{target}`")
            }
            Self::LeftOut { .. } => "remove the line `test = false`".into(),
        }
    }
}

fn lines(target: &str) -> String {
    format!("the lines `[[test]]`, `name = \"{target}\"` and `harness = false`")
}

/// The manifests of the packages that have the suite as a test target, if each runs it without libtest's harness.
///
/// Cargo is asked which packages and targets there are, since it alone knows members, globs and `autotests`. It does not
/// show `harness`, which is read from the manifest.
pub(crate) fn check_suite_target(project: &Project) -> Result<Vec<PathBuf>, SuiteTargetError> {
    let target = project.suite_target();
    let manifests = manifests(project.root(), target)?;
    if manifests.is_empty() {
        return Err(SuiteTargetError::NoTarget { target: target.to_owned() });
    }
    for manifest in &manifests {
        check_manifest(manifest, target)?;
    }
    Ok(manifests)
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

fn manifests(root: &Path, target: &str) -> Result<Vec<PathBuf>, SuiteTargetError> {
    let owned = || target.to_owned();
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .map_err(|source| SuiteTargetError::Start { target: owned(), source })?;
    let failed = |said: String| SuiteTargetError::Metadata { target: owned(), said };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Err(failed(said.join("; ")));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    let is_suite = |one: &Target| one.name == target && one.kind.iter().any(|kind| kind == "test");
    let packages = metadata.packages.into_iter().filter(|package| package.targets.iter().any(is_suite));
    Ok(packages.map(|package| package.manifest_path).collect())
}

fn check_manifest(manifest: &Path, target: &str) -> Result<(), SuiteTargetError> {
    let (owned, manifest) = (target.to_owned(), manifest.to_owned());
    let text = match crate::regular::read_text(&manifest, crate::regular::TEXT) {
        Ok(text) => text,
        Err(source) => return Err(SuiteTargetError::Read { manifest, source }),
    };
    let table: toml::Table = match toml::from_str(&text) {
        Ok(table) => table,
        Err(source) => return Err(SuiteTargetError::Manifest { manifest, source: Box::new(source) }),
    };
    let tests = table.get("test").and_then(toml::Value::as_array);
    let listed = tests
        .into_iter()
        .flatten()
        .find(|test| test.get("name").and_then(toml::Value::as_str) == Some(target));
    let is_false =
        |key: &str| listed.and_then(|test| test.get(key)).and_then(toml::Value::as_bool) == Some(false);
    if !is_false("harness") {
        return Err(SuiteTargetError::Harness { target: owned, manifest, is_listed: listed.is_some() });
    }
    if is_false("test") {
        return Err(SuiteTargetError::LeftOut { target: owned, manifest });
    }
    Ok(())
}
