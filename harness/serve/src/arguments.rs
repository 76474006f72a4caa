//! The command line of `mlx-parity-serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mlx_parity_cli::inspect::{GuardArguments, guard};
use mlx_parity_cli::serve::served_project;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::{indented, paint};

use crate::{mcp, rest};

#[derive(Debug, Parser)]
#[command(
    name = "mlx-parity-serve",
    version,
    about = "Serves debug sessions over REST, and specs, runs and debug sessions over MCP",
    after_help = "`cargo parity debug --serve 127.0.0.1:8000` and `cargo parity mcp` start this program."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Cargo.toml of the project [default: the nearest one, from the current folder upwards]
    #[arg(long, global = true, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// The project, as the command describes it that starts this program
    #[arg(long, global = true, hide = true, conflicts_with = "manifest_path")]
    project: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve debug sessions over HTTP, on this machine only
    Rest {
        /// Address and port; port 0 takes a free one
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
        listen: String,
        /// Start a session of this spec at once
        #[arg(long, value_name = "SPEC")]
        start: Option<String>,
    },
    /// Serve specs, runs and debug sessions over MCP, on standard input and output
    Mcp,
    /// Run a command below this process, and end it when standard input closes
    #[command(hide = true)]
    Guard(GuardArguments),
}

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    let Arguments { command, manifest_path, project } = Arguments::parse();
    let project = || {
        let project = served_project(project.as_deref(), manifest_path.as_deref());
        project.map_err(|problem| (problem.to_string(), problem.next()))
    };
    let served = match command {
        Command::Guard(arguments) => return guard(&arguments),
        Command::Rest { listen, start } => project().and_then(|project| {
            rest::run(project, &listen, start.as_deref()).map_err(|error| (error_chain(&error), error.next()))
        }),
        Command::Mcp => {
            project().and_then(|project| mcp::run(project).map_err(|error| (error_chain(&error), None)))
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, next)) => refuse(&message, next.as_deref()),
    }
}

fn refuse(message: &str, next: Option<&str>) -> ExitCode {
    eprintln!("{}: {}", paint(true, "1;31", "error"), indented(message, 7));
    if let Some(next) = next {
        eprintln!("{}: {}", paint(true, "1", "to do"), indented(next, 7));
    }
    ExitCode::FAILURE
}
