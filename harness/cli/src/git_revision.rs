//! The commit that a package was fetched from. The build script of this package uses it, too.

use std::fs;
use std::path::Path;

/// Returns the commit of a package that Cargo fetched: from a git repository, or as a published crate.
///
/// `package` is two folders below the root of its repository. A checkout in which somebody develops has none, since its files
/// need not be those of a commit.
pub(crate) fn git_revision(package: &Path) -> Option<String> {
    if let Ok(text) = fs::read_to_string(package.join(".cargo_vcs_info.json")) {
        return sha(text.split("\"sha1\": \"").nth(1)?);
    }
    let repository = package.ancestors().nth(2)?;
    if !repository.to_str()?.contains("/git/checkouts/") {
        return None;
    }
    let git = repository.join(".git");
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    match head.trim().strip_prefix("ref: ") {
        // Cargo resets the branch of its clone to the commit.
        Some(branch) => sha(&fs::read_to_string(git.join(branch)).ok()?),
        None => sha(&head),
    }
}

/// The hexadecimal digits at the start of `text`, if there are as many as in the name of a commit.
fn sha(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    (end == 40).then(|| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[track_caller]
    fn output(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn cargo_fetches_a_commit_that_is_found() {
        let root = tempfile::tempdir().unwrap();
        let (repository, user, home) =
            (root.path().join("repository"), root.path().join("user"), root.path().join("home"));
        let write = |path: std::path::PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let package =
            |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
        write(repository.join("harness/cli/Cargo.toml"), &package("cli"));
        write(repository.join("harness/cli/src/lib.rs"), "");
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            output(Command::new("git").arg("-C").arg(&repository).args(identity).args(arguments))
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message=a"]);
        let commit = git(&["rev-parse", "HEAD"]);
        let dependency = format!("[dependencies]\ncli = {{ git = \"file://{}\" }}\n", repository.display());
        write(user.join("Cargo.toml"), &(package("user") + &dependency));
        write(user.join("src/lib.rs"), "");
        let mut cargo = Command::new(env!("CARGO"));
        output(cargo.arg("fetch").current_dir(&user).env("CARGO_HOME", &home));
        let entry = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let checkout = entry(&entry(&home.join("git/checkouts")));
        assert_eq!(git_revision(&checkout.join("harness/cli")), Some(commit.clone()));
        // Where the clone has no branch.
        fs::write(checkout.join(".git/HEAD"), format!("{commit}\n")).unwrap();
        assert_eq!(git_revision(&checkout.join("harness/cli")), Some(commit));
        assert_eq!(git_revision(&repository.join("harness/cli")), None, "a checkout of a developer");
    }
}
