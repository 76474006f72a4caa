//! `cargo xtask accept --picture`: records that a person looked at a picture and found it right.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;

use super::super::find_run::{FoundRun, find};
use super::super::lint::Git;
use super::super::parity::ParityError;
use super::super::{CliError, Project, say};
use super::Arguments;
use crate::error::CommandError;
use mlx_parity_core::approval::{Approval, ApprovalError, Approvals};
use mlx_parity_core::ci::in_ci;
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::results::{Account, ExpectedSpecs, RunResults, has_stats};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::text::printable::clean;
use mlx_parity_core::text::suggest::did_you_mean;

/// Why a picture could not be approved.
#[derive(Debug, Error)]
pub(crate) enum PictureError {
    #[error("CI approves no picture: a person has to look at it")]
    InCi,
    #[error("`--picture` is `{name}`, expected `model/component::checkpoint`")]
    Name { name: String },
    #[error("`--reason` is empty, expected why the picture is good enough")]
    NoReason,
    #[error("nobody is named: `git config user.name` is not set here")]
    Nobody,
    #[error("`{file}` is a zip file; pictures are approved from runs of this project only")]
    Zip { file: PathBuf },
    #[error("the run has no results of spec `{id}`{near}")]
    NotRun { id: String, near: String },
    #[error("spec `{id}` has no checkpoint `{checkpoint}`{near}")]
    NoCheckpoint { id: String, checkpoint: String, near: String },
    #[error("the run injected goldens, so its pictures are not those of the port")]
    Injected,
    #[error("spec `{id}` changed after the run")]
    SpecChanged { id: String },
    #[error("`{name}` needs no approval: {why}")]
    NotFailed { name: String, why: String },
    #[error("`{name}` cannot be approved by eye: {why}")]
    Refused { name: String, why: String },
    #[error("`{name}` has no pictures in the run folder, so nobody can have looked at them")]
    NoPictures { name: String },
    #[error(transparent)]
    File(#[from] ApprovalError),
}

impl CommandError for PictureError {
    fn next(&self) -> Option<String> {
        let text = match self {
            Self::InCi => {
                "run the suite on your machine, look at the picture, and commit the file that this command writes"
            }
            Self::Name { .. } => "copy the name from the failing test",
            Self::NoReason | Self::File(_) => return None,
            Self::Nobody => "give the name with `--by NAME`",
            Self::Zip { .. } | Self::NotRun { .. } | Self::SpecChanged { .. } => {
                "run the suite with `cargo xtask parity`, then look at the picture"
            }
            Self::NoCheckpoint { .. } => "see the checkpoints with `cargo xtask list`",
            Self::Injected => "run the suite without PARITY_INJECT and PARITY_LOCALISE",
            Self::NotFailed { .. } => "see the run with `cargo xtask report`",
            Self::Refused { .. } => "mend the port; `cargo xtask diagnose` shows the cause",
            Self::NoPictures { .. } => {
                "make room with `cargo xtask clean`, or raise PARITY_SIZE_LIMIT, and run the suite again"
            }
        };
        Some(text.to_owned())
    }
}

/// Approves every failing hit of the checkpoint `name`, and writes the file beside its spec.
pub(super) fn approve(project: &Project, arguments: &Arguments, name: &str) -> Result<ExitCode, CliError> {
    if in_ci() {
        return Err(PictureError::InCi.into());
    }
    let Some((id, checkpoint)) = name.split_once("::").filter(|(id, at)| id.contains('/') && !at.is_empty())
    else {
        return Err(PictureError::Name { name: name.to_owned() }.into());
    };
    let reason = arguments.reason.as_deref().unwrap_or_default().trim();
    if reason.is_empty() {
        return Err(PictureError::NoReason.into());
    }
    let by = arguments.by.clone().or_else(|| Git::user(project.root()));
    let by = by.filter(|by| !by.trim().is_empty()).ok_or(PictureError::Nobody)?;
    let run = match find(project, arguments.run.as_deref())? {
        FoundRun::Folder(folder) => folder,
        FoundRun::Zip { file, .. } => return Err(PictureError::Zip { file }.into()),
    };
    let results = RunResults::read(&run, ExpectedSpecs::Everything).map_err(ParityError::from)?;
    let Some(account) = results.accounts().find(|account| account.spec.id == id) else {
        let near = did_you_mean(id, results.accounts().map(|account| account.spec.id.as_str()));
        return Err(PictureError::NotRun { id: id.to_owned(), near }.into());
    };
    let made = approvals(project, account, checkpoint, by.trim(), reason)?;
    let path = Approvals::path(&project.spec_root(), id);
    let mut approvals = Approvals::read(&path).map_err(PictureError::from)?;
    for (approval, pictures) in made {
        say(&format!(
            "{}  approved by eye by {} on {}, PSNR {:.1} dB: {}\n",
            clean(&format!("{id}::{}", approval.checkpoint)),
            clean(&approval.by),
            approval.device,
            approval.psnr_db,
            clean(&pictures.display().to_string())
        ));
        approvals.add(approval);
    }
    approvals.write(&path).map_err(PictureError::from)?;
    let shown = path.strip_prefix(project.root()).unwrap_or(&path);
    say(&format!(
        "wrote {}: commit it. It covers exactly this picture; when the port or the golden changes, the test is red again\n",
        clean(&shown.display().to_string())
    ));
    Ok(ExitCode::SUCCESS)
}

/// The approvals of all failing hits of a checkpoint, each with its pictures.
fn approvals(
    project: &Project,
    account: &Arc<Account>,
    checkpoint: &str,
    by: &str,
    reason: &str,
) -> Result<Vec<(Approval, PathBuf)>, PictureError> {
    let spec = &account.spec;
    let name = format!("{}::{checkpoint}", spec.id);
    if spec.checkpoint(checkpoint).is_none() {
        let near = did_you_mean(checkpoint, spec.checkpoints.iter().map(|one| one.name.as_str()));
        let checkpoint = checkpoint.to_owned();
        return Err(PictureError::NoCheckpoint { id: spec.id.clone(), checkpoint, near });
    }
    if !has_stats(&account.data.inject()) {
        return Err(PictureError::Injected);
    }
    let now = Specs::load_one_on(account.data.devices(), &project.spec_root(), &spec.id);
    if now.map(|now| now.digest()).ok() != Some(spec.digest()) || !account.data.changed().is_empty() {
        return Err(PictureError::SpecChanged { id: spec.id.clone() });
    }
    let hits: Vec<&Record> =
        account.data.records().filter(|record| record.checkpoint == checkpoint).collect();
    let failed: Vec<&&Record> = hits.iter().filter(|record| record.verdict.status == Status::Fail).collect();
    if failed.is_empty() {
        let why = match hits.first().map(|record| record.verdict.status) {
            None => "the port did not reach it in this run",
            Some(_) if hits.iter().any(|record| record.verdict.status == Status::Approved) => {
                "its picture is approved"
            }
            Some(Status::Ungated) => "the spec does not gate it",
            Some(_) => "it passed by its numbers",
        };
        return Err(PictureError::NotFailed { name, why: why.to_owned() });
    }
    let device = account.data.environment().map(|environment| environment.device.as_str());
    let approve = |record: &&&Record| {
        let refused = |why| PictureError::Refused { name: name.clone(), why };
        let device = device.ok_or_else(|| refused("the run did not record its device".to_owned()))?;
        let approval = Approval::of(record, device, by, reason).map_err(refused)?;
        let folder = account.data.folder();
        let picture = |kind| folder.picture(&record.checkpoint, record.hit, kind);
        if !["golden", "actual"].iter().all(|kind| picture(kind).is_file()) {
            return Err(PictureError::NoPictures { name: name.clone() });
        }
        Ok((approval, picture("{golden,actual,diff}")))
    };
    failed.iter().map(approve).collect()
}
