//! The command `clean`: removes runs that nobody needs, and what stopped commands left behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

use super::ask::{YesNo, ask};
use super::error::CommandError;
use super::regenerate::{leftover_bytes, remove_leftovers};
use super::{CliError, Project, say};
use mlx_parity_core::files::size;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::runs::{KnownRun, Out, is_in_use, remove_claimed};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::clean;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask clean                  unnamed runs but the newest, and leftovers of stopped commands\n  \
    cargo xtask clean --dry-run        only report what would be removed\n  \
    cargo xtask clean --keep 0         every run without a name\n  \
    cargo xtask clean --actuals        also the tensors and pictures of the runs that stay\n  \
    cargo xtask clean --all            also debug sessions, mutations, fault-bench runs, and .parity\n\n\
    Runs with a name of your own (PARITY_RUN) stay, unless --named is given. An active run\n\
    always stays, and so do fixtures and every folder that mlx-parity did not make. After --all,\n\
    `cargo xtask setup` makes .parity again, which holds MLX and Python environments.")]
pub(crate) struct Arguments {
    /// Keep this many of the newest runs without a name
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep: usize,
    /// Remove runs with a name, too
    #[arg(long)]
    named: bool,
    /// Remove the actuals and pictures of the runs that stay; their reports stay
    #[arg(long)]
    actuals: bool,
    /// Remove every run without a name, debug sessions, results of mutate and fault-bench, and the caches in .parity
    #[arg(long, conflicts_with = "keep")]
    all: bool,
    /// Remove nothing, and report what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove named runs and caches without asking
    #[arg(long)]
    yes: bool,
}

/// Why a project could not be cleaned.
#[derive(Debug, Error)]
pub(crate) enum CleanError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot remove `{}`", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("{what} would be removed, but there is no terminal to ask on; nothing was removed")]
    NotAsked { what: String },
}

impl CommandError for CleanError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Folder(_) => None,
            Self::Remove { .. } => Some("fix the permissions, then rerun the command".into()),
            Self::NotAsked { .. } => Some("pass `--yes`".into()),
        }
    }
}

/// What is removed.
#[derive(Debug)]
enum Doomed {
    Run(KnownRun),
    /// Actuals and pictures of a run that stays.
    Tensors(PathBuf),
    /// What killed processes left among the runs; starting or removing a run removes it.
    RunLeftover,
    /// What a killed `regenerate-fixtures` left.
    FixtureLeftover,
    /// A folder that a command claimed.
    Claimed(PathBuf),
    /// A folder in `.parity`.
    Cache(PathBuf),
}

/// One line of the report.
#[derive(Debug)]
struct Item {
    doomed: Doomed,
    label: String,
    bytes: u64,
}

/// What `.parity` holds. Anything else there is not ours.
const CACHES: [&str; 5] = ["mlx", "python", "references", "macos", "check"];

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let out = Out::of(project.root());
    let (items, stay) = items(project, &out, arguments);
    let shown = |bytes: u64| size::words(bytes);
    for item in &items {
        say(&format!("{:>9}  {}\n", shown(item.bytes), clean(&item.label)));
    }
    for line in &stay {
        eprintln!("note: {}", clean(line));
    }
    let bytes = items.iter().map(|item| item.bytes).sum();
    if items.is_empty() {
        say("nothing to remove\n");
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.dry_run {
        say(&format!("would free {}\n", shown(bytes)));
        return Ok(ExitCode::SUCCESS);
    }
    if !agreed(&items, arguments.yes)? {
        say("nothing was removed\n");
        return Ok(ExitCode::FAILURE);
    }
    let kept = remove(project, &out, &items)?;
    say(&format!("freed {}\n", shown(bytes - kept)));
    Ok(ExitCode::SUCCESS)
}

