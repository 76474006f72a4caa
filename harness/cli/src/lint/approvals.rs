//! Approvals of pictures: those that belong to nothing, and those that are newer than a commit.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::LintInput;
use super::finding::Finding;
use mlx_parity_core::approval::{Approval, Approvals};
use mlx_parity_core::files::regular;
use mlx_parity_core::spec::{Spec, Specs, Stage, hit_name};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::suggest::did_you_mean;

/// Returns the approvals without a picture, and files of approvals that cannot be read, which are errors.
pub(super) fn useless_approvals(input: &LintInput) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in files(&input.spec_root) {
        let whole = |is_error, message: String, help: &str| Finding {
            is_error,
            message,
            path: path.clone(),
            line: None,
            notes: Vec::new(),
            help: Some(help.to_owned()),
        };
        let approvals = match Approvals::read(&path) {
            Ok(approvals) => approvals,
            Err(error) => {
                let help = "restore it from git, or remove it and approve its pictures again";
                found.push(whole(true, error_chain(&error), help));
                continue;
            }
        };
        let is_own = |spec: &&Spec| Approvals::path(&input.spec_root, &spec.id) == path;
        // The spec of this file may be broken, and then its own error is enough.
        if input.specs.broken.iter().any(|broken| Approvals::path(&input.spec_root, &broken.id) == path) {
            continue;
        }
        let Some(spec) = input.specs.specs.iter().find(is_own) else {
            found.push(whole(
                true,
                "these approvals belong to no spec".to_owned(),
                "remove the file, or rename it with its spec",
            ));
            continue;
        };
        for approval in &approvals.pictures {
            if let Some(why) = problem(spec, approval) {
                let message = format!("the approval of `{}` belongs to nothing: {why}", approval.checkpoint);
                let help = "remove this entry, or the file if it is the last one";
                found.push(Finding {
                    line: line_of(&path, &approval.checkpoint),
                    ..whole(true, message, help)
                });
            }
        }
    }
    found
}

/// Returns one warning per picture that was approved since a commit, whose spec root is in the folder `before`. An approval
/// that cannot be read is an error of its own.
pub(super) fn new_approvals(before: &Path, spec_root: &Path, now: &Specs) -> Vec<Finding> {
    let mut found = Vec::new();
    for spec in &now.specs {
        let path = Approvals::path(spec_root, &spec.id);
        let old = Approvals::read(&Approvals::path(before, &spec.id)).unwrap_or_default();
        let new = Approvals::read(&path).unwrap_or_default();
        for approval in new.pictures.iter().filter(|new| !old.pictures.contains(new)) {
            let Approval { checkpoint, device, by, reason, .. } = approval;
            found.push(Finding {
                is_error: false,
                message: format!("approves `{checkpoint}` by eye on {device}: {by}: {reason}"),
                line: line_of(&path, checkpoint),
                path: path.clone(),
                notes: Vec::new(),
                help: Some("look at the picture too, before this is merged".to_owned()),
            });
        }
    }
    found
}

/// Why an approval can never apply.
fn problem(spec: &Spec, approval: &Approval) -> Option<String> {
    let is_hit =
        |name: &str, hits: u32| (0..hits).any(|hit| hit_name(name, hit.into()) == approval.checkpoint);
    let Some(checkpoint) = spec.checkpoints.iter().find(|one| is_hit(&one.name, one.hits)) else {
        let names = spec.checkpoints.iter().filter(|one| one.stage == Some(Stage::Image));
        let near = did_you_mean(&approval.checkpoint, names.map(|one| one.name.as_str()));
        return Some(format!("the spec has no such checkpoint{near}"));
    };
    if checkpoint.stage != Some(Stage::Image) {
        return Some("the checkpoint is not a picture, it has no `stage: image`".to_owned());
    }
    if !checkpoint.gated {
        return Some("the checkpoint is not gated, so it cannot fail".to_owned());
    }
    None
}

/// The files of approvals below the spec root, sorted.
fn files(spec_root: &Path) -> Vec<PathBuf> {
    let walk = WalkDir::new(spec_root).max_depth(9).sort_by_file_name().into_iter().filter_map(Result::ok);
    let is_one = |path: &PathBuf| path.to_string_lossy().ends_with(Approvals::SUFFIX);
    walk.map(walkdir::DirEntry::into_path).filter(is_one).collect()
}

/// The line of the file that names the checkpoint, from 1.
fn line_of(path: &Path, checkpoint: &str) -> Option<usize> {
    let text = regular::read_text(path, regular::TEXT).ok()?;
    let name = serde_json::to_string(checkpoint).ok()?;
    text.lines().position(|line| line.contains(&format!("\"checkpoint\": {name}"))).map(|line| line + 1)
}
