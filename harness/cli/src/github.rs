//! What commands tell GitHub Actions: annotations on stdout, and the summary of the step.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Project;
use mlx_parity_core::report::{annotations, step_summary};
use mlx_parity_core::results::RunResults;

/// Under GitHub Actions, prints annotations and appends the run to the summary of the step. Elsewhere it does nothing.
///
/// A summary that cannot be written is a warning: the verdict of the run does not depend on it.
pub(super) fn publish(project: &Project, results: &RunResults) {
    if env::var_os("GITHUB_ACTIONS").is_none_or(|value| value != "true") {
        return;
    }
    let top = env::var_os("GITHUB_WORKSPACE").map_or_else(|| project.root().to_owned(), PathBuf::from);
    let top = top.canonicalize().unwrap_or(top);
    annotations(results, |file| in_repository(&top, project.root(), file))
        .iter()
        .for_each(|line| println!("{line}"));
    if let Some(path) = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
        && let Err(error) = append(Path::new(&path), &step_summary(results))
    {
        eprintln!("cannot write the summary of the step: {error}");
    }
}

/// The path of a source file from the top of the repository, if the file is inside.
fn in_repository(top: &Path, root: &Path, file: &str) -> Option<String> {
    // `join` gives an absolute path back as it is.
    let real = root.join(file).canonicalize().ok()?;
    Some(real.strip_prefix(top).ok()?.to_string_lossy().into_owned())
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
}
