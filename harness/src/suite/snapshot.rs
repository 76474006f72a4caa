//! The trial `<spec>::stats`: compares a port's statistics with the accepted snapshot, through insta.
//!
//! insta prints to standard output, which belongs to libtest, and reads its settings from the environment, which cannot
//! be changed for one trial. So insta runs in its own process, which is this binary started again.

use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use insta::{Comparator, Settings, Snapshot};
use mlx_parity_core::files::regular;
use mlx_parity_core::results::{SNAPSHOT_DESCRIPTION, moved};
use mlx_parity_core::run_folder::{Compared, Folder, SNAPSHOT_TASK, STATS_FILE, SnapshotTask};
use mlx_parity_core::runs::Asked;
use mlx_parity_core::settings::in_ci;
use mlx_parity_core::settings::names::SNAPSHOT;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::program;

/// Does the comparison, and writes the result to the run folder. `root` is the project's root.
pub(super) fn compare(folder: &Folder, root: &Path, task: &SnapshotTask) -> Compared {
    let compared = run(folder, root, task)
        .unwrap_or_else(|problem| Compared::failed(format!("could not be compared: {problem}")));
    keep(folder, &compared);
    compared
}

/// Records that there are no statistics to compare, and why. The snapshot stays unchanged.
pub(super) fn cannot_compare(folder: &Folder, why: &str) -> Compared {
    let compared = Compared::failed(format!("not compared with the snapshot: {why}"));
    keep(folder, &compared);
    compared
}

/// Writes the result to the run folder, for reports.
fn keep(folder: &Folder, compared: &Compared) {
    if let Err(error) = folder.write_json(STATS_FILE, compared) {
        eprintln!("cannot write the result of the statistics: {}", error_chain(&error));
    }
}

fn run(folder: &Folder, root: &Path, task: &SnapshotTask) -> Result<Compared, String> {
    folder.write_json(SNAPSHOT_TASK, task).map_err(|error| error_chain(&error))?;
    let _ = std::fs::remove_file(folder.file(STATS_FILE));
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    let asked = Asked::new(&folder.file(""), SNAPSHOT, folder.file("")).map_err(|error| error.to_string())?;
    command.envs(asked.variables()).env("INSTA_OUTPUT", "none").stdin(Stdio::null());
    // A drift must fail, and CI must not write a snapshot that was never reviewed.
    command.env_remove("INSTA_FORCE_PASS");
    // The statistics of a red port are wrong, too.
    if task.is_red || is_ci() {
        for name in ["INSTA_FORCE_UPDATE", "INSTA_FORCE_UPDATE_SNAPSHOTS"] {
            command.env_remove(name);
        }
        command.env("INSTA_UPDATE", "no");
    }
    if std::env::var_os("INSTA_WORKSPACE_ROOT").is_none() {
        // Otherwise insta asks Cargo for the workspace of this library.
        command.env("INSTA_WORKSPACE_ROOT", root);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    match folder.read_json(STATS_FILE).map_err(|error| error_chain(&error))? {
        Some(compared) => Ok(compared),
        None => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Does the comparison that the run folder requests, and writes the result there.
pub(super) fn work(folder: &Path) -> ExitCode {
    let folder = Folder::at(folder.to_owned());
    match folder.read_json::<SnapshotTask>(SNAPSHOT_TASK) {
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

fn assert(task: SnapshotTask) -> Compared {
    let file = task.file();
    // insta opens both files without checking that they are regular files.
    for path in [&file, &task.offered()] {
        if let Err(error) = regular_or_absent(path) {
            return Compared::failed(format!(
                "could not be compared: `{}` cannot be read: {error}; remove it",
                path.display()
            ));
        }
    }
    let drift = Drift::default();
    let is_new = !file.exists();
    let mut settings = Settings::new();
    settings.set_snapshot_path(&task.snapshots);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(SNAPSHOT_DESCRIPTION);
    settings.set_comparator(Box::new(drift.clone()));
    let asserted = settings.bind(|| catch_unwind(|| insta::assert_snapshot!(task.name.as_str(), task.text)));
    let Err(panic) = asserted else { return Compared::Kept };
    // insta reports by a panic. The files and the comparator show the cause, not the panic's text.
    match drift.take() {
        Some(moved) if !moved.is_empty() => {
            let count = if moved.len() == 1 {
                "1 statistic".to_owned()
            } else {
                format!("{} statistics", moved.len())
            };
            let line = format!("{count} changed since the snapshot was accepted; {}", advice(&task));
            Compared::Changed { line, more: Some(moved.join("\n")) }
        }
        None if is_new && is_ci() => {
            Compared::failed(format!("snapshot `{}` does not exist; {}", file.display(), advice(&task)))
        }
        None if is_new => Compared::New { line: format!("no snapshot yet; {}", advice(&task)) },
        _ => {
            let text = panic.downcast_ref::<String>().map_or("insta panicked", String::as_str);
            Compared::failed(format!("could not be compared: {text}"))
        }
    }
}

/// What to do about a snapshot that is new or differs.
fn advice(task: &SnapshotTask) -> String {
    let accept = format!("`{} accept {}`", program(), task.name);
    match (task.is_red, is_ci()) {
        (true, _) => format!("make the port green first, then accept it with {accept}"),
        (false, true) => {
            format!("CI accepts no snapshot: run the suite elsewhere, and commit what {accept} writes")
        }
        (false, false) => format!("if it is right, accept it with {accept} or `cargo insta review`"),
    }
}

fn is_ci() -> bool {
    in_ci(|name| std::env::var(name).ok())
}

/// Checks that `path` does not exist or is a readable regular file.
fn regular_or_absent(path: &Path) -> std::io::Result<()> {
    match regular::read(path, regular::TEXT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// Compares statistics with a tolerance, and stores those that changed.
#[derive(Debug, Clone, Default)]
struct Drift(Arc<Mutex<Option<Vec<String>>>>);

impl Drift {
    /// Returns the statistics that changed, or `None` if no snapshot was compared.
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
