//! Embeds the Python exporter, and the git revision that an installed program was built from.

use std::fs;
use std::path::PathBuf;

use git_revision::git_revision;

#[path = "src/git_revision.rs"]
mod git_revision;

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
    if let Some(revision) = git_revision(&package) {
        println!("cargo::rustc-env=MLX_PARITY_REVISION={revision}");
    }
}
