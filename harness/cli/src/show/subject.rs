//! The spec of a run that is shown, and one hit of a checkpoint.

use std::path::Path;
use std::sync::Arc;

use super::ShowError;
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::results::{RunData, SpecFile};
use mlx_parity_core::run_folder::{Folder, JOB, Job, SPEC_FILE};
use mlx_parity_core::spec::{Checkpoint, Spec};
use mlx_parity_core::text::suggest::did_you_mean;

/// A spec with the results of one run.
pub(super) struct Subject {
    /// The name of the run folder.
    pub(super) run: String,
    pub(super) spec: Arc<Spec>,
    pub(super) data: RunData,
    pub(super) job: Option<Job>,
}

/// One hit of a checkpoint.
pub(super) struct Hit<'s> {
    pub(super) checkpoint: &'s Checkpoint,
    pub(super) record: &'s Record,
    /// The name as the command writes it, with the number of the hit.
    pub(super) name: String,
}

impl Subject {
    /// Reads the results of `id` in a run folder.
    pub(super) fn read(run: &Path, id: &str) -> Result<Self, ShowError> {
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = !id.is_empty() && id.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let folder = Folder::at(run.join(if plain { id } else { "." }));
        let file: Option<SpecFile> = if plain { folder.read_json(SPEC_FILE)? } else { None };
        let Some(file) = file else {
            let known = spec_ids(run);
            let near = did_you_mean(id, known.iter().map(String::as_str));
            return Err(ShowError::NoSpec { run: name, spec: id.to_owned(), near });
        };
        if file.spec.digest() != file.digest {
            return Err(ShowError::Changed { path: folder.file(SPEC_FILE) });
        }
        let data = match RunData::read(&folder)? {
            Some(data) => Some(data),
            None => RunData::so_far(&folder)?,
        };
        let data = data.ok_or_else(|| ShowError::NoSpec {
            run: name.clone(),
            spec: id.to_owned(),
            near: String::new(),
        })?;
        Ok(Self { run: name, spec: file.spec, data, job: folder.read_json(JOB)? })
    }

    /// The hit with this name: `checkpoint`, or `checkpoint@1` for the second hit.
    pub(super) fn hit(&self, name: &str) -> Result<Hit<'_>, ShowError> {
        let split = name.rsplit_once('@').and_then(|(name, hit)| Some((name, hit.parse::<u64>().ok()?)));
        let (checkpoint, hit) = match (self.spec.checkpoint(name), split) {
            (Some(checkpoint), _) => (Some(checkpoint), 0),
            (None, Some((name, hit))) => (self.spec.checkpoint(name), hit),
            (None, None) => (None, 0),
        };
        let Some(checkpoint) = checkpoint else {
            let near = did_you_mean(name, self.spec.checkpoints.iter().map(|one| one.name.as_str()));
            return Err(ShowError::NoCheckpoint { spec: self.spec.id.clone(), name: name.to_owned(), near });
        };
        let is_meant = |record: &&Record| record.checkpoint == checkpoint.name && record.hit == hit;
        let record = self.data.records().find(is_meant);
        let record = record.ok_or_else(|| ShowError::NotReached {
            name: format!("{}::{name}", self.spec.id),
            run: self.run.clone(),
        })?;
        Ok(Hit { checkpoint, record, name: name.to_owned() })
    }

    /// A checkpoint to look at: the first failing one, else the first.
    pub(super) fn example(&self) -> String {
        let failed = self.data.records().find(|record| record.verdict.status == Status::Fail);
        let first = self.spec.checkpoints.iter().next().map(|checkpoint| checkpoint.name.as_str());
        let name = failed.map(|record| record.checkpoint.as_str()).or(first).unwrap_or_default();
        format!("{}::{name}", self.spec.id)
    }
}

/// The specs that a run folder has: `model/component`, two levels deep.
fn spec_ids(run: &Path) -> Vec<String> {
    let walk = walkdir::WalkDir::new(run).min_depth(2).max_depth(4).follow_links(false);
    let files = walk.into_iter().filter_map(Result::ok).filter(|entry| entry.file_name() == SPEC_FILE);
    let folders = files.filter_map(|entry| Some(entry.path().parent()?.strip_prefix(run).ok()?.to_owned()));
    folders.map(|folder| folder.to_string_lossy().into_owned()).collect()
}

/// The word for a status.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Pass => "green",
        Status::Fail => "red",
        Status::Ungated => "not gated",
        Status::Approved => "approved by eye",
    }
}
