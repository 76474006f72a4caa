//! Embeds the Python exporter, and the git revision that an installed program was built from.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // A link to `exporter/parity_export` of the repository. `cargo package` replaces it with the files.
    let exporter = package.join("exporter");
    println!("cargo::rerun-if-changed={}", exporter.display());
    // A checkout has no such file, and Cargo would build again every time while a named file is missing.
    let revision_file = package.join(".cargo_vcs_info.json");
    if revision_file.exists() {
        println!("cargo::rerun-if-changed={}", revision_file.display());
    }
    let mut files: Vec<PathBuf> = match fs::read_dir(&exporter) {
        Ok(entries) => entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect(),
        Err(error) => {
            println!("cargo::error=cannot read the exporter in `{}`: {error}", exporter.display());
            return;
        }
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "py" || end == "typed"));
    files.sort();
    let rows = files.iter().filter_map(|file| {
        let name = file.file_name()?.to_str()?;
        Some(format!("    ({name:?}, include_str!({:?})),\n", file.to_str()?))
    });
    let text = format!("&[\n{}]\n", rows.collect::<String>());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("exporter_files.rs");
    if let Err(error) = fs::write(&out, text) {
        println!("cargo::error=cannot write `{}`: {error}", out.display());
    }
    if let Some(revision) = revision(&package, &revision_file) {
        println!("cargo::rustc-env=MLX_PARITY_REVISION={revision}");
    }
}

/// The commit of a package that Cargo fetched: from a git repository, or as a published crate.
///
/// A checkout in which somebody develops has none, since its files need not be those of a commit.
fn revision(package: &Path, revision_file: &Path) -> Option<String> {
    let sha = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
        (end == 40).then(|| text[..end].to_owned())
    };
    if let Ok(text) = fs::read_to_string(revision_file) {
        return sha(text.split("\"sha1\": \"").nth(1)?);
    }
    let repository = package.ancestors().nth(2)?;
    if !repository.to_str()?.contains("/git/checkouts/") {
        return None;
    }
    // Cargo checks a commit out, not a branch, so `HEAD` names the commit itself.
    sha(fs::read_to_string(repository.join(".git/HEAD")).ok()?.trim())
}
