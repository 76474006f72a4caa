//! Checks that Cargo runs the suite without libtest's own harness, which finds no test in it and passes.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Project;
use super::workspace::{WorkspaceError, packages};
use mlx_parity_core::files::regular::{TEXT, read_text};

/// Why `cargo test` would not run the suite.
#[derive(Debug, Error)]
pub(crate) enum SuiteTargetError {
    #[error("the test target `{target}` cannot be looked for")]
    Workspace { target: String, source: WorkspaceError },
    #[error("no package of the workspace has a test target `{target}`, so no checkpoint is ever checked")]
    NoTarget { target: String },
    #[error("cannot read `{}`", manifest.display())]
    Read { manifest: PathBuf, source: io::Error },
    #[error("`{}` is not valid TOML", manifest.display())]
    Manifest { manifest: PathBuf, source: Box<toml::de::Error> },
    #[error(
        "test target `{target}` of `{}` has no `harness = false`: libtest finds no test in it, so `cargo test` \
         prints `running 0 tests` and passes",
        manifest.display()
    )]
    Harness { target: String, manifest: PathBuf, is_listed: bool },
    #[error("test target `{target}` of `{}` has `test = false`, so `cargo test` skips it", manifest.display())]
    LeftOut { target: String, manifest: PathBuf },
}

impl SuiteTargetError {
    /// Returns what to do about it.
    pub(crate) fn next(&self) -> String {
        match self {
            Self::Workspace { source, .. } => source.next(),
            Self::Read { .. } | Self::Manifest { .. } => "correct the manifest".into(),
            Self::NoTarget { target } => format!(
                "write the suite in tests/{target}.rs, and add {} to the Cargo.toml beside `tests`; or name another target \
                 with `suite` in `[workspace.metadata.parity]`, or with `Project::suite` in an xtask",
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

/// Returns the manifests of the packages that have the suite as a test target, if each runs it without libtest's harness.
///
/// Cargo lists the packages and targets, since it alone knows members, globs and `autotests`. It does not show `harness`,
/// so that is read from the manifest.
pub(crate) fn check_suite_target(project: &Project) -> Result<Vec<PathBuf>, SuiteTargetError> {
    let target = project.suite_target();
    let packages = packages(project.root())
        .map_err(|source| SuiteTargetError::Workspace { target: target.to_owned(), source })?;
    let packages = packages.into_iter().filter(|package| package.has_target("test", Some(target)));
    let manifests: Vec<PathBuf> = packages.map(|package| package.manifest_path).collect();
    if manifests.is_empty() {
        return Err(SuiteTargetError::NoTarget { target: target.to_owned() });
    }
    for manifest in &manifests {
        check_manifest(manifest, target)?;
    }
    Ok(manifests)
}

fn check_manifest(manifest: &Path, target: &str) -> Result<(), SuiteTargetError> {
    let (owned, manifest) = (target.to_owned(), manifest.to_owned());
    let text = match read_text(&manifest, TEXT) {
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
