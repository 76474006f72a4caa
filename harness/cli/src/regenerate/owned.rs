//! Separates the exporter's own files in a set's folder from files that somebody else put there, which are never removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use walkdir::WalkDir;

use super::error::RegenerateError;
use super::same_bytes::same_bytes;
use super::swap::rename_only;
use mlx_parity_core::files::regular;
use mlx_parity_core::golden::MANIFEST;
use mlx_parity_core::tensor::TensorFormat;

/// The name that the exporter gives the file of recipes.
const RECIPES: &str = "recipes.json";
/// How many names a message lists.
const LISTED: usize = 5;

/// Rejects a folder with anything that would be lost if another set took its place.
///
/// The manifest names the set's own files. Hidden files beside it, such as `.gitattributes`, are carried over. If the manifest
/// cannot be read, the recipes and every tensor file count as the set's own; once `successor`, the new set, is known, only
/// files that it names count.
pub(super) fn check(folder: &Path, set: &str, successor: Option<&Path>) -> Result<(), RegenerateError> {
    let read = |error: walkdir::Error| RegenerateError::read(folder, error.into());
    let has_manifest = fs::symlink_metadata(folder.join(MANIFEST)).is_ok();
    let named = match named_files(folder) {
        None if has_manifest => successor.and_then(named_files),
        None => Some(BTreeSet::new()),
        named => named,
    };
    let is_ours = |file: &Path| match &named {
        Some(named) => named.contains(file),
        None => TensorFormat::of(file).is_ok() || file == Path::new(RECIPES),
    };
    let leads_to_ours = |inner: &Path| match &named {
        Some(named) => named.iter().any(|file| file.starts_with(inner)),
        None => !is_hidden(inner),
    };
    let mut foreign = Vec::new();
    let mut walk = WalkDir::new(folder).min_depth(1).sort_by_file_name().into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(read)?;
        let inner = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        if entry.file_type().is_symlink() {
            return Err(RegenerateError::Link { path: entry.into_path() });
        }
        if entry.file_type().is_dir() {
            if fs::symlink_metadata(entry.path().join(MANIFEST)).is_ok() && !is_hidden(inner) {
                return Err(RegenerateError::Nested { set: set.to_owned(), path: entry.into_path() });
            }
            if !leads_to_ours(inner) {
                foreign.push(format!("`{}/`", inner.display()));
                walk.skip_current_dir();
            }
            continue;
        }
        let is_manifest = has_manifest && inner == Path::new(MANIFEST);
        if !is_manifest && !is_carried(inner, entry.file_type()) && !is_ours(inner) {
            foreign.push(format!("`{}`", inner.display()));
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let more = foreign.len().saturating_sub(LISTED);
    let mut names = foreign[..foreign.len() - more].join(", ");
    if more > 0 {
        names += &format!(" and {more} more");
    }
    Err(RegenerateError::Foreign { set: set.to_owned(), names })
}

/// Copies the hidden files of the old folder, such as `.gitattributes`, into the new one.
pub(super) fn carry_over(folder: &Path, new: &Path) -> io::Result<()> {
    for name in carried(folder) {
        if fs::symlink_metadata(new.join(&name)).is_err() {
            fs::copy(folder.join(&name), new.join(&name))?;
        }
    }
    Ok(())
}

/// Removes the old set in `folder`, which `successor` has replaced, file by file. Foreign files, which must have appeared
/// after the check, are kept beside the set; their folder is returned.
pub(super) fn remove_set(folder: &Path, successor: &Path) -> io::Result<Option<PathBuf>> {
    let named = named_files(folder).or_else(|| named_files(successor)).unwrap_or_default();
    let copies = carried(folder);
    let copies = copies.iter().filter(|name| same_bytes(&folder.join(name), &successor.join(name)));
    // The manifest is removed last: if this process is killed meanwhile, it still names the files to remove.
    for file in named.iter().map(PathBuf::as_path).chain(copies.map(Path::new)).chain([Path::new(MANIFEST)]) {
        absent_is_fine(fs::remove_file(folder.join(file)))?;
    }
    for entry in WalkDir::new(folder).contents_first(true).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_dir() {
            // A folder with other files stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
    if fs::symlink_metadata(folder).is_err() {
        return Ok(None);
    }
    let name = successor.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = (1..).map(|number| successor.with_file_name(format!("{name}.kept-{number}")));
    let kept = free.into_iter().find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_default();
    rename_only(folder, &kept)?;
    Ok(Some(kept))
}

/// The files that a folder's manifest names, relative to the folder; none if no manifest can be read.
///
/// Only the names are read, so a manifest of another version, or with a wrong number in it, names its files too.
fn named_files(folder: &Path) -> Option<BTreeSet<PathBuf>> {
    let text = regular::read(&folder.join(MANIFEST), regular::TEXT).ok()?;
    let manifest: Value = serde_json::from_slice(&text).ok()?;
    let files = manifest.get("tensors")?.as_array()?.iter().map(|entry| entry.get("file")?.as_str());
    let recipes = manifest.get("recipes").map(|recipes| recipes.get("file")?.as_str());
    let files: BTreeSet<PathBuf> =
        files.chain(recipes).collect::<Option<Vec<&str>>>()?.into_iter().map(PathBuf::from).collect();
    let is_plain = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    Some(files.into_iter().filter(is_plain).collect())
}

/// The names of hidden files right in a folder.
pub(super) fn carried(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let hidden = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| is_carried(Path::new(&entry.file_name()), kind)));
    hidden.map(|entry| entry.file_name()).collect()
}