/// What is to be removed, and lines about what stays although one might expect otherwise.
fn items(project: &Project, out: &Out, arguments: &Arguments) -> (Vec<Item>, Vec<String>) {
    let keep = if arguments.all { 0 } else { arguments.keep };
    let (mut items, mut stay) = (Vec::new(), Vec::new());
    let (mut unnamed, mut named) = (0, 0);
    for run in out.all_runs() {
        let name = run.name();
        unnamed += usize::from(!run.named);
        if run.running {
            let by = run.process.map(|process| format!(", pid {process}")).unwrap_or_default();
            stay.push(format!("run `{name}` is active{by}, and stays"));
        } else if if run.named { arguments.named } else { unnamed > keep } {
            let what = if run.named { "named run" } else { "run" };
            let (label, bytes) = (format!("{what} {name}"), size::of_folder(&run.folder));
            items.push(Item { doomed: Doomed::Run(run), label, bytes });
        } else {
            named += usize::from(run.named);
            for folder in arguments.actuals.then(|| run.tensor_folders()).into_iter().flatten() {
                let shown = folder.strip_prefix(out.path()).unwrap_or(&folder).display().to_string();
                let bytes = size::of_folder(&folder);
                items.push(Item { doomed: Doomed::Tensors(folder), label: shown, bytes });
            }
        }
    }
    if named > 0 {
        stay.push(format!("kept {}; --named removes named runs too", counted(named, "named run")));
    }
    for (folder, bytes) in out.leftover_runs() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        items.push(Item { doomed: Doomed::RunLeftover, label: format!("leftover {name}"), bytes });
    }
    if let Some(bytes) = leftover_bytes(&project.fixture_root()) {
        let label = "leftovers of an interrupted regenerate-fixtures".to_owned();
        items.push(Item { doomed: Doomed::FixtureLeftover, label, bytes });
    }
    if arguments.all {
        let claimed = out.claimed().into_iter().map(|folder| (Doomed::Claimed(folder.clone()), folder));
        let private = project.private_folder();
        let caches = CACHES.map(|name| private.join(name)).into_iter().filter(|folder| folder.is_dir());
        let (busy, free): (Vec<PathBuf>, Vec<PathBuf>) = caches.partition(|folder| is_in_use(folder));
        stay.extend(busy.iter().map(|folder| format!("`{}` is in use, and stays", folder.display())));
        for (doomed, folder) in
            claimed.chain(free.into_iter().map(|folder| (Doomed::Cache(folder.clone()), folder)))
        {
            let shown = folder.strip_prefix(project.root()).unwrap_or(&folder).display().to_string();
            items.push(Item { doomed, label: shown, bytes: size::of_folder(&folder) });
        }
    }
    (items, stay)
}

/// Asks about what no later run would remove by itself.
fn agreed(items: &[Item], yes: bool) -> Result<bool, CleanError> {
    let named = items.iter().filter(|item| matches!(&item.doomed, Doomed::Run(run) if run.named)).count();
    let caches = items.iter().filter(|item| matches!(item.doomed, Doomed::Cache(_))).count();
    let mut what = Vec::new();
    what.extend((named > 0).then(|| counted(named, "named run")));
    what.extend((caches > 0).then(|| format!("{} in .parity", counted(caches, "folder"))));
    let what = what.join(" and ");
    if yes || what.is_empty() {
        return Ok(true);
    }
    match ask(&format!("remove {what}?")) {
        YesNo::Yes => Ok(true),
        YesNo::No => Ok(false),
        YesNo::NoTerminal => Err(CleanError::NotAsked { what }),
    }
}

/// Removes the items, and returns the bytes of those that stayed.
fn remove(project: &Project, out: &Out, items: &[Item]) -> Result<u64, CliError> {
    let runs: Vec<KnownRun> = items
        .iter()
        .filter_map(|item| match &item.doomed {
            Doomed::Run(run) => Some(run.clone()),
            _ => None,
        })
        .collect();
    let stayed = out.remove_runs(&runs).map_err(CleanError::from)?;
    let mut kept = 0;
    for run in &stayed {
        eprintln!("note: run `{}` has started meanwhile, and stays", clean(&run.name()));
        kept += size::of_folder(&run.folder);
    }
    for item in items {
        match &item.doomed {
            Doomed::Run(_) | Doomed::RunLeftover => {}
            Doomed::Tensors(folder) | Doomed::Cache(folder) => remove_folder(folder)?,
            Doomed::FixtureLeftover => remove_leftovers(&project.fixture_root())?,
            Doomed::Claimed(folder) => remove_claimed(folder),
        }
    }
    Ok(kept)
}

fn remove_folder(folder: &Path) -> Result<(), CleanError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(CleanError::Remove { path: folder.to_owned(), source })
        }
        _ => Ok(()),
    }
}
