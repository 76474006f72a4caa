//! Where a project gets the crates of mlx-parity from.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use super::InitError;

/// The public repository of mlx-parity, if the one that this program was installed from is not known.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// The commit that this program was built from, if Cargo fetched it.
const REVISION: Option<&str> = option_env!("MLX_PARITY_REVISION");

/// The folders of the two crates that a port needs, in a checkout of mlx-parity.
const CRATES: [(&str, &str); 2] = [("mlx-parity", "harness"), ("mlx-parity-tap", "harness/tap")];

/// A source of the crates, as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CrateSource {
    /// A checkout; relative paths start at the manifest's folder.
    Path(PathBuf),
    Git {
        url: String,
        revision: Option<String>,
    },
}

/// The arguments by which commands name a source.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SourceArguments {
    /// Use the crates in this checkout of mlx-parity
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["git", "rev"])]
    pub(crate) path: Option<PathBuf>,
    /// Use the crates in this git repository [default: the one that this program was installed from]
    #[arg(long, value_name = "URL")]
    pub(crate) git: Option<String>,
    /// Commit of the git repository [default: the one that this program was built from]
    #[arg(long, value_name = "REV")]
    pub(crate) rev: Option<String>,
}

impl SourceArguments {
    /// The arguments that name a checkout.
    pub(crate) fn of_path(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..Self::default() }
    }

    /// Returns whether the arguments name a source.
    pub(crate) fn is_named(&self) -> bool {
        self.path.is_some() || self.git.is_some() || self.rev.is_some()
    }
}

impl CrateSource {
    /// Returns the source that the arguments name.
    ///
    /// Without any, it is the repository of this program at the commit that the program was built from.
    pub(crate) fn of(named: &SourceArguments, manifest_folder: &Path) -> Result<Self, InitError> {
        let SourceArguments { path, git, rev } = named;
        if let Some(path) = path {
            let full = path.canonicalize().ok().filter(|full| {
                CRATES.iter().all(|(_, folder)| full.join(folder).join("Cargo.toml").is_file())
            });
            let Some(full) = full else { return Err(InitError::NoCheckout { path: path.to_owned() }) };
            let written = if path.is_absolute() { full } else { relative(manifest_folder, &full) };
            return Ok(Self::Path(written));
        }
        let own = REVISION.filter(|_| git.is_none());
        let revision = rev.as_deref().or(own).map(str::to_owned);
        let url = git.clone().or_else(own_repository).unwrap_or_else(|| REPOSITORY.to_owned());
        Ok(Self::Git { url, revision })
    }

    /// Returns the source of the entry `mlx-parity` of a manifest; none if it comes from a registry or the workspace.
    pub(super) fn of_entry(entry: &Item) -> Option<Self> {
        let table = entry.as_table_like()?;
        let text = |key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
        if let Some(path) = text("path") {
            // The checkout is the folder above `harness`.
            return Some(Self::Path(Path::new(&path).parent()?.to_owned()));
        }
        let revision = text("rev").or_else(|| text("tag")).or_else(|| text("branch"));
        Some(Self::Git { url: text("git")?, revision })
    }

    /// Returns the entry of a crate in a manifest.
    pub(crate) fn entry(&self, name: &str) -> InlineTable {
        let mut table = InlineTable::new();
        match self {
            Self::Path(checkout) => {
                let folder = CRATES.iter().find(|(other, _)| *other == name).map_or("", |(_, folder)| folder);
                let path = checkout.join(folder).to_string_lossy().replace('\\', "/");
                table.insert("path", Value::from(path));
            }
            Self::Git { url, revision } => {
                table.insert("git", Value::from(url.as_str()));
                if let Some(revision) = revision {
                    table.insert("rev", Value::from(revision.as_str()));
                }
            }
        }
        table
    }
}

/// Returns the repository, such as a fork, that `cargo install` built this program from.
fn own_repository() -> Option<String> {
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    // Cargo's list of what it installed stands beside the folder `bin`.
    let list = fs::read_to_string(program.parent()?.parent()?.join(".crates.toml")).ok()?;
    repository_of(&list, REVISION?)
}

/// Returns the repository of the commands' package at `revision`, in Cargo's list of installed packages.
fn repository_of(list: &str, revision: &str) -> Option<String> {
    let list: DocumentMut = list.parse().ok()?;
    list.get("v1")?.as_table_like()?.iter().find_map(|(package, _)| {
        let source = package.strip_prefix(concat!(env!("CARGO_PKG_NAME"), " "))?.split_once(" (git+")?.1;
        let (url, commit) = source.strip_suffix(')')?.split_once('#')?;
        (commit == revision).then(|| url.split('?').next().unwrap_or(url).to_owned())
    })
}

/// Copies the keys by which one entry names a git repository, so that two crates come from the same commit.
pub(super) fn git_keys(entry: &dyn TableLike) -> Option<InlineTable> {
    let mut table = InlineTable::new();
    for key in ["git", "rev", "tag", "branch"] {
        if let Some(value) = entry.get(key).and_then(Item::as_str) {
            table.insert(key, Value::from(value));
        }
    }
    table.contains_key("git").then_some(table)
}

/// Returns the path from one folder to another; both are absolute and without links.
pub(super) fn relative(from: &Path, to: &Path) -> PathBuf {
    let from = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Path::new(".."));
    let path: PathBuf =
        up.chain(to.components().skip(shared).map(|part| Path::new(part.as_os_str()))).collect();
    if path.as_os_str().is_empty() { ".".into() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_of_an_installed_program_is_in_cargo_s_list() {
        let list = "[v1]\n\
            \"mlx-parity-cli 0.1.0 (git+https://example.org/fork.git?branch=main#abc)\" = [\"cargo-parity\"]\n\
            \"mlx-parity-serve 0.1.0 (git+https://example.org/other#abc)\" = [\"mlx-parity-serve\"]\n";
        assert_eq!(repository_of(list, "abc").as_deref(), Some("https://example.org/fork.git"));
        assert_eq!(repository_of(list, "def"), None, "another commit was installed since");
        let registry = "[v1]\n\"mlx-parity-cli 0.1.0 (registry+https://example.org/index)\" = []\n";
        assert_eq!(repository_of(registry, "abc"), None);
        assert_eq!(repository_of("no TOML", "abc"), None);
    }

    #[test]
    fn the_path_between_two_folders() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        assert_eq!(relative(&root.join("a/b"), &root), Path::new("../.."));
        assert_eq!(relative(&root, &root), Path::new("."));
        assert_eq!(relative(&root.join("a"), &root.join("c/d")), Path::new("../c/d"));
    }

    #[test]
    fn the_default_is_the_repository_of_this_program() {
        let of = |named: &SourceArguments| CrateSource::of(named, Path::new("/"));
        let source = of(&SourceArguments::default()).unwrap();
        assert!(!SourceArguments::default().is_named());
        let entry = source.entry("mlx-parity").to_string();
        assert!(entry.contains("git = \"https://github.com/mlx-parity/mlx-parity\""), "{entry}");
        let named = SourceArguments { path: None, git: Some("u".to_owned()), rev: Some("abc".to_owned()) };
        let source = of(&named).unwrap();
        assert!(named.is_named());
        assert_eq!(source.entry("mlx-parity-tap").to_string().trim(), "{ git = \"u\", rev = \"abc\" }");
        let error = of(&SourceArguments::of_path(Path::new("/nowhere"))).unwrap_err();
        assert!(error.to_string().contains("`/nowhere` is not a checkout"), "{error}");
    }
}
