//! The parity suite: every spec in `parity-specs/` against its port.

use std::process::ExitCode;

use mlx_parity::Suite;

/// One file per model, which says how its ports are run.
#[path = "parity"]
mod models {
    pub(super) mod audio;
    pub(super) mod flow_match;
    pub(super) mod flux;
    pub(super) mod flux_text;
    pub(super) mod gated_mlp;
    pub(super) mod gemma;
    pub(super) mod image;
    pub(super) mod lora;
    pub(super) mod mamba;
    pub(super) mod mistral;
    pub(super) mod quantized;
    pub(super) mod qwen2_moe;
    pub(super) mod qwen3;
    pub(super) mod qwen3_variants;
    pub(super) mod qwen_image;
    pub(super) mod routing;
    pub(super) mod text;
}

/// Each function registers the ports of one model.
const MODELS: &[fn(Suite) -> Suite] = &[
    models::audio::ports,
    models::flow_match::ports,
    models::flux::ports,
    models::flux_text::ports,
    models::gated_mlp::ports,
    models::gemma::ports,
    models::image::ports,
    models::lora::ports,
    models::mamba::ports,
    models::mistral::ports,
    models::quantized::ports,
    models::qwen2_moe::ports,
    models::qwen3::ports,
    models::qwen3_variants::ports,
    models::qwen_image::ports,
    models::routing::ports,
    models::text::ports,
];

fn main() -> ExitCode {
    let suite = Suite::new("..", "parity-specs", "fixtures");
    MODELS.iter().fold(suite, |suite, ports| ports(suite)).main()
}
