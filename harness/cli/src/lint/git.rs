//! Commits, files and changes of the project, as `git` prints them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// Why git could not answer.
#[derive(Debug, Error)]
pub(crate) enum GitError {
    #[error("cannot start git")]
    Start { source: io::Error },
    #[error("`{}` is not in a git repository: {reason}", root.display())]
    NoRepository { root: PathBuf, reason: String },
    #[error("commit `{reference}` does not exist in this repository")]
    NoCommit { reference: String },
    #[error("this checkout has no commit in common with `{reference}`")]
    NoBase { reference: String },
    #[error("the specs in `{}` are outside the git repository `{}`", specs.display(), top.display())]
    Outside { specs: PathBuf, top: PathBuf },
    #[error(
        "commit `{commit}` has the path `{}`, which cannot be checked out: it leaves its folder or enters `.git`",
        path.escape_debug()
    )]
    Path { commit: String, path: String },
    #[error("`git {what}` failed: {reason}")]
    Failed { what: String, reason: String },
    #[error("cannot write the specs of the base commit to a temporary folder")]
    Keep { source: io::Error },
}

impl GitError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::Start { .. } => Some("install git, or leave `--base` out".into()),
            Self::Outside { .. } => Some("leave `--base` out".into()),
            Self::NoRepository { .. } => Some("run it in a checkout, or leave `--base` out".into()),
            Self::NoCommit { .. } | Self::NoBase { .. } => Some(
                "fetch it with `git fetch origin`; CI must check out the whole history (`fetch-depth: 0`)"
                    .into(),
            ),
            Self::Path { .. } => {
                Some("do not check it out; find its trees with `git fsck`, or choose another base".into())
            }
            Self::Failed { .. } | Self::Keep { .. } => None,
        }
    }
}

/// A repository.
#[derive(Debug)]
pub(crate) struct Git {
    /// Its top folder, without links.
    top: PathBuf,
}

/// A file that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    /// `A` for added, `M` for modified, `D` for deleted, `T` for another type.
    pub(super) status: char,
    /// From the top of the repository, with `/`.
    pub(super) path: String,
}

/// A commit, or what is not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BranchCommit {
    /// None for the work tree.
    pub(super) id: Option<String>,
    pub(super) changes: Vec<FileChange>,
}

impl Git {
    /// The name of the person who commits in `root`; `None` if git does not know it.
    pub(crate) fn user(root: &Path) -> Option<String> {
        let output = command(root).args(["config", "user.name"]).output().ok()?;
        let name = text(&output.stdout).trim().to_owned();
        (output.status.success() && !name.is_empty()).then_some(name)
    }

    /// The repository that `root` is in.
    pub(crate) fn of(root: &Path) -> Result<Self, GitError> {
        let output = command(root).args(["rev-parse", "--show-toplevel"]).output();
        let output = output.map_err(|source| GitError::Start { source })?;
        if !output.status.success() {
            return Err(GitError::NoRepository { root: root.to_owned(), reason: last_line(&output.stderr) });
        }
        let top = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
        Ok(Self { top: top.canonicalize().unwrap_or(top) })
    }

    /// A folder of the work tree as a path from the top, if it is inside.
    pub(super) fn inside(&self, folder: &Path) -> Option<String> {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let parts = real.strip_prefix(&self.top).ok()?.components();
        let parts: Vec<String> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        Some(parts.join("/"))
    }

