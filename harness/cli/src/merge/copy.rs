//! Writes a merged run folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use walkdir::WalkDir;

use mlx_parity_core::results::{MergePlan, RunPart};
use mlx_parity_core::run_folder::{
    Folder, FolderError, MERGED, SNAPSHOT_TASK, STATS_FILE, Selection, SuiteFolder, TrialLine,
};

/// Why a merged run folder could not be written.
#[derive(Debug, Error)]
pub(crate) enum CopyError {
    #[error("cannot copy `{from}` to `{to}`")]
    Copy { from: PathBuf, to: PathBuf, source: io::Error },
    #[error("cannot write the outcomes of the suite `{suite}`")]
    Outcomes { suite: String, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Writes the run folder of `plan` into the empty folder `run`. Files of parts below `unpacked` are moved, all others copied;
/// then `unpacked` is removed.
pub(super) fn write(
    plan: &MergePlan,
    parts: &[RunPart],
    run: &Path,
    unpacked: &Path,
) -> Result<(), CopyError> {
    for suite in &plan.suites {
        let folder = SuiteFolder::create(run, &suite.name)?;
        folder.plan(|| suite.data.plan.clone(), &Selection { shared: true, ..Selection::default() })?;
        let mut outcomes = folder.outcomes()?;
        TrialLine::append(&suite.data.trials, &mut outcomes)
            .map_err(|source| CopyError::Outcomes { suite: suite.name.clone(), source })?;
        suite.data.end.as_ref().map_or(Ok(()), |end| folder.end(end))?;
        if let Some(smoke) = &suite.smoke {
            tree(smoke, &run.join("suites").join(&suite.name).join("smoke"), &[], unpacked)?;
        }
    }
    let planned = plan.suites.iter().flat_map(|suite| &suite.data.plan.specs);
    let ids: Vec<&str> = planned.map(|spec| spec.id.as_str()).collect();
    for spec in &plan.specs {
        let from = parts[spec.part].folder.join(&spec.id);
        let to = run.join(&spec.id);
        // The folder of a spec can be inside that of another.
        let others: Vec<PathBuf> = ids
            .iter()
            .filter(|id| Path::new(id).starts_with(&spec.id) && **id != spec.id)
            .map(|id| parts[spec.part].folder.join(id))
            .collect();
        tree(&from, &to, &others, unpacked)?;
        if let Some(stats) = spec.stats.map(|part| parts[part].folder.join(&spec.id)) {
            for name in [STATS_FILE, SNAPSHOT_TASK] {
                let from = stats.join(name);
                if from.is_file() {
                    file(&from, &to.join(name), unpacked)?;
                }
            }
        }
    }
    Folder::at(run.to_owned()).write_json(MERGED, &plan.runs)?;
    if unpacked.exists() {
        fs::remove_dir_all(unpacked)
            .map_err(|source| FolderError::Write { path: unpacked.to_owned(), source })?;
    }
    Ok(())
}

/// Copies a folder without locks, temporary files, links, and the folders in `others`.
fn tree(from: &Path, to: &Path, others: &[PathBuf], unpacked: &Path) -> Result<(), CopyError> {
    let is_other = |path: &Path| others.iter().any(|other| other == path);
    for entry in
        WalkDir::new(from).follow_root_links(false).into_iter().filter_entry(|entry| !is_other(entry.path()))
    {
        let failed = |source| CopyError::Copy { from: from.to_owned(), to: to.to_owned(), source };
        let entry = entry.map_err(|error| failed(error.into()))?;
        let is_hidden = entry.depth() > 0 && entry.file_name().to_string_lossy().starts_with('.');
        let Ok(inside) = entry.path().strip_prefix(from) else { continue };
        if !entry.file_type().is_file() || is_hidden || entry.file_name() == "lock" {
            continue;
        }
        file(entry.path(), &to.join(inside), unpacked)?;
    }
    Ok(())
}

fn file(from: &Path, to: &Path, unpacked: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError::Copy { from: from.to_owned(), to: to.to_owned(), source };
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    match from.starts_with(unpacked) {
        true => fs::rename(from, to).map_err(failed),
        false => fs::copy(from, to).map(drop).map_err(failed),
    }
}
