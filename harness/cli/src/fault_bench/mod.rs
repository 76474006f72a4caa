//! `cargo xtask fault-bench`: runs ports with known faults, and counts how many are caught, placed and explained.
//!
//! One suite process runs every fault and produces the usual reports. The ports without a fault run beside them, and a
//! second time with every golden injected. Any failure or cause reported for those is a false alarm.

mod file;
mod lists;
mod score;
mod specs;
mod suite;
mod table;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;

use self::file::{Faults, FileError};
use self::lists::Lists;
use self::specs::WriteError;
use self::suite::{SuiteError, SuiteRun};
use super::steps::Steps;
use super::{CliError, Project, setup};
use crate::error::CommandError;
use mlx_parity_core::gate::Phase;
use mlx_parity_core::results::{Account, RunData, TrialOutcome, account};
use mlx_parity_core::run_folder::{Folder, FolderError};
use mlx_parity_core::runs::{Out, claim, remove_claimed};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Spec, SpecError, Specs};
use mlx_parity_core::text::error_chain;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask fault-bench                        every fault\n  \
    cargo xtask fault-bench --missed               only the faults with an unexpected result\n  \
    cargo xtask fault-bench flux/clip              only the faults with `flux/clip` in their names\n  \
    cargo xtask fault-bench --json bench.json      write the results as JSON too\n\n\
    A fault is a port with a known mistake. The file of faults lists the expected place and cause of\n\
    each, and how many must be caught, placed and explained. Exits with 1 when a count is worse than\n\
    required, and with 0 otherwise. With a filter, only wrong causes and false alarms are checked.")]
pub(crate) struct Arguments {
    /// Run only the faults whose `spec/fault` contains this text
    filter: Option<String>,
    /// Show only the faults that are not caught, placed or explained, or have a wrong cause
    #[arg(long)]
    missed: bool,
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why the bench could not run.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    #[error("this project has no faults to run")]
    NoBench,
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Spec(Box<SpecError>),
    #[error("no fault has `{filter}` in its name")]
    NothingSelected { filter: String },
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("cannot use the folder `{path}`")]
    Folder { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Claim(Box<FolderError>),
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error("`{id}` was not run: {why}")]
    NotRun { id: String, why: String },
    #[error("cannot write `{path}`")]
    Json { path: PathBuf, source: std::io::Error },
}

