//! `lint --base`: what a change loosens, and goldens that change together with the code that they judge.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::approvals::new_approvals;
use super::finding::{Finding, some_of};
use super::git::{FileChange, Git, GitError};
use super::goldens::Branch;
use super::loosened::{Loosened, loosened};
use mlx_parity_core::approval::Approvals;
use mlx_parity_core::files::regular;
use mlx_parity_core::spec::Specs;

/// The folders that are compared with a commit, as they are now.
pub(super) struct Roots<'a> {
    pub(super) root: &'a Path,
    pub(super) spec_root: &'a Path,
    pub(super) fixture_root: &'a Path,
    /// The lock of the references' environments, if there is one.
    pub(super) lock: Option<PathBuf>,
}

/// Returns what the change since `reference` loosens, and goldens that it changes. Both are errors if port code changes too.
pub(super) fn since(reference: &str, roots: &Roots<'_>, now: &Specs) -> Result<Vec<Finding>, GitError> {
    let git = Git::of(roots.root)?;
    let base = git.base(reference)?;
    let commits = git.since(&base)?;
    let own = [roots.spec_root, roots.fixture_root].map(|folder| git.inside(folder));
    let is_port = |change: &FileChange| {
        let within =
            |folder: &Option<String>| folder.as_ref().is_some_and(|folder| below(&change.path, folder));
        change.path.ends_with(".rs") && !own.iter().any(within)
    };
    let port: BTreeSet<&str> = commits
        .iter()
        .flat_map(|commit| commit.changes.iter().filter(|change| is_port(change)))
        .map(|change| change.path.as_str())
        .collect();
    let port: Vec<&str> = port.into_iter().collect();
    let Some(folder) = &own[0] else {
        let (specs, top) = (roots.spec_root.to_owned(), git.top().to_owned());
        return Err(GitError::Outside { specs, top });
    };
    let kept = tempfile::tempdir().map_err(|source| GitError::Keep { source })?;
    keep(&git, &base, folder, kept.path())?;
    let before = Specs::load(kept.path());
    let mut found = unreadable(reference, &before, now, kept.path(), roots.spec_root);
    found.extend(loosened(&before, now).into_iter().map(|one| loosened_finding(one, &port)));
    found.extend(new_approvals(kept.path(), roots.spec_root, now));
    if let Some(folder) = &own[1] {
        let branch = Branch {
            git: &git,
            base: &base,
            commits: &commits,
            folder,
            is_port: &is_port,
            lock_changed: roots.lock.as_deref().is_some_and(|lock| is_changed(&git, &base, lock)),
        };
        found.extend(branch.findings(&before, now)?);
    }
    Ok(found)
}

/// The finding for something that was loosened: an error if any file of the port changes too.
fn loosened_finding(loosened: Loosened, port: &[&str]) -> Finding {
    let alone = port.is_empty();
    let what = if loosened.is_tolerance { "loosens a tolerance" } else { "loosens a check" };
    let together = if alone { "" } else { " together with port code" };
    let help = match alone {
        true => "explain in `why` and in the changelog why it must be so loose",
        false => "loosen it in a separate change, without the code that it would excuse",
    };
    Finding {
        is_error: !alone,
        message: format!("{what}{together}: {}", loosened.what),
        path: loosened.path,
        line: loosened.line,
        notes: (!alone).then(|| format!("the same change touches {}", some_of(port))).into_iter().collect(),
        help: Some(help.to_owned()),
    }
}

/// Whether a file changed since a commit, was added or was removed.
fn is_changed(git: &Git, commit: &str, path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| git.inside(folder));
    let (Some(folder), Some(name)) = (folder, path.file_name()) else { return false };
    let inside = Path::new(&folder).join(name).display().to_string();
    git.show(commit, &inside) != regular::read(path, regular::TEXT).ok()
}

fn below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Copies the spec root of a commit into a folder.
fn keep(git: &Git, commit: &str, folder: &str, into: &Path) -> Result<(), GitError> {
    let is_kept = |path: &str| path.ends_with(".yaml") || path.ends_with(Approvals::SUFFIX);
    let keep = |source| GitError::Keep { source };
    for path in git.files(commit, folder)?.iter().filter(|path| is_kept(path) && below(path, folder)) {
        let Some(bytes) = git.show(commit, path) else { continue };
        let copy = into.join(path[folder.len()..].trim_start_matches('/'));
        copy.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(keep)?;
        std::fs::write(copy, bytes).map_err(keep)?;
    }
    Ok(())
}

/// Specs that can be read now but not at the base commit, so that nothing is known about their old gates.
fn unreadable(reference: &str, before: &Specs, now: &Specs, kept: &Path, spec_root: &Path) -> Vec<Finding> {
    let still = |id: &str| id == "policies" || now.specs.iter().any(|spec| spec.id == id);
    let broken = before.broken.iter().filter(|error| still(&error.id));
    broken
        .map(|error| Finding {
            is_error: false,
            message: format!("`{}` cannot be read at `{reference}`, so it was not compared", error.id),
            path: error
                .path
                .strip_prefix(kept)
                .map_or_else(|_| error.path.clone(), |path| spec_root.join(path)),
            line: None,
            notes: error
                .problems
                .first()
                .map(|problem| format!("at that commit: {problem}"))
                .into_iter()
                .collect(),
            help: None,
        })
        .collect()
}
