//! Invalid settings, which stop every command before it does anything.

use thiserror::Error;

use super::Project;
use crate::error::CommandError;
use mlx_parity_core::runs::{StaleError, request};
use mlx_parity_core::settings::{SettingError, Settings};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::text::program::program;

/// Why no command can be run.
#[derive(Debug, Error)]
pub(crate) enum RefusedError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Stale(#[from] StaleError),
}

impl CommandError for RefusedError {
    fn next(&self) -> Option<String> {
        Some(format!("see what is set with `{} doctor`", program()))
    }
}

/// Checks the settings of this process, whether or not the command reads them: a typo is found before a long run, and
/// never taken for the default.
pub(super) fn settings(project: &Project) -> Result<Settings, RefusedError> {
    request()?;
    let specs = || Specs::load(&project.spec_root()).specs.into();
    Ok(Settings::read(specs)?)
}
