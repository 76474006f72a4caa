//! Bad ports, in two suites.
//!
//! The catalogue of faults has the bundled ports with mistakes that people make: in the config, in the weights, in a call, or in
//! what a tap holds. `faults.yaml` lists where each fault shows and which cause should be reported. `cargo xtask fault-bench` runs it.
//! The faults in `unseen/` are listed in `unseen.yaml`, which was written before any of them was run.
//!
//! The suite in `misbehaving.rs` has one small port per way to misbehave. The end-to-end tests run it in projects of their own.
//!
//! `BAD_PORTS_MODE` selects what this binary is, and `BAD_PORTS_ROOT` the root of its project.

mod adapters;
mod at_tap;
mod audio;
mod change;
mod choices;
mod flow_match;
mod flux;
mod flux_text;
mod gated_mlp;
mod image;
mod mamba;
mod misbehaving;
mod mistral;
mod picture;
mod quantized;
mod qwen2_moe;
mod qwen3;
mod qwen3_variants;
mod qwen_image;
mod text;
mod training;
mod twins;
mod unseen;

use std::path::Path;
use std::process::ExitCode;

use mlx_parity::Suite;
use mlx_parity_cli::Project;

/// Each function registers the ports of one model.
const MODELS: &[fn(Suite) -> Suite] = &[
    adapters::ports,
    audio::ports,
    choices::ports,
    flow_match::ports,
    flux::ports,
    flux_text::ports,
    gated_mlp::ports,
    image::ports,
    mamba::ports,
    mistral::ports,
    quantized::ports,
    qwen2_moe::ports,
    qwen3::ports,
    qwen3_variants::ports,
    qwen_image::ports,
    text::ports,
    training::ports,
    unseen::ports,
];

fn main() -> ExitCode {
    // As if MLX ended every process that computes a few small tensors.
    if std::env::var_os("BAD_PORTS_BROKEN_MLX").is_some() && std::env::var_os("PARITY_SMOKE").is_some() {
        std::process::abort();
    }
    let root = std::env::var_os("BAD_PORTS_ROOT").unwrap_or_else(|| "..".into());
    let suite = || Suite::new(&root, "parity-specs", "fixtures");
    // The commands of the project, without `setup`, which would build MLX in it.
    let xtask = || Project::new(&root, "parity-specs", "fixtures").without_setup();
    match std::env::var("BAD_PORTS_MODE").as_deref() {
        Err(_) => MODELS.iter().fold(suite().fault_bench(), |suite, ports| ports(suite)).main(),
        Ok("misbehaving") => {
            let suite = choices::ports(mistral::ports(adapters::ports(suite())));
            choices::twins(twins::twins(picture::ports(misbehaving::ports(suite)))).main()
        }
        Ok("xtask") => xtask().main(),
        Ok("xtask_with_faults") => {
            let known = xtask().fault_bench("tests/faults.yaml", "parity-tests", "bad_ports");
            let unseen = "tests/unseen.yaml";
            let has_unseen = Path::new(&root).join(unseen).is_file();
            if has_unseen { known.unseen_faults(unseen).main() } else { known.main() }
        }
        Ok(other) => {
            eprintln!("BAD_PORTS_MODE is `{other}`, expected `misbehaving`, `xtask` or `xtask_with_faults`");
            ExitCode::FAILURE
        }
    }
}
