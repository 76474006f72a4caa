//! The program `mlx-parity-serve`, which `cargo parity debug --serve` and `cargo parity mcp` start.

use std::process::ExitCode;

fn main() -> ExitCode {
    mlx_parity_serve::main()
}
