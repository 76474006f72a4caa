//! The bundled ports with mistakes that people make, each through config, weights, a wrapped call, or what a mistaken
//! stage would hold at its tap. `faults.yaml` says of each where it shows and what should be said of it.
//!
//! `cargo xtask fault-bench` runs it. With `MISTAKEN_XTASK` set it is the `cargo xtask` of the project in `MISTAKEN_ROOT`, for
//! tests of that command.

mod change;
mod flow_match;
mod flux;
mod flux_text;
mod gated_mlp;
mod plant;
mod quantized;
mod qwen3;
mod qwen_image;

use std::process::ExitCode;

use mlx_parity::Suite;
use mlx_parity::cli::Project;

/// Each adds the ports of its model.
const MODELS: &[fn(Suite) -> Suite] = &[
    flow_match::ports,
    flux::ports,
    flux_text::ports,
    gated_mlp::ports,
    quantized::ports,
    qwen3::ports,
    qwen_image::ports,
];

fn main() -> ExitCode {
    let root = std::env::var_os("MISTAKEN_ROOT").unwrap_or_else(|| "..".into());
    if std::env::var_os("MISTAKEN_XTASK").is_some() {
        let project = Project::new(root, "parity-specs", "fixtures").without_setup();
        return project.fault_bench("tests/faults.yaml", "parity-tests", "mistaken").main();
    }
    let suite = Suite::new(root, "parity-specs", "fixtures").fault_bench();
    MODELS.iter().fold(suite, |suite, ports| ports(suite)).main()
}
