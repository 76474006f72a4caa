//! The Cargo configuration that makes mlx-sys use what was built here instead of its build script for Apple.

use std::path::{Path, PathBuf};

use super::SetupError;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::regular;

/// The path of the generated file, from the project's root.
const GENERATED: &str = ".parity/mlx/config.toml";
/// The project's own Cargo configuration, and how it must name the generated file.
const INCLUDING: &str = ".cargo/config.toml";
const INCLUDE: &str = "../.parity/mlx/config.toml";

/// The generated configuration: `links = "mlx"` lets Cargo skip that build script, given what the script would have printed.
pub(super) fn text(arch: &str, native: &Path) -> Result<String, SetupError> {
    let native = native.to_str().ok_or_else(|| SetupError::Unicode { path: native.to_owned() })?;
    let quoted = |text: String| toml::Value::String(text).to_string();
    Ok(format!(
        "# Written by `cargo xtask setup`; never edit or commit.\n\
         [target.{arch}-unknown-linux-gnu.mlx]\n\
         rustc-link-search = [{}]\n\
         rustc-link-lib = [\"dylib=mlxc\"]\n\
         rustc-env = {{ OUT_DIR = {} }}\n",
        quoted(format!("native={native}")),
        quoted(native.to_owned()),
    ))
}

/// The path of the generated configuration.
pub(super) fn path(root: &Path) -> PathBuf {
    root.join(GENERATED)
}

/// Replaces the generated configuration.
pub(super) fn write(root: &Path, text: &str) -> Result<(), SetupError> {
    let path = path(root);
    write_atomically(&path, |out| out.write_all(text.as_bytes()))
        .map_err(|source| SetupError::write(&path, source))
}

/// Rejects a project whose own Cargo configuration does not include the generated one.
pub(super) fn check_included(root: &Path) -> Result<(), SetupError> {
    let path = root.join(INCLUDING);
    let missing = || SetupError::NotIncluded { path: path.clone(), include: INCLUDE };
    let text = regular::read_text(&path, regular::TEXT).map_err(|_| missing())?;
    let config: toml::Table =
        text.parse().map_err(|source| SetupError::Config { path: path.clone(), source: Box::new(source) })?;
    let entries = match config.get("include") {
        Some(toml::Value::Array(entries)) => entries.as_slice(),
        Some(single) => std::slice::from_ref(single),
        None => &[],
    };
    let named = |entry: &toml::Value| match entry {
        toml::Value::Table(table) => table.get("path").and_then(toml::Value::as_str) == Some(INCLUDE),
        other => other.as_str() == Some(INCLUDE),
    };
    if entries.iter().any(named) { Ok(()) } else { Err(missing()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn included(config: &str) -> Result<(), SetupError> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".cargo")).unwrap();
        fs::write(root.path().join(INCLUDING), config).unwrap();
        check_included(root.path())
    }

    #[test]
    fn the_include_is_found_however_it_is_written() {
        included("include = \"../.parity/mlx/config.toml\"").unwrap();
        included("include = [\"a.toml\", { path = \"../.parity/mlx/config.toml\", optional = true }]")
            .unwrap();
        assert!(matches!(included("include = [\"a.toml\"]"), Err(SetupError::NotIncluded { .. })));
        assert!(matches!(included("[alias]"), Err(SetupError::NotIncluded { .. })));
        assert!(matches!(included("include = ["), Err(SetupError::Config { .. })));
    }

    #[test]
    fn a_path_with_quotes_stays_one_toml_string() {
        let text = text("x86_64", Path::new("/home/o\"brien/x")).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let mlx = &table["target"]["x86_64-unknown-linux-gnu"]["mlx"];
        assert_eq!(mlx["rustc-env"]["OUT_DIR"].as_str(), Some("/home/o\"brien/x"));
    }
}
