//! The parity suite: every spec in `parity-specs/` against its port. A file a model says how its ports are run.

mod gated_mlp;

use std::process::ExitCode;

use mlx_parity::Suite;

fn main() -> ExitCode {
    let suite = Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "parity-specs", "fixtures");
    [gated_mlp::ports].iter().fold(suite, |suite, ports| ports(suite)).main()
}
