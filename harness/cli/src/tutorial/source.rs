//! Where the tutorial's crate gets mlx-parity from: as for `init`, but by default from the checkout around this program.

use std::path::{Path, PathBuf};

use super::error::TutorialError;
use crate::init::{CrateSource, SourceArguments};
use crate::mlx_rs_versions::WANTED;

/// Returns the named source, or else the checkout around this program, or else its repository.
pub(super) fn resolve(named: &SourceArguments) -> Result<CrateSource, TutorialError> {
    let checkout = if named.is_named() { None } else { own_checkout() };
    let path = checkout.as_deref().or(named.path.as_deref());
    // The tutorial can be in any folder, so its manifest names a checkout by its absolute path.
    let path =
        path.map(std::path::absolute).transpose().map_err(|source| TutorialError::Checkout { source })?;
    if let Some(path) = path.as_deref().filter(|path| path.to_str().is_none()) {
        return Err(TutorialError::Unicode { path: path.to_owned() });
    }
    Ok(CrateSource::of(&SourceArguments { path, ..named.clone() }, Path::new("/"))?)
}

/// Returns the lines of `[dependencies]` and `[dev-dependencies]`.
pub(super) fn dependencies(source: &CrateSource) -> String {
    let entry = |name: &str| format!("{name} = {}\n", source.entry(name).to_string().trim());
    format!(
        "[dependencies]\n{}\
         mlx-rs = {{ version = \"{WANTED}\", default-features = false }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n\n\
         [dev-dependencies]\n{}",
        entry("mlx-parity-tap"),
        entry("mlx-parity")
    )
}

/// Returns the root of the checkout, if the source is one.
pub(super) fn checkout(source: &CrateSource) -> Option<&Path> {
    match source {
        CrateSource::Path(root) => Some(root),
        CrateSource::Git { .. } => None,
    }
}

/// Returns the checkout around this program: the one that Cargo runs it in, or the one that it lies in. A checkout can be
/// moved, so the place where the program was compiled does not count.
fn own_checkout() -> Option<PathBuf> {
    let places = [std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from), std::env::current_exe().ok()];
    let is_checkout =
        |folder: &&Path| CrateSource::of(&SourceArguments::of_path(folder), Path::new("/")).is_ok();
    let found = |place: PathBuf| place.ancestors().find(is_checkout).map(Path::to_owned);
    places.into_iter().flatten().find_map(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_valid_toml_for_either_source() {
        let git = CrateSource::Git { url: "https://x.test/\"m\"".into(), revision: Some("abc".into()) };
        let path = CrateSource::Path("/a b".into());
        for (source, key, value) in
            [(&git, "git", "https://x.test/\"m\""), (&git, "rev", "abc"), (&path, "path", "/a b/harness")]
        {
            let table: toml::Table = dependencies(source).parse().unwrap();
            assert_eq!(table["dev-dependencies"]["mlx-parity"][key].as_str(), Some(value));
        }
    }

    #[test]
    fn the_default_is_the_checkout_around_this_program() {
        let repository =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().canonicalize().unwrap();
        let expected = CrateSource::Path(repository.clone());
        assert_eq!(resolve(&SourceArguments::default()).unwrap(), expected);
        assert_eq!(resolve(&SourceArguments::of_path(&repository)).unwrap(), expected);
        let other = tempfile::tempdir().unwrap();
        let error = resolve(&SourceArguments::of_path(other.path())).unwrap_err();
        assert!(error.to_string().contains("is not a checkout of mlx-parity"), "{error}");
    }
}
