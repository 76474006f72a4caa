//! `debug SPEC --reference`: steps through the reference of a spec, by its script's own debug mode.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use thiserror::Error;

use crate::error::CommandError;
use crate::references::Environments;
use crate::regenerate::debug_script;
use crate::{CliError, Project};
use mlx_parity_core::spec::Spec;

/// Why a reference cannot be stepped through.
#[derive(Debug, Error)]
enum ReferenceError {
    #[error("spec `{spec}` names no reference")]
    None { spec: String },
    #[error("cannot start the Python for `{script}`")]
    Start { script: String, source: io::Error },
}

impl CommandError for ReferenceError {
    fn next(&self) -> Option<String> {
        match self {
            Self::None { spec } => Some(format!("add `reference: {{script: …}}` to the spec `{spec}`")),
            Self::Start { .. } => None,
        }
    }
}

/// Starts the script in debug mode, in place of this process: it then has the terminal and its signals to itself.
pub(super) fn step(project: &Project, spec: &Spec, json: bool, yes: bool) -> Result<ExitCode, CliError> {
    let Some(reference) = &spec.reference else {
        return Err(ReferenceError::None { spec: spec.id.clone() }.into());
    };
    let runner = Environments::new(project, yes).of(&project.root().join(&reference.script))?;
    let mut command = debug_script(project, &runner, spec, reference)?;
    // On success `exec` does not return.
    let source = command.args(json.then_some("--json")).exec();
    Err(ReferenceError::Start { script: reference.script.clone(), source }.into())
}