fn is_carried(inner: &Path, kind: fs::FileType) -> bool {
    kind.is_file() && inner.components().count() == 1 && is_hidden(inner)
}

fn is_hidden(inner: &Path) -> bool {
    inner.iter().any(|part: &OsStr| part.as_encoded_bytes().starts_with(b"."))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(home: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = home.join(name);
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const MANIFEST_TEXT: &str = r#"{"recipes": {"file": "recipes.json"},
        "tensors": [{"file": "a.npy"}, {"file": "deep/b.npy"}, {"file": "../out.npy"}]}"#;

    #[track_caller]
    fn check_foreign(folder: &Path, successor: Option<&Path>, names: &str) {
        match check(folder, "set", successor) {
            Err(RegenerateError::Foreign { names: found, .. }) => assert_eq!(found, names),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_the_manifest_names_is_the_sets() {
        let home = tempfile::tempdir().unwrap();
        let set = [
            ("manifest.json", MANIFEST_TEXT),
            ("recipes.json", "{}"),
            ("a.npy", ""),
            ("deep/b.npy", ""),
            (".gitattributes", "x"),
        ];
        let old = folder(home.path(), "old", &set);
        check(&old, "set", None).unwrap();
        folder(home.path(), "old", &[("mine.npy", ""), (".notes/a", ""), ("deep/.x", ""), ("far/y.txt", "")]);
        check_foreign(&old, None, "`.notes/`, `deep/.x`, `far/`, `mine.npy`");
        // The new set's names count where the old manifest cannot be read.
        let torn = [("manifest.json", "{"), ("recipes.json", ""), ("a.npy", ""), ("mine.npy", "")];
        let torn = folder(home.path(), "torn", &torn);
        let new = folder(home.path(), "new", &[("manifest.json", MANIFEST_TEXT)]);
        check(&torn, "set", None).unwrap();
        check_foreign(&torn, Some(&new), "`mine.npy`");
        // A folder without a manifest is not a set.
        let other = folder(home.path(), "other", &[("a.npy", "")]);
        check_foreign(&other, Some(&new), "`a.npy`");
    }

    #[test]
    fn what_appeared_after_the_check_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let set =
            [("manifest.json", MANIFEST_TEXT), ("a.npy", ""), ("deep/b.npy", ""), (".gitattributes", "x")];
        let new = folder(home.path(), "set", &set);
        fs::write(home.path().join("out.npy"), "not in a set").unwrap();
        let old = folder(home.path(), "aside/old", &set);
        assert_eq!(remove_set(&old, &new).unwrap(), None);
        assert!(!old.exists());
        let old = folder(home.path(), "aside/old", &set);
        folder(
            home.path(),
            "aside/old",
            &[("deep/mine.txt", "mine"), (".gitattributes", "another"), (".h/i", "")],
        );
        let kept = remove_set(&old, &new).unwrap().unwrap();
        assert_eq!(kept, home.path().join("set.kept-1"));
        let mut left: Vec<String> = WalkDir::new(&kept)
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| entry.path().strip_prefix(&kept).unwrap().display().to_string())
            .collect();
        left.sort();
        assert_eq!(left, [".gitattributes", ".h/i", "deep/mine.txt"]);
        assert!(home.path().join("out.npy").exists());
        assert!(!old.exists() && new.join("a.npy").exists());
    }
}
