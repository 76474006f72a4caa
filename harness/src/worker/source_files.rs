//! The folders in which a worker looks for the source of the port and of the reference.

use std::path::{Path, PathBuf};

use mlx_parity_core::details::Sources;
use mlx_parity_core::golden::FixtureSet;

/// How many folders above the package and above the specs are searched.
const MOST_ABOVE: usize = 6;

/// Returns the source files of a run.
///
/// The compiler names files relative to the root of the workspace, and Cargo runs tests in the folder of their package, which
/// is inside. Lines of Python packages come from the environments of the reference scripts, but only from an environment
/// with the versions that made the goldens: in another version, the line can be another one.
pub(super) fn source_files(spec_root: &Path, fixtures: Option<&FixtureSet>) -> Sources {
    let here = std::env::current_dir().unwrap_or_default();
    let mut roots: Vec<PathBuf> = here
        .ancestors()
        .take(MOST_ABOVE)
        .chain(spec_root.ancestors().take(MOST_ABOVE))
        .map(Into::into)
        .collect();
    let environments: Vec<PathBuf> = roots.iter().flat_map(|root| environments(root)).collect();
    let packages = fixtures.map(packages).unwrap_or_default();
    roots.extend(environments.into_iter().filter(|folder| has_all(folder, &packages)));
    let mut known = std::collections::HashSet::new();
    roots.retain(|root| known.insert(root.clone()));
    Sources::below(roots)
}

/// The folders of Python packages in the environments below `root`.
fn environments(root: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let home = root.join(".parity/references");
    let made = inside(&home.join("groups")).into_iter().chain([home.join("plain")]);
    let libraries = made.flat_map(|environment| inside(&environment.join("lib")));
    libraries.map(|library| library.join("site-packages")).filter(|folder| folder.is_dir()).collect()
}

/// The Python packages that made the goldens, as pairs of name and version.
fn packages(fixtures: &FixtureSet) -> Vec<(String, String)> {
    let packages = fixtures.manifest().provenance.get("packages").and_then(|packages| packages.as_object());
    let version =
        |(name, version): (&String, &serde_json::Value)| Some((name.clone(), version.as_str()?.to_owned()));
    packages.into_iter().flatten().filter_map(version).collect()
}

/// Whether a folder of packages holds each of these in the same version.
fn has_all(folder: &Path, packages: &[(String, String)]) -> bool {
    let is_there = |(name, version): &(String, String)| {
        folder.join(format!("{}-{version}.dist-info", name.replace('-', "_"))).is_dir()
    };
    !packages.is_empty() && packages.iter().all(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_counts_only_with_the_same_versions() {
        let home = tempfile::tempdir().unwrap();
        let site = home.path().join(".parity/references/groups/torch/lib/python3.11/site-packages");
        std::fs::create_dir_all(site.join("huggingface_hub-1.2.dist-info")).unwrap();
        assert_eq!(environments(home.path()), std::slice::from_ref(&site));
        let package = |version: &str| vec![("huggingface-hub".to_owned(), version.to_owned())];
        assert!(has_all(&site, &package("1.2")));
        assert!(!has_all(&site, &package("1.3")) && !has_all(&site, &[]));
    }
}