    /// Where a path from the top is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    /// The full hash of the commit that `reference` means.
    pub(crate) fn commit(&self, reference: &str) -> Result<String, GitError> {
        let commit = format!("{reference}^{{commit}}");
        match self.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]) {
            Ok(found) => Ok(text(&found).trim().to_owned()),
            Err(GitError::Failed { .. }) => Err(GitError::NoCommit { reference: reference.to_owned() }),
            Err(error) => Err(error),
        }
    }

    /// The commit that `reference` and the checkout have last had in common.
    pub(super) fn base(&self, reference: &str) -> Result<String, GitError> {
        match self.ask(&["merge-base", &self.commit(reference)?, "HEAD"]) {
            Ok(base) => Ok(text(&base).trim().to_owned()),
            Err(GitError::Failed { .. }) => Err(GitError::NoBase { reference: reference.to_owned() }),
            Err(error) => Err(error),
        }
    }

    /// Returns the files below `folder` in a commit; a path that cannot be checked out is an error.
    ///
    /// A tree object can hold any name, even `..`, and writing such a file would write outside its folder.
    pub(super) fn files(&self, commit: &str, folder: &str) -> Result<Vec<String>, GitError> {
        let folder = if folder.is_empty() { "." } else { folder };
        let listed =
            self.ask(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", folder])?;
        let files = fields(&listed);
        match files.iter().find(|path| !is_checkout_path(path)) {
            Some(path) => Err(GitError::Path { commit: commit.to_owned(), path: path.clone() }),
            None => Ok(files),
        }
    }

    /// A file as it was in a commit; none if it did not exist.
    pub(super) fn show(&self, commit: &str, path: &str) -> Option<Vec<u8>> {
        self.ask(&["cat-file", "blob", &format!("{commit}:{path}")]).ok()
    }

    /// The commits since `base`, oldest first, and the work tree if it has uncommitted changes. A merge counts only with
    /// what differs from both parents.
    pub(super) fn since(&self, base: &str) -> Result<Vec<BranchCommit>, GitError> {
        let ids = self.ask(&["rev-list", "--reverse", &format!("{base}..HEAD")])?;
        let mut commits = Vec::new();
        for id in text(&ids).lines() {
            let listed =
                ["diff-tree", "--no-commit-id", "--root", "-r", "-c", "-z", "--no-renames", "--name-status"];
            let changes = changes(&self.ask(&[&listed[..], &[id]].concat())?);
            commits.push(BranchCommit { id: Some(id.to_owned()), changes });
        }
        let mut changes = changes(&self.ask(&["diff", "-z", "--no-renames", "--name-status", "HEAD"])?);
        let new = self.ask(&["ls-files", "-z", "--others", "--exclude-standard", "--full-name"])?;
        changes.extend(fields(&new).into_iter().map(|path| FileChange { status: 'A', path }));
        if !changes.is_empty() {
            commits.push(BranchCommit { id: None, changes });
        }
        Ok(commits)
    }

    /// A commit as messages name it: with its short id and its subject.
    pub(super) fn name(&self, commit: &BranchCommit) -> String {
        let Some(id) = &commit.id else { return "the uncommitted work tree".to_owned() };
        let subject = self.ask(&["log", "-1", "--format=%h %s", id]);
        format!("commit {}", subject.map_or_else(|_| id.clone(), |subject| text(&subject).trim().to_owned()))
    }

    /// The top folder.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    fn ask(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let output = command(&self.top).args(arguments).output();
        let output = output.map_err(|source| GitError::Start { source })?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => {
                let what = arguments.first().copied().unwrap_or_default().to_owned();
                Err(GitError::Failed { what, reason: last_line(&output.stderr) })
            }
        }
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "core.quotePath=false"]);
    // People read its messages, and nothing here may write to the index.
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_PAGER", "cat");
    command
}

fn last_line(bytes: &[u8]) -> String {
    let printed = text(bytes);
    printed
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it printed nothing")
        .trim()
        .to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether git itself would check a file out under this path: no part is empty, `.`, `..` or `.git`.
fn is_checkout_path(path: &str) -> bool {
    let fits = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.eq_ignore_ascii_case(".git")
            && !part.contains('\\')
    };
    path.split('/').all(fits)
}

/// The fields between zero bytes.
fn fields(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == 0).filter(|field| !field.is_empty()).map(text).collect()
}

/// `M`, a path, `A`, a path and so on. A merge has a letter for each parent, of which the first stands for all.
fn changes(bytes: &[u8]) -> Vec<FileChange> {
    let fields = fields(bytes);
    let pairs = fields.chunks_exact(2);
    pairs
        .filter_map(|pair| Some(FileChange { status: pair[0].chars().next()?, path: pair[1].clone() }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_changes_comes_in_pairs() {
        let found = changes(b"M\0a b.rs\0D\0x/y\0MM\0both\0");
        let expected = [('M', "a b.rs"), ('D', "x/y"), ('M', "both")]
            .map(|(status, path)| FileChange { status, path: path.to_owned() });
        assert_eq!(found, expected);
        assert_eq!(changes(b""), []);
    }

    #[test]
    fn a_path_that_leaves_its_folder_is_rejected() {
        for path in ["a.yaml", "a/b c/d.yaml", "...", ".hidden/a", "a/..b"] {
            assert!(is_checkout_path(path), "{path}");
        }
        for path in ["..", "../a", "a/../b", "/a", "a//b", "./a", "a/.", ".git/a", "a/.GIT/b", "a\\..\\b", ""]
        {
            assert!(!is_checkout_path(path), "{path}");
        }
    }

    #[test]
    fn a_folder_outside_any_repository_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Git::of(folder.path()).unwrap_err();
        assert!(matches!(error, GitError::NoRepository { .. }), "{error}");
        assert!(error.next().is_some());
    }
}
