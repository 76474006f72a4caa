//! The parity suite: every spec in `parity-specs/` against its port. A file a model says how its ports are run.

mod flow_match;
mod flux_text;
mod gated_mlp;
mod quantized;

use std::process::ExitCode;

use mlx_parity::Suite;

fn main() -> ExitCode {
    let suite = Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "parity-specs", "fixtures");
    [flow_match::ports, flux_text::ports, gated_mlp::ports, quantized::ports]
        .iter()
        .fold(suite, |suite, ports| ports(suite))
        .main()
}
