//! The trial `<spec>::stats`: a port's own statistics against the snapshot that somebody accepted, through insta.
//!
//! insta prints to standard output, which belongs to libtest, and takes its settings from the environment, which cannot
//! be changed for one trial. So it runs in a process of its own: this binary once more.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use insta::{Comparator, Settings, Snapshot};
use serde::{Deserialize, Serialize};

use crate::regular;
use crate::report::error_chain;
use crate::run::{Asked, Compared, Folder, moved};
use crate::settings::in_ci;
use crate::settings::names::SNAPSHOT;

const TASK: &str = "snapshot.json";
const OUTCOME: &str = "stats.json";

/// What is to be compared, in the run's folder.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    /// The spec's id, which is the snapshot's name.
    name: String,
    text: String,
    /// Where snapshots are.
    snapshots: PathBuf,
}

/// Compares the statistics `text` of the spec `name` with its snapshot in `snapshots`; `root` is the project's. What
/// came of it stays in the run's folder.
pub(super) fn compare(folder: &Folder, root: &Path, snapshots: &Path, name: &str, text: &str) -> Compared {
    let compared = run(folder, root, snapshots, name, text)
        .unwrap_or_else(|problem| Compared::failed(format!("could not be compared: {problem}")));
    keep(folder, &compared);
    compared
}

/// Says why there is nothing to compare; no snapshot is touched.
pub(super) fn cannot(folder: &Folder, why: &str) -> Compared {
    let compared = Compared::failed(format!("not compared with the snapshot: {why}"));
    keep(folder, &compared);
    compared
}

/// Leaves in the run's folder what came of it, for reports.
fn keep(folder: &Folder, compared: &Compared) {
    if let Err(error) = folder.write_json(OUTCOME, compared) {
        eprintln!("what came of the statistics could not be kept: {}", error_chain(&error));
    }
}

fn run(folder: &Folder, root: &Path, snapshots: &Path, name: &str, text: &str) -> Result<Compared, String> {
    let task = Task { name: name.to_owned(), text: text.to_owned(), snapshots: snapshots.to_owned() };
    folder.write_json(TASK, &task).map_err(|error| error_chain(&error))?;
    let _ = std::fs::remove_file(folder.file(OUTCOME));
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    let asked = Asked::new(&folder.file(""), SNAPSHOT, folder.file("")).map_err(|error| error.to_string())?;
    command.envs(asked.variables()).env("INSTA_OUTPUT", "none").stdin(Stdio::null());
    // A drift that passes is none, and in CI nobody is there to accept one.
    command.env_remove("INSTA_FORCE_PASS");
    if in_ci(|name| std::env::var(name).ok()) {
        command.env("INSTA_UPDATE", "no");
    }
    if std::env::var_os("INSTA_WORKSPACE_ROOT").is_none() {
        // Else insta asks Cargo, about the workspace of this library.
        command.env("INSTA_WORKSPACE_ROOT", root);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    match folder.read_json(OUTCOME).map_err(|error| error_chain(&error))? {
        Some(compared) => Ok(compared),
        None => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Does the comparison that the run's folder asks for, and leaves there what came of it.
pub(super) fn work(folder: &Path) -> ExitCode {
    let folder = Folder::at(folder.to_owned());
    match folder.read_json::<Task>(TASK) {
        Ok(Some(task)) => {
            keep(&folder, &assert(task));
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn assert(task: Task) -> Compared {
    let Task { name, text, snapshots } = task;
    let file = snapshots.join(format!("{}.snap", name.replace('/', "__")));
    // insta reads the one and writes the other, whatever they are.
    for path in [&file, &file.with_extension("snap.new")] {
        if let Err(error) = regular_or_absent(path) {
            return Compared::failed(format!(
                "could not be compared: `{}` cannot be read: {error}; remove it",
                path.display()
            ));
        }
    }
    let found = Drift::default();
    let mut settings = Settings::new();
    settings.set_snapshot_path(&snapshots);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description("What the port computed when this was accepted: a drift alarm, not a golden");
    settings.set_comparator(Box::new(found.clone()));
    let asserted = settings.bind(|| catch_unwind(|| insta::assert_snapshot!(name.as_str(), text)));
    let Err(panic) = asserted else { return Compared::Kept };
    let said = panic.downcast_ref::<String>().map_or("insta panicked", String::as_str);
    if !said.starts_with("snapshot assertion") {
        return Compared::failed(format!("could not be compared: {said}"));
    }
    let next = match file.with_extension("snap.new").exists() {
        true => "`cargo insta review` shows it and accepts it",
        false => {
            "nothing was written here, since CI is set or INSTA_UPDATE says so; accept it elsewhere with \
                  `cargo insta review`"
        }
    };
    match found.take() {
        None => Compared::failed(format!("there is no snapshot `{}` yet; {next}", file.display())),
        Some(moved) => {
            let what = if moved.len() == 1 {
                "1 statistic".to_owned()
            } else {
                format!("{} statistics", moved.len())
            };
            let line = format!("{what} moved since the snapshot was accepted; if that was meant, {next}");
            Compared::Failed { line, more: Some(moved.join("\n")) }
        }
    }
}

/// Whether there is no such file, or one that a snapshot can be.
fn regular_or_absent(path: &Path) -> std::io::Result<()> {
    match regular::read(path, regular::TEXT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// Holds statistics against each other with a tolerance, and remembers what moved.
#[derive(Debug, Clone, Default)]
struct Drift(Arc<Mutex<Option<Vec<String>>>>);

impl Drift {
    /// What moved; nothing if there was no snapshot to compare with.
    fn take(&self) -> Option<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Comparator for Drift {
    fn matches(&self, reference: &Snapshot, test: &Snapshot) -> bool {
        let text = |snapshot: &Snapshot| snapshot.as_text().map(ToString::to_string).unwrap_or_default();
        let found = moved(&text(reference), &text(test));
        let same = found.is_empty();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        same
    }

    fn dyn_clone(&self) -> Box<dyn Comparator> {
        Box::new(self.clone())
    }
}
