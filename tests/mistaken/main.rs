//! The bundled ports with mistakes that people make, each through config, weights, a wrapped call, or what a mistaken
//! stage would hold at its tap. `faults.yaml` says of each where it shows and what should be said of it.

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
    let Some(root) = std::env::var_os("MISTAKEN_ROOT") else {
        eprintln!("MISTAKEN_ROOT names the folder with parity-specs/");
        return ExitCode::FAILURE;
    };
    let suite = Suite::new(root, "parity-specs", "fixtures");
    MODELS.iter().fold(suite, |suite, ports| ports(suite)).main()
}
