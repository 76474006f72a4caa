//! Specs, runs and results of a project for programs, such as a server: values instead of printed text.
//!
//! ```no_run
//! use mlx_parity_cli::{Project, inspect};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::new(".", "parity-specs", "fixtures");
//! let newest = inspect::read_run(&project, None)?;
//! assert_eq!(newest.results.summary().failed, 0);
//! # Ok(()) }
//! ```

mod suite_job;

use std::path::PathBuf;

use super::Project;
use super::find_run::{FoundRun, find, find_earlier};
use super::report::{Order, read};
use crate::CliError;
use crate::error::CommandProblem;
use mlx_parity_core::results::RunResults;
use mlx_parity_core::runs::{KnownRun, Out};
use mlx_parity_core::spec::Specs;

pub use super::guard::{GuardArguments, guard};
pub use suite_job::{SuiteJob, SuiteOutcome};

/// A run that was read.
#[derive(Debug)]
pub struct ReadRun {
    /// The name of its folder, or the path of its zip file.
    pub name: String,
    /// Its folder; `None` for a zip file.
    pub folder: Option<PathBuf>,
    /// Its results.
    pub results: RunResults,
}

/// Reads every spec of the project. Specs with mistakes are listed apart.
pub fn specs(project: &Project) -> Specs {
    Specs::load(&project.spec_root())
}

/// Returns every run of the project, newest first.
pub fn runs(project: &Project) -> Vec<KnownRun> {
    Out::of(project.root()).all_runs()
}

/// Reads the run with this name or path; `None` is the newest.
///
/// # Errors
/// When there is no such run, it has no results, or it cannot be read.
pub fn read_run(project: &Project, name: Option<&str>) -> Result<ReadRun, CommandProblem> {
    read_found(find(project, name).map_err(CommandProblem::from)?)
}

/// Reads the run with this name or path, or else the newest run at this commit. `than` is the run with which it is compared.
///
/// # Errors
/// As [`read_run`], or when the name is no commit either.
pub fn read_earlier_run(project: &Project, name: &str, than: &ReadRun) -> Result<ReadRun, CommandProblem> {
    let reported = than.folder.clone().unwrap_or_else(|| PathBuf::from(&than.name));
    read_found(find_earlier(project, name, &reported).map_err(CommandProblem::from)?)
}

fn read_found(found: FoundRun) -> Result<ReadRun, CommandProblem> {
    let results = read(&found, Order::Run).map_err(|error: CliError| CommandProblem::of(&error))?;
    let named = found.named();
    Ok(match &found {
        FoundRun::Folder(folder) => {
            let name = named.file_name().unwrap_or(named.as_os_str()).to_string_lossy().into_owned();
            ReadRun { name, folder: Some(folder.clone()), results }
        }
        FoundRun::Zip { .. } => ReadRun { name: named.display().to_string(), folder: None, results },
    })
}
