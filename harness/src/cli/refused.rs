//! What makes every command stop before it does anything: a setting that it could not follow, or a root that is not that of
//! the checkout it runs in.

use thiserror::Error;

use super::Project;
use crate::root::RootError;
use crate::run::{StaleError, request};
use crate::settings::{SettingError, Settings};
use crate::spec::Specs;

/// Why no command can be run.
#[derive(Debug, Error)]
pub(crate) enum RefusedError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Stale(#[from] StaleError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl RefusedError {
    pub(super) fn next(&self) -> Option<String> {
        match self {
            Self::Root(_) => None,
            _ => Some("see what is set with `cargo xtask doctor`".into()),
        }
    }
}

/// Looks at the settings that this process was started with, whether or not the command would read them: a slip is found
/// before a long run, and never taken for the default.
pub(super) fn settings(project: &Project) -> Result<Settings, RefusedError> {
    request()?;
    let specs = || Specs::load(&project.spec_root()).specs.into();
    Ok(Settings::read(specs)?)
}
