//! A reference script in debug mode.

use std::fs;
use std::process::Command;

use super::error::RegenerateError;
use super::external_files::{ExternalFiles, LIST};
use super::script_call::ScriptCall;
use super::workplace::committed;
use crate::Project;
use crate::references::Runner;
use mlx_parity_core::files::regular;
use mlx_parity_core::spec::{Reference, Spec};

/// Returns the command that steps through the reference of a spec: with the params of the spec, and with the inputs and
/// weights of its committed set, so that it computes the goldens.
pub(crate) fn debug_script(
    project: &Project,
    runner: &Runner,
    spec: &Spec,
    reference: &Reference,
) -> Result<Command, RegenerateError> {
    let script = project.root().join(&reference.script);
    // If the script were a pipe, Python would wait for it forever.
    regular::open(&script).map_err(|source| RegenerateError::read(&script, source))?;
    let block = reference.to_json();
    let call =
        ScriptCall { project, runner, script: &reference.script, reference: &block, env: &reference.env };
    let mut command = call.unguarded();
    command.arg("--debug");
    if let Some(external) = spec.external() {
        let home = project.private_folder();
        fs::create_dir_all(&home)
            .and_then(|()| project.keep_git_away())
            .map_err(|source| RegenerateError::write(&home, source))?;
        ExternalFiles::of(project, &spec.id, external, home.join(LIST))?.tell(&mut command);
    }
    let fixture_root = project.fixture_root();
    if committed(&fixture_root, &spec.fixtures).is_some() {
        command.env("PARITY_REUSE", fixture_root.join(&spec.fixtures));
    }
    Ok(command)
}
