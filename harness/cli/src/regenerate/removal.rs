//! Removes a whole set, or tensors of a set, in one step. Files that are not the set's own are never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::RegenerateError;
use super::owned;
use super::smaller_file::{Smaller, drop_tensors};
use super::smaller_text::{without_goldens, without_tensors};
use super::workplace::{Workplace, check_target};
use mlx_parity_core::files::hash::hex;
use mlx_parity_core::files::regular;
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, MANIFEST, Manifest, Role, Trust};
use mlx_parity_core::recipe::MAX_BYTES;

/// A tensor by its role and name.
pub(crate) type TensorName = (Role, String);

/// Removes a set from the fixture root, and folders above it that are empty then.
///
/// Returns the folder with files that appeared in the set meanwhile and are not its own, if there are any.
pub(crate) fn remove_set(root: &Path, set: &str) -> Result<Option<PathBuf>, RegenerateError> {
    let workplace = Workplace::enter(root)?;
    check_removable(root, set)?;
    let kept = workplace.remove(set)?;
    let mut folder = root.join(set);
    while folder.pop() && folder != *root && fs::remove_dir(&folder).is_ok() {}
    Ok(kept)
}

/// Fails if the folder of the set holds anything that is not the set's own, hidden files among them.
pub(crate) fn check_removable(root: &Path, set: &str) -> Result<(), RegenerateError> {
    check_target(root, set, None)?;
    let hidden = owned::carried(&root.join(set));
    if hidden.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = hidden.iter().map(|name| format!("`{}`", name.to_string_lossy())).collect();
    Err(RegenerateError::Foreign { set: set.to_owned(), names: names.join(", ") })
}

/// Removes tensors from a set: a smaller set takes its place in one step.
///
/// The new set is verified before it takes the old one's place. Recipes lose the goldens that are removed.
pub(crate) fn remove_tensors(
    root: &Path,
    set: &str,
    doomed: &BTreeSet<TensorName>,
) -> Result<(), RegenerateError> {
    let workplace = Workplace::enter(root)?;
    check_target(root, set, None)?;
    let old = FixtureSet::open(root, set)?;
    let new = workplace.path("smaller");
    write_smaller(&root.join(set), &new, old.manifest(), doomed)?;
    let made = FixtureSet::open(&workplace.path(""), "smaller")?;
    let mut memory = ChecksumMemory::load(workplace.path("checksums.json"), Trust::Nothing);
    if let Some(problem) = made.verify(&mut memory).into_iter().next() {
        return Err(problem.into());
    }
    // The mapped files would keep the disk space in use.
    drop((old, made));
    workplace.replace(set, &new)
}

fn write_smaller(
    old: &Path,
    new: &Path,
    manifest: &Manifest,
    doomed: &BTreeSet<TensorName>,
) -> Result<(), RegenerateError> {
    let is_doomed = |role: Role, name: &str| doomed.contains(&(role, name.to_owned()));
    let mut files: BTreeMap<&str, Smaller> = BTreeMap::new();
    for entry in &manifest.tensors {
        let file = files.entry(&entry.file).or_default();
        let list = if is_doomed(entry.role, &entry.name) { &mut file.dropped } else { &mut file.kept };
        list.insert(entry.key.as_deref().unwrap_or(&entry.name).to_owned());
    }
    for (file, names) in files.iter().filter(|(_, names)| !names.kept.is_empty()) {
        let (from, to) = (old.join(file), new.join(file));
        let parent = to.parent().unwrap_or(new);
        fs::create_dir_all(parent).map_err(|source| RegenerateError::write(parent, source))?;
        let written = match names.dropped.is_empty() {
            // Both sets are on one file system, and neither changes a file in place.
            true => fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)),
            false => drop_tensors(&from, &to, names),
        };
        written.map_err(|source| RegenerateError::write(&to, source))?;
    }
    fs::create_dir_all(new).map_err(|source| RegenerateError::write(new, source))?;
    let mut smaller = manifest.clone();
    smaller.tensors.retain(|entry| !is_doomed(entry.role, &entry.name));
    let write = |file: &str, text: &str| {
        let path = new.join(file);
        fs::write(&path, text).map_err(|source| RegenerateError::write(&path, source))
    };
    let read = |file: &str, limit: u64| {
        let path = old.join(file);
        regular::read_text(&path, limit).map_err(|source| RegenerateError::read(&path, source))
    };
    if let Some(recipes) = &mut smaller.recipes {
        let goldens = doomed.iter().filter(|(role, _)| *role == Role::Golden).map(|(_, name)| name.as_str());
        let text = without_goldens(&read(&recipes.file, MAX_BYTES)?, &goldens.collect())
            .map_err(|source| RegenerateError::read(&old.join(&recipes.file), source.into()))?;
        recipes.sha256 = hex(&Sha256::digest(text.as_bytes()));
        write(&recipes.file, &text)?;
    }
    let text = without_tensors(&read(MANIFEST, regular::TEXT)?, manifest, &smaller)
        .map_err(|source| RegenerateError::write(&new.join(MANIFEST), source.into()))?;
    write(MANIFEST, &text)
}
