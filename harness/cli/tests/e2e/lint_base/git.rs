//! Bases that git cannot read, and trees that lead out of their folder.

use std::fs;
use std::process::Command;

use super::Repository;
use crate::command::check;

impl Repository {
    /// Writes a raw tree object. Git's own commands refuse such names, but a hostile remote can send them.
    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").bytes());
            bytes.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
        }
        let path = self.0.path().join("../object");
        let path = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
        fs::write(path.path(), bytes).unwrap();
        let file = path.path().to_str().unwrap();
        self.ask(&["hash-object", "--literally", "-w", "-t", "tree", file])
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.0.path()).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        let output = command.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// The files of the base are written into one folder, never outside of it.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_tree_that_leads_out_of_its_folder_is_refused() {
    for hostile in ["..", ".git", "."] {
        let repository = Repository::new();
        let evil = repository.0.path().join("evil.yaml");
        fs::write(&evil, "from the base: true\n").unwrap();
        let blob = repository.ask(&["hash-object", "-w", evil.to_str().unwrap()]);
        fs::remove_file(&evil).unwrap();
        let name = format!("parity-{}.yaml", std::process::id());
        // parity-specs/../NAME would lie beside the folder that the specs of the base are written to.
        let inner = repository.tree(&[("100644", &name, &blob)]);
        let specs = repository.tree(&[("40000", hostile, &inner)]);
        let root = repository.tree(&[("40000", "parity-specs", &specs)]);
        let base = repository.ask(&["commit-tree", &root, "-m", "Hostile"]);
        repository.git(&["update-ref", "refs/heads/hostile", &base]);
        let tree = repository.ask(&["rev-parse", "HEAD^{tree}"]);
        let next = repository.ask(&["commit-tree", &tree, "-p", &base, "-m", "On top"]);
        repository.git(&["update-ref", "refs/heads/change", &next]);
        let temporary = tempfile::tempdir().unwrap();
        let output =
            repository.command(&["--base", "hostile"]).env("TMPDIR", temporary.path()).output().unwrap();
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "`{hostile}`: something was left");
        check(output, 1, &["error: commit `", "which cannot be checked out", "to do: "]);
    }
}

#[test]
fn a_base_that_git_cannot_read_is_one_clear_error() {
    let repository = Repository::new();
    let with = |reference: &str| repository.command(&["--base", reference]).output().unwrap();
    check(
        with("nowhere"),
        1,
        &["error: commit `nowhere` does not exist", "to do: fetch it", "fetch-depth: 0"],
    );
    check(with("--all"), 2, &[]);
    check(repository.command(&["--base=--all"]).output().unwrap(), 1, &["commit `--all` does not exist"]);
    let mut without = repository.command(&["--base", "main"]);
    check(
        without.env("PATH", "/nowhere").output().unwrap(),
        1,
        &["error: cannot start git", "to do: install git"],
    );
    fs::remove_dir_all(repository.0.path().join(".git")).unwrap();
    check(with("main"), 1, &["is not in a git repository", "leave `--base` out"]);
    let outside = Repository::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(outside.0.path().join("parity-specs"), elsewhere.path().join("specs")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("specs"), outside.0.path().join("parity-specs"))
        .unwrap();
    check(outside.lint(), 1, &["are outside the git repository"]);
    let unrelated = Repository::new();
    unrelated.git(&["checkout", "-q", "--orphan", "alone"]);
    unrelated.commit("Alone");
    check(unrelated.lint(), 1, &["has no commit in common with `main`", "fetch-depth: 0"]);
}
