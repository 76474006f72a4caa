//! The command `debug`: steps through a port at a prompt, or by a script from a pipe.

use std::process::ExitCode;
use std::time::Duration;

use super::error::DebugError;
use super::options::Options;
use super::prompt::{Front, serve as serve_prompt};
use super::reference;
use super::session::Session;
use crate::error::print_error;
use crate::find_spec::find_spec;
use crate::{CliError, Project, serve};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask debug gated_mlp/block               a prompt; `help` lists its commands\n  \
    printf 'break failed\\ncontinue\\nlocation\\n' | cargo xtask debug gated_mlp/block\n  \
    cargo xtask debug gated_mlp/block --json        answers as JSON, one object per line\n  \
    cargo xtask debug gated_mlp/block --reference   the reference instead of the port\n  \
    cargo xtask debug --serve 127.0.0.1:8000        a REST server, by the program `mlx-parity-serve`\n\n\
    The session stops before the port starts. The timeout does not count while the port is stopped.\n\
    Ctrl-C pauses a running port at its next tap, and a second Ctrl-C ends the port. Commands and\n\
    answers are in target/parity/debug/*/trace.jsonl; `cargo xtask report` with the name of the\n\
    session prints them. A session judges nothing.\n\n\
    Exits with 0 when the session ended as asked, with 1 when the port crashed or could not start,\n\
    and with 2 for bad usage: an unknown spec, or a line of a script that is no command.")]
pub(crate) struct Arguments {
    /// Spec, as `model/component`
    #[arg(required_unless_present = "serve")]
    spec: Option<String>,
    /// Instead of a prompt, serve debug sessions over REST at this address of this machine; TCP port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["json", "release", "idle_limit"])]
    serve: Option<String>,
    /// Step through the reference of the spec instead of the port, with the inputs and weights of its fixtures
    #[arg(long, conflicts_with_all = ["serve", "release", "idle_limit"])]
    reference: bool,
    /// With --reference: download its environment without asking
    #[arg(long, requires = "reference")]
    yes: bool,
    /// Print answers as JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
    /// End the worker when no command comes for this long
    #[arg(long, value_name = "SECONDS", default_value_t = Options::IDLE.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=7 * 24 * 3600))]
    idle_limit: u64,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if let Some(address) = &arguments.serve {
        return serve::rest(project, address, arguments.spec.as_deref());
    }
    let id = arguments.spec.as_deref().unwrap_or_default();
    if arguments.reference {
        return match find_spec(project, id) {
            Ok(spec) => reference::step(project, &spec, arguments.json, arguments.yes),
            Err(error) => Ok(bad_usage(error)),
        };
    }
    let options = Options {
        release: arguments.release,
        idle: Duration::from_secs(arguments.idle_limit),
        guard: true,
        ..Options::new(id)
    };
    let session = match Session::start(project, options) {
        Ok(session) => session,
        Err(error @ DebugError::Spec(_)) => return Ok(bad_usage(error)),
        Err(error) => return Err(error.into()),
    };
    Ok(serve_prompt(session, Front { json: arguments.json, root: project.root().to_owned() }))
}

/// Prints the error, and returns the exit code for bad usage.
fn bad_usage(error: impl Into<CliError>) -> ExitCode {
    print_error(&error.into());
    ExitCode::from(2)
}
