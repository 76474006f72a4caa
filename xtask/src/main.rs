//! The commands of this repository, built with the versions in its lock file. Their settings are in
//! `workspace.metadata.parity` in `Cargo.toml`.

use std::process::ExitCode;

use mlx_parity_cli::Project;

fn main() -> ExitCode {
    Project::from_manifest("..").main()
}
