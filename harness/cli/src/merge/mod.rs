//! `cargo xtask report --merge`: the parts of a suite that was split over processes or machines as one run folder.
//!
//! A run that cannot be read is a finding, so that the other parts are still reported. The merged folder appears complete or
//! not at all.

mod copy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::find_run::find_whole;
use super::{CliError, Project};
use crate::error::CommandError;
use copy::CopyError;
use mlx_parity_core::report::{ReportError, write_reports};
use mlx_parity_core::results::{ExpectedSpecs, PartError, RunPart, RunResults, merge as merge_parts};
use mlx_parity_core::run_folder::{FolderError, MergeFinding};
use mlx_parity_core::runs::{Out, is_debug_session};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::error_chain;

/// The folder, inside the new run, into which zip files are unpacked. It is removed before the run appears.
const UNPACKED: &str = ".parts";

/// Why runs cannot be merged.
#[derive(Debug, Error)]
pub(crate) enum MergeError {
    #[error("nothing to merge: {} given, and none can be used\n{}", counted(*runs, "run"), lines(findings))]
    Nothing { runs: usize, findings: Vec<MergeFinding> },
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl CommandError for MergeError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Nothing { .. } => Some(
                "give the run folders or zip files of all parts, as in `cargo xtask report --merge parts/*`"
                    .into(),
            ),
            _ => None,
        }
    }
}

fn lines(findings: &[MergeFinding]) -> String {
    findings.iter().map(|finding| format!("- {finding}\n")).collect::<String>().trim_end().to_owned()
}

/// Merges the runs with these names or paths, and returns the folder of the new run.
pub(super) fn merge(project: &Project, runs: &[String]) -> Result<PathBuf, CliError> {
    merged(project, runs).map_err(CliError::from)
}

fn merged(project: &Project, runs: &[String]) -> Result<PathBuf, MergeError> {
    let staged = Out::of(project.root()).stage()?;
    let unpacked = staged.folder().join(UNPACKED);
    let names = names(project, runs);
    let (mut parts, mut findings): (Vec<RunPart>, Vec<MergeFinding>) = Default::default();
    for (at, (run, name)) in runs.iter().zip(&names).enumerate() {
        match load(project, run, name, &unpacked.join(at.to_string())) {
            Err(finding) => findings.push(finding),
            Ok(part) => match parts.iter().find(|known| known.is_same(&part)) {
                Some(known) => {
                    findings.push(MergeFinding::Twice { run: part.name.clone(), first: known.name.clone() })
                }
                None => parts.push(part),
            },
        }
    }
    if parts.is_empty() {
        return Err(MergeError::Nothing { runs: runs.len(), findings });
    }
    let shown = staged.target().strip_prefix(project.root()).unwrap_or(staged.target());
    let plan = merge_parts(&parts, &names, findings, shown);
    copy::write(&plan, &parts, staged.folder(), &unpacked)?;
    let results = RunResults::read(staged.folder(), ExpectedSpecs::Everything)?;
    write_reports(staged.folder(), &results)?;
    Ok(staged.publish()?)
}

/// Reads one run. A zip file is unpacked into `home`.
fn load(project: &Project, run: &str, name: &str, home: &Path) -> Result<RunPart, MergeFinding> {
    let unreadable = |why: String| MergeFinding::Unreadable { run: name.to_owned(), why };
    let folder = find_whole(project, run, home).map_err(|error| unreadable(error_chain(&error)))?;
    if is_debug_session(&folder) {
        return Err(MergeFinding::Session { run: name.to_owned() });
    }
    let running = Out::is_going(&folder);
    RunPart::read(name, folder, running).map_err(|error| match error {
        PartError::Merged => MergeFinding::Nested { run: name.to_owned() },
        error => unreadable(error_chain(&error)),
    })
}

/// Returns the names that findings show: the last part of each path, or the whole path if two runs share the last part.
fn names(project: &Project, runs: &[String]) -> Vec<String> {
    let short = |run: &String| -> String {
        let inside = Out::of(project.root()).run(run);
        let place = if run.contains('/') { PathBuf::from(run) } else { inside };
        // `latest` is a link to the run that is meant.
        let place = place.canonicalize().unwrap_or_else(|_| PathBuf::from(run));
        place.file_name().map_or_else(|| run.clone(), |name| name.to_string_lossy().into_owned())
    };
    let shorts: Vec<String> = runs.iter().map(short).collect();
    let mut users: BTreeMap<&String, usize> = BTreeMap::new();
    shorts.iter().for_each(|short| *users.entry(short).or_default() += 1);
    let pairs = runs.iter().zip(&shorts);
    pairs.map(|(run, short)| if users[short] > 1 { run.clone() } else { short.clone() }).collect()
}
