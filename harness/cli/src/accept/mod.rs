//! `cargo xtask accept`: makes the statistics of the newest run the accepted snapshots, or approves a picture by eye.
//!
//! Only a green port is accepted: its whole run is in the run folder, with every verdict.

mod picture;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use super::find_run::{FoundRun, find};
use super::parity::ParityError;
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::regular;
use mlx_parity_core::results::{
    Account, ExpectedSpecs, Fate, RunResults, STATS, has_stats, snapshot_file, stats_text,
};
use mlx_parity_core::run_folder::{Compared, SNAPSHOT_TASK, SnapshotTask};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::clean;
use mlx_parity_core::text::suggest::did_you_mean;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask accept                      every new or changed snapshot of the newest run\n  \
    cargo xtask accept gated_mlp/block      only this spec\n  \
    cargo xtask accept --picture flux/pipeline::pixels --reason \"only the grain differs\"\n                                          \
    this red picture, after a look at it\n\n\
    A snapshot holds the port's own statistics, and reveals that a port changed. It is not a golden.\n\
    The command never accepts a port with a failing checkpoint, an interrupted run, or a run with\n\
    injected goldens. `cargo insta review` shows each difference and asks.\n\n\
    A picture is a checkpoint with `stage: image`. An approval turns it green if only its values are\n\
    outside the gate, and its PSNR is at least 20 dB. The approval is a file beside the spec, to be\n\
    committed. It covers exactly this golden and this actual on this device: if one of them changes,\n\
    the test is red again. CI approves nothing.\n\n\
    Exits with 1 when a snapshot or a picture was refused, and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// Only these specs, as `model/component`
    specs: Vec<String>,
    /// Approve this red picture instead of accepting snapshots
    #[arg(long, value_name = "SPEC::CHECKPOINT", conflicts_with = "specs", requires = "reason")]
    picture: Option<String>,
    /// Why the picture is good enough; the file and all reports show it
    #[arg(long, value_name = "TEXT", requires = "picture")]
    reason: Option<String>,
    /// Who looked at the picture; `git config user.name` by default
    #[arg(long, value_name = "NAME", requires = "picture")]
    by: Option<String>,
    /// The run, a folder in target/parity/runs; the newest by default
    #[arg(long)]
    run: Option<String>,
}

