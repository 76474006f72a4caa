//! The state of the project's git checkout.

use std::path::Path;
use std::process::{Command, Stdio};

use mlx_parity_core::run_folder::Checkout;

/// Returns the commit that is checked out in `root`; `None` outside a git repository and without git.
pub(super) fn checkout(root: &Path) -> Option<Checkout> {
    let revision = git(root, &["rev-parse", "--verify", "--quiet", "HEAD"])?;
    // Untracked files are mostly results, and listing them can take long.
    let changes = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(Checkout { revision: revision.trim().to_owned(), dirty: !changes.trim().is_empty() })
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // Without optional locks, git does not write to the index of a checkout in which another git works.
    let mut command = Command::new("git");
    command.arg("--no-optional-locks").arg("-C").arg(root).args(arguments).stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_has_a_commit_and_is_dirty_after_a_change() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(checkout(home.path()), None);
        let run = |arguments: &[&str]| {
            let name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
            git(home.path(), &[&name, arguments].concat()).unwrap()
        };
        run(&["init", "--quiet"]);
        assert_eq!(checkout(home.path()), None, "no commit yet");
        std::fs::write(home.path().join("a"), "1").unwrap();
        run(&["add", "a"]);
        run(&["commit", "--quiet", "--message=a"]);
        let clean = checkout(home.path()).unwrap();
        assert!(clean.revision.len() == 40 && !clean.dirty, "{clean:?}");
        std::fs::write(home.path().join("a"), "2").unwrap();
        assert!(checkout(home.path()).unwrap().dirty);
    }
}
