//! Finds `mlx-parity-serve`, the program with the servers, and starts it for a project.
//!
//! The servers are a program of their own, so that the commands, which a repository builds for its `cargo xtask`, need neither
//! a web server nor an MCP library.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;
use thiserror::Error;

use super::cargo::cargo;
use super::manifest::ManifestError;
use super::project::{Description, Project};
use super::workspace::packages;
use super::{CliError, refused};
use crate::error::{CommandError, CommandProblem};
use mlx_parity_core::text::program::{PARITY, XTASK, set_program};

/// The name of the program and of its package.
const SERVE: &str = "mlx-parity-serve";
/// The option with the description of the project, as JSON.
const PROJECT: &str = "--project";

/// Why the servers cannot be started.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    #[error("the program `{SERVE}` is neither beside `{}` nor on the path", own.display())]
    NotFound { own: PathBuf },
    #[error("Cargo could not build `{SERVE}`")]
    Build,
    #[error("cannot start Cargo")]
    Cargo { source: io::Error },
    #[error("cannot start `{}`", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot describe the project")]
    Description { source: serde_json::Error },
}

impl CommandError for ServeError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some(format!("install it with `{}`", installation())),
            Self::Build => Some("correct what Cargo reports above".into()),
            Self::Start { .. } => Some(format!("install it again with `{}`", installation())),
            _ => None,
        }
    }
}

fn installation() -> String {
    format!("cargo install --git {} {SERVE}", env!("CARGO_PKG_REPOSITORY"))
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask mcp                                     Speak MCP on standard input and output\n  \
    claude mcp add parity -- cargo xtask mcp            Let an agent use it\n\n\
    Starts the program `mlx-parity-serve`. An MCP client starts this command, so you never type\n\
    it. It ends, with its debug session and its run, when the client closes standard input.")]
pub(crate) struct McpArguments {}

/// Starts the MCP server in place of this process.
pub(crate) fn mcp(project: &Project, _: &McpArguments) -> Result<ExitCode, CliError> {
    start(project, &["mcp".into()])
}

/// Starts the REST server for debug sessions in place of this process. It starts with a session of `spec`, if there is one.
pub(crate) fn rest(project: &Project, address: &str, spec: Option<&str>) -> Result<ExitCode, CliError> {
    let mut arguments: Vec<OsString> = vec!["rest".into(), "--listen".into(), address.into()];
    if let Some(spec) = spec {
        arguments.extend(["--start".into(), spec.into()]);
    }
    start(project, &arguments)
}

/// Starts the program with these arguments in place of this process.
fn start(project: &Project, arguments: &[OsString]) -> Result<ExitCode, CliError> {
    let program = find(project)?;
    let description =
        serde_json::to_string(&project.description()).map_err(|source| ServeError::Description { source })?;
    // On success `exec` does not return: signals and the terminal then belong to the server alone.
    let source = Command::new(&program).args(arguments).arg(PROJECT).arg(description).exec();
    Err(ServeError::Start { program, source }.into())
}

/// The program: built from the project if that is a checkout of mlx-parity, else beside this program, else on the path.
fn find(project: &Project) -> Result<PathBuf, ServeError> {
    if has_package(project) {
        return build(project.root());
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.with_file_name(SERVE);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(SERVE)).find(|file| file.is_file());
    on_path.ok_or(ServeError::NotFound { own })
}

/// Whether a package of the project is the servers. A project that Cargo cannot read is served all the same.
fn has_package(project: &Project) -> bool {
    packages(project.root()).is_ok_and(|packages| packages.iter().any(|package| package.name == SERVE))
}

/// Builds the program with the features that `cargo test` uses, so that both share one build, and returns its path.
fn build(root: &Path) -> Result<PathBuf, ServeError> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    let mut command = cargo(root);
    command.args(["build", "--quiet", "--workspace", "--bin", SERVE]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().map_err(|source| ServeError::Cargo { source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let built = messages.filter_map(|message| message.executable).next_back();
    built.filter(|_| output.status.success()).ok_or(ServeError::Build)
}

/// Why a server has no project.
#[derive(Debug, Error)]
enum ProjectProblem {
    #[error("`{PROJECT}` is no description of a project")]
    Damaged(#[source] serde_json::Error),
    #[error("`{SERVE}` has version {}, but the command that started it has version {found}", env!("CARGO_PKG_VERSION"))]
    Version { found: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl CommandError for ProjectProblem {
    fn next(&self) -> Option<String> {
        match self {
            Self::Damaged(_) => {
                Some(format!("leave `{PROJECT}` out; commands set it when they start `{SERVE}`"))
            }
            Self::Version { .. } => Some(format!(
                "install the same version of both: `cargo install --git {0} mlx-parity-cli {SERVE}`",
                env!("CARGO_PKG_REPOSITORY")
            )),
            Self::Manifest(error) => error.next(),
        }
    }
}

/// Returns the project that a server works on: the one that the command that started it described, or else the Cargo workspace
/// around `manifest_path` or the current folder. Also sets the words with which messages name commands.
///
/// # Errors
/// When there is no such project, a setting is wrong, or the command has another version.
pub fn served_project(
    description: Option<&str>,
    manifest_path: Option<&Path>,
) -> Result<Project, CommandProblem> {
    let project = match description {
        Some(text) => described(text)?,
        None => {
            set_program(PARITY);
            Project::around(manifest_path).map_err(ProjectProblem::from)?
        }
    };
    refused::settings(&project)?;
    Ok(project)
}

fn described(text: &str) -> Result<Project, ProjectProblem> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let Version { version } = serde_json::from_str(text).map_err(ProjectProblem::Damaged)?;
    if version != env!("CARGO_PKG_VERSION") {
        return Err(ProjectProblem::Version { found: version });
    }
    let description: Description = serde_json::from_str(text).map_err(ProjectProblem::Damaged)?;
    set_program(if description.program == XTASK { XTASK } else { PARITY });
    Ok(Project::of_description(description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_project_is_the_same_project() {
        let project = Project::new("/", "specs", "sets").suite("other").exporter("python").without_setup();
        let text = serde_json::to_string(&project.description()).unwrap();
        let again = described(&text).unwrap();
        assert_eq!(serde_json::to_string(&again.description()).unwrap(), text);
        assert!(again.spec_root().ends_with("specs") && !again.sets_up() && again.suite_target() == "other");
    }

    #[test]
    fn a_description_of_another_version_is_refused() {
        let wrong = |text: &str| described(text).unwrap_err().to_string();
        assert!(wrong(r#"{"version": "99.0.0"}"#).contains("the command that started it has version 99.0.0"));
        assert!(wrong("{").contains("no description"));
        let unknown = format!(r#"{{"version": "{}", "other": 1}}"#, env!("CARGO_PKG_VERSION"));
        assert!(wrong(&unknown).contains("no description"));
    }
}
