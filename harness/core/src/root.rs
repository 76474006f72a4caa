//! The root of a project, found when the program runs and not when it is compiled.
//!
//! People copy a checkout together with its `target/`, and Cargo does not rebuild it. A compiled-in path would then still
//! name the original: the copy would test the original and write into it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The variable in which Cargo and nextest pass the folder of the package to every program that they run.
const PACKAGE: &str = "CARGO_MANIFEST_DIR";

/// Why a root cannot be the project's.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum RootError {
    /// The running package lies outside the root.
    #[error(
        "the root `{}` does not contain `{}`, the package that runs ({PACKAGE}): a compiled-in root names the wrong \
         checkout once this one is copied or moved; write it relative to the package, such as `..`",
        root.display(),
        package.display()
    )]
    OtherCheckout { root: PathBuf, package: PathBuf },
    /// The running program lies outside the root, and Cargo did not start it.
    #[error(
        "the root `{}` does not contain the running program `{}`, and {PACKAGE} is not set: start it through Cargo, or \
         set {PACKAGE} to the folder of its package",
        root.display(),
        program.display()
    )]
    OtherProgram { root: PathBuf, program: PathBuf },
}

/// Where this process runs: its package, its current folder and its program.
#[derive(Debug, Clone, Default)]
pub struct ProcessPlace {
    package: Option<PathBuf>,
    folder: PathBuf,
    program: Option<PathBuf>,
}

impl ProcessPlace {
    /// The place of this process, from its environment.
    pub fn here() -> Self {
        let set = |name: OsString| Some(PathBuf::from(name)).filter(|path| !path.as_os_str().is_empty());
        Self {
            package: std::env::var_os(PACKAGE).and_then(set),
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            program: std::env::current_exe().ok(),
        }
    }

    /// The root of a suite. A relative root starts at the package that runs. Without a package it starts at the current
    /// folder, and must contain the program.
    ///
    /// # Errors
    ///
    /// When the root contains neither the package that runs nor, without one, the program.
    pub fn suite_root(&self, root: &Path) -> Result<PathBuf, RootError> {
        let found = self.root(root)?;
        match (&self.package, &self.program) {
            (None, Some(program)) => contains_program(found, program),
            _ => Ok(found),
        }
    }

    /// The root of a project's commands. It is as that of a suite, except that without a package a relative root need not
    /// contain the program: the user chose the current folder.
    ///
    /// # Errors
    ///
    /// When an absolute root contains neither the package that runs nor, without one, the program.
    pub fn project_root(&self, root: &Path) -> Result<PathBuf, RootError> {
        let found = self.root(root)?;
        match (&self.package, &self.program) {
            (None, Some(program)) if root.is_absolute() => contains_program(found, program),
            _ => Ok(found),
        }
    }

    fn root(&self, root: &Path) -> Result<PathBuf, RootError> {
        let package = self.package.as_ref().map(|package| real(&self.folder.join(package)));
        let found = real(&package.as_ref().unwrap_or(&self.folder).join(root));
        match package {
            Some(package) if root.is_absolute() && !package.starts_with(&found) => {
                Err(RootError::OtherCheckout { root: found, package })
            }
            _ => Ok(found),
        }
    }
}

fn contains_program(root: PathBuf, program: &Path) -> Result<PathBuf, RootError> {
    let program = real(program);
    match program.starts_with(&root) {
        true => Ok(root),
        false => Err(RootError::OtherProgram { root, program }),
    }
}

/// The path without links and `..`, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(package: Option<&str>, folder: &str, program: &str) -> ProcessPlace {
        ProcessPlace {
            package: package.map(PathBuf::from),
            folder: folder.into(),
            program: Some(program.into()),
        }
    }

    #[test]
    fn a_relative_root_follows_the_package_that_runs() {
        let copied = place(Some("/nowhere/copy/tests"), "/", "/nowhere/original/target/debug/parity");
        assert_eq!(copied.suite_root(Path::new("x")), Ok(PathBuf::from("/nowhere/copy/tests/x")));
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
        let running = place(here.to_str(), "/", "/nowhere/parity");
        assert_eq!(running.suite_root(Path::new("..")).unwrap(), here.parent().unwrap());
        assert_eq!(running.project_root(Path::new("src/../..")).unwrap(), here.parent().unwrap());
    }

    #[test]
    fn a_compiled_root_must_contain_what_runs() {
        let (root, root_text) = (Path::new("/nowhere/original"), "`/nowhere/original`");
        let inside = place(Some("/nowhere/original/tests"), "/", "/elsewhere/parity");
        assert_eq!(inside.suite_root(root), Ok(root.to_owned()));
        let copied = place(Some("/nowhere/original2/tests"), "/", "/nowhere/original/target/parity");
        let text = copied.suite_root(root).unwrap_err().to_string();
        assert!(text.contains(root_text) && text.contains("`/nowhere/original2/tests`"), "{text}");
        assert_eq!(copied.project_root(root), copied.suite_root(root));

        let by_hand = place(None, "/nowhere", "/nowhere/original/target/parity");
        assert_eq!(by_hand.suite_root(root), Ok(root.to_owned()));
        assert_eq!(by_hand.suite_root(Path::new("original")), Ok(root.to_owned()));
        let stray = place(None, "/nowhere", "/nowhere/copy/target/parity");
        let text = stray.suite_root(root).unwrap_err().to_string();
        assert!(text.contains(root_text) && text.contains("`/nowhere/copy/target/parity`"), "{text}");
        assert!(stray.suite_root(Path::new("original")).is_err());
        assert!(stray.project_root(root).is_err());
        assert_eq!(stray.project_root(Path::new("original")), Ok(root.to_owned()));
    }
}