/// Why a snapshot could not be accepted.
#[derive(Debug, Error)]
pub(crate) enum AcceptError {
    #[error("the run has no spec `{id}`{near}")]
    NotRun { id: String, near: String },
    #[error("`{file}` is a zip file; snapshots are accepted from runs of this project only")]
    Zip { file: PathBuf },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

impl CommandError for AcceptError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotRun { .. } => {
                Some("run it with `cargo xtask parity`, and see the specs with `cargo xtask list`".into())
            }
            Self::Zip { .. } => Some("run the suite with `cargo xtask parity`, then accept".into()),
            Self::Write { .. } => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if let Some(name) = &arguments.picture {
        return picture::approve(project, arguments, name);
    }
    let run = match find(project, arguments.run.as_deref())? {
        FoundRun::Folder(folder) => folder,
        FoundRun::Zip { file, .. } => return Err(AcceptError::Zip { file }.into()),
    };
    let results = RunResults::read(&run, ExpectedSpecs::Everything).map_err(ParityError::from)?;
    for id in &arguments.specs {
        if results.specs.iter().all(|spec| spec.id != *id) {
            let near = did_you_mean(id, results.specs.iter().map(|spec| spec.id.as_str()));
            return Err(AcceptError::NotRun { id: id.clone(), near }.into());
        }
    }
    let (mut accepted, mut refused) = (0, 0);
    for spec in &results.specs {
        let is_named = arguments.specs.contains(&spec.id);
        if !arguments.specs.is_empty() && !is_named {
            continue;
        }
        let id = clean(&spec.id);
        let outcome = match &spec.fate {
            Fate::Ran(account) => offer(project, account, is_named),
            Fate::Ignored(reason) => Offer::none(is_named, &format!("it {reason}")),
            Fate::Failed(problem) => Offer::none(is_named, problem),
            Fate::NotRun | Fate::NotAsked => Offer::none(is_named, "the run did not include it"),
        };
        match outcome {
            Offer::Accept(task) => {
                write(&task)?;
                accepted += 1;
                let file = task.file();
                let shown = file.strip_prefix(project.root()).unwrap_or(&file);
                say(&format!("{id}  accepted: {}\n", clean(&shown.display().to_string())));
            }
            Offer::Refuse(why) => {
                refused += 1;
                say(&format!("{id}  refused: {}\n", clean(&why)));
            }
            Offer::Same if is_named => say(&format!("{id}  is as accepted\n")),
            Offer::Same => {}
        }
    }
    let refusals = if refused > 0 { format!(", {refused} refused") } else { String::new() };
    match accepted {
        0 if refused == 0 => say("nothing to accept: no snapshot of this run is new or changed\n"),
        count => say(&format!("{} accepted{refusals}\n", counted(count, "snapshot"))),
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a run has to offer for one spec.
enum Offer {
    /// Statistics that differ from the snapshot, or that have none.
    Accept(SnapshotTask),
    /// Why its statistics cannot be accepted.
    Refuse(String),
    /// Nothing: the snapshot holds what the run measured.
    Same,
}

impl Offer {
    /// A spec without statistics is refused only if a person named it.
    fn none(is_named: bool, why: &str) -> Self {
        if is_named { Self::Refuse(why.to_owned()) } else { Self::Same }
    }
}

fn offer(project: &Project, account: &Account, is_named: bool) -> Offer {
    let refuse = Offer::Refuse;
    if !has_stats(&account.data.inject()) {
        return refuse(
            "the run injected goldens; run it without PARITY_INJECT and PARITY_LOCALISE".to_owned(),
        );
    }
    match &account.data.stats {
        Some(Compared::Kept) => return Offer::Same,
        None if !is_named => return Offer::Same,
        // Where the comparison failed or was not made, the reasons below say why.
        Some(Compared::New { .. } | Compared::Changed { .. } | Compared::Failed { .. }) | None => {}
    }
    if let Some(trial) = account.trials.iter().find(|trial| trial.name != STATS && trial.is_red()) {
        return refuse(format!("the port is red at `{}`; make it green first", trial.name));
    }
    let text = match stats_text(&account.spec, &account.data) {
        Ok(text) => text,
        Err(why) => return refuse(why),
    };
    let task = match account.data.folder().read_json::<SnapshotTask>(SNAPSHOT_TASK) {
        Ok(Some(task)) if account.data.stats.is_some() => task,
        Ok(_) => return refuse(format!("the run did not include `{}::{STATS}`", account.spec.id)),
        Err(error) => return refuse(error_chain(&error)),
    };
    // The run folder is plain files, and a snapshot replaces a file.
    let root = project.root().canonicalize().unwrap_or_else(|_| project.root().to_owned());
    let snapshots = task.snapshots.canonicalize().unwrap_or_else(|_| task.snapshots.clone());
    let is_inside = |folder: &PathBuf| {
        folder.starts_with(&root) && !folder.components().any(|part| part == std::path::Component::ParentDir)
    };
    if task.name != account.spec.id || task.text != text || !is_inside(&snapshots) {
        return refuse(format!(
            "`{SNAPSHOT_TASK}` in its run folder is not from this project; run the spec again"
        ));
    }
    let now = Specs::load_one_on(account.data.devices(), &project.spec_root(), &account.spec.id);
    if now.map(|now| now.digest()).ok() != Some(account.spec.digest()) {
        return refuse("the spec changed after the run; run it again".to_owned());
    }
    Offer::Accept(task)
}

/// Replaces the accepted snapshot, and removes the one that was offered.
fn write(task: &SnapshotTask) -> Result<(), AcceptError> {
    let path = task.file();
    let failed = |source| AcceptError::Write { path: path.clone(), source };
    fs::create_dir_all(&task.snapshots).map_err(failed)?;
    write_atomically(&path, |out| out.write_all(snapshot_file(&task.text).as_bytes())).map_err(failed)?;
    let offered = task.offered();
    // An offer of another run stays for `cargo insta review`.
    let is_this = regular::read_text(&offered, regular::TEXT).is_ok_and(|text| {
        text.split_once("\n---\n").is_some_and(|(_, body)| body.trim_end() == task.text.trim_end())
    });
    if is_this {
        let _ = fs::remove_file(offered);
    }
    Ok(())
}
