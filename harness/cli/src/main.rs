//! The program `cargo-parity`, which Cargo runs as `cargo parity`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mlx_parity_cli::cargo_parity()
}