impl CommandError for BenchError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NoBench => Some(
                "name the file with the faults, and the package and binary with their ports, in xtask's `main`: \
                 `Project::new(…).fault_bench(\"tests/faults.yaml\", \"my-tests\", \"bad_ports\")`"
                    .into(),
            ),
            Self::NothingSelected { .. } => Some("see their names with `cargo xtask fault-bench`".into()),
            Self::Suite(SuiteError::NoBinary { .. }) => {
                Some("check the arguments of `fault_bench` in xtask's `main`".into())
            }
            _ => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let bench = project.bench().ok_or(BenchError::NoBench)?;
    let Specs { specs, broken, .. } = Specs::load(&project.spec_root());
    if let Some(error) = broken.into_iter().next() {
        return Err(BenchError::Spec(Box::new(error)).into());
    }
    let twins: Vec<Spec> = specs.iter().flat_map(Spec::twin_specs).collect();
    let specs = [specs, twins].concat();
    let lists = Lists::read(project, bench, &specs)?;
    let selected = lists.select(&specs, arguments.filter.as_deref())?;
    setup::ensure(project)?;

    let count: usize = selected.iter().map(|(_, names)| names.len()).sum();
    let steps = Steps::start(format!("{} in {}", counted(count, "fault"), counted(selected.len(), "spec")));
    let program = suite::build(project, bench, arguments.release).map_err(BenchError::from)?;
    let home = Home::open(Out::of(project.root()).path().join("fault-bench"))?;
    specs::write(&project.spec_root(), &home.specs(), &selected).map_err(BenchError::from)?;
    let right: Vec<_> = selected.iter().map(|(spec, _)| (*spec, Vec::new())).collect();
    specs::write(&project.spec_root(), &home.right_specs(), &right).map_err(BenchError::from)?;
    let passes = [
        (FREE, "each fault", &[][..], home.specs()),
        (LOCAL, "each port without a fault, on golden inputs", LOCALISED, home.right_specs()),
    ];
    for (key, label, variables, specs) in passes {
        let fixtures = project.fixture_root();
        let (specs, out) = (&specs, &home.folder);
        let run = SuiteRun { program: &program, specs, fixtures, out, key, variables, label };
        steps.step(label, || run.run()).map_err(BenchError::from)?;
    }

    let results = lists.results(&home, &selected)?;
    super::say(&table::table(&results, arguments.missed));
    for result in &results {
        result.alarms.iter().for_each(|alarm| super::say(&format!("false alarm: {alarm}\n")));
    }
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", table::json(&results));
        fs::write(path, text).map_err(|source| BenchError::Json { path: path.clone(), source })?;
    }
    let mut holds = true;
    for result in &results {
        let Faults { at_least, at_most, .. } = result.faults;
        let broken = result.score.broken(*at_least, *at_most, arguments.filter.is_some());
        broken.iter().for_each(|line| eprintln!("{}: {line}", result.file.display()));
        if arguments.filter.is_none() && broken.is_empty() && result.score.better(*at_least, *at_most) {
            eprintln!(
                "{}: the score is better than required: tighten `at_least` and `at_most`",
                result.file.display()
            );
        }
        holds &= broken.is_empty();
    }
    for result in &results {
        super::say(&format!("{}{}\n", result.label(results.len()), result.score));
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

// Settings refuse injection in CI. The bench injects on purpose and proves no port, so its suite does not count as CI.
const LOCALISED: &[(&str, &str)] = &[("PARITY_LOCALISE", "1"), ("CI", "false"), ("TF_BUILD", "false")];
const FREE: &str = "free";
const LOCAL: &str = "localised";

/// The folder of a bench, which is kept until the next bench.
struct Home {
    folder: PathBuf,
    _held: File,
}

impl Home {
    /// Waits until no other bench uses `folder`, then empties it.
    fn open(folder: PathBuf) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Folder { path: folder.clone(), source };
        let claim = || claim(&folder).map_err(|source| BenchError::Claim(Box::new(source)));
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let held = File::create(folder.with_extension("lock")).map_err(failed)?;
        if held.try_lock().is_err() {
            eprintln!("another bench is running in `{}`, waiting for it", folder.display());
            held.lock().map_err(failed)?;
        }
        // Files of an earlier bench would be read as results of this one.
        claim()?;
        remove_claimed(&folder);
        claim()?;
        Ok(Self { folder, _held: held })
    }

    fn specs(&self) -> PathBuf {
        self.folder.join("parity-specs")
    }

    /// The folder with only the specs of the ports without a fault.
    fn right_specs(&self) -> PathBuf {
        self.folder.join("right-specs")
    }

    /// The results of a spec in the run `key`.
    pub(super) fn account(&self, key: &str, spec: &Arc<Spec>) -> Result<Account, BenchError> {
        let not_run = |why: String| BenchError::NotRun { id: spec.id.clone(), why };
        let folder = self.folder.join("runs").join(key).join(&spec.id);
        let data = RunData::read(&Folder::at(folder)).map_err(|error| not_run(error_chain(&error)))?;
        let data = data.ok_or_else(|| {
            not_run("this machine does not meet its requirements, or its port is not registered".into())
        })?;
        let account = account(spec, data);
        // A problem that prevents the run is not a result of the fault.
        let obstacle = account.trials.iter().find_map(|trial| match &trial.outcome {
            TrialOutcome::Failed { class, line, .. } if class.phase() == Phase::Setup => Some(line.clone()),
            TrialOutcome::Pending(line) => Some(line.clone()),
            _ => None,
        });
        obstacle.map_or(Ok(account), |why| Err(not_run(why)))
    }
}

fn load_one(root: &Path, id: &str) -> Result<Arc<Spec>, BenchError> {
    Specs::load_one(root, id).map(Arc::new).map_err(BenchError::Spec)
}
