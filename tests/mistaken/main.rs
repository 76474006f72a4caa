//! The bundled ports with mistakes that people make, each through config, weights or a wrapped call. `mistakes.rs` runs
//! this suite on each of them and expects the first red checkpoint and its class.

mod gated_mlp;

use std::process::ExitCode;

use mlx_parity::Suite;

fn main() -> ExitCode {
    let Some(root) = std::env::var_os("MISTAKEN_ROOT") else {
        eprintln!("MISTAKEN_ROOT names the folder with parity-specs/");
        return ExitCode::FAILURE;
    };
    let suite = Suite::new(root, "parity-specs", "fixtures");
    [gated_mlp::ports].iter().fold(suite, |suite, ports| ports(suite)).main()
}
