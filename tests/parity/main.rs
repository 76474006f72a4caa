//! The parity suite: every spec in `parity-specs/` against its port. A file a model says how its ports are run.

mod flow_match;
mod flux;
mod flux_text;
mod gated_mlp;
mod quantized;
mod qwen3;
mod qwen_image;

use std::process::ExitCode;

use mlx_parity::Suite;

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
    let suite = Suite::new("..", "parity-specs", "fixtures");
    MODELS.iter().fold(suite, |suite, ports| ports(suite)).main()
}
