//! `cargo xtask parity`: the main job.

use std::process::ExitCode;

use thiserror::Error;

use super::{CliError, Project, setup};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

#[derive(Debug, Error)]
pub(crate) enum ParityError {}

impl ParityError {
    pub(crate) fn next(&self) -> Option<String> {
        None
    }
}

pub(crate) fn run(project: &Project, _: &Arguments) -> Result<ExitCode, CliError> {
    setup::ensure(project, false)?;
    let _ = (project.suite_package(), project.suite_target());
    Ok(ExitCode::SUCCESS)
}
