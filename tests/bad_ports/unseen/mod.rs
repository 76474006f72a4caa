//! A second catalogue of faults, and of rewrites that change nothing. `unseen.yaml` lists both.
//!
//! Each file repeats the forward pass of one port, line by line as in `ports/`. Where a porter could write something else, the
//! line asks for the variant. A fault is therefore a change of the code, in every layer, and computes with what the lines
//! before it return: golden inputs, if goldens are injected.

mod audio;
mod choices;
mod clip;
mod flow_match;
mod flux;
mod flux_attention;
mod gated_mlp;
mod gemma;
mod gemma_attention;
mod image;
mod mamba;
mod mistral;
mod ops;
mod pipeline;
mod quantized;
mod qwen2_moe;
mod qwen3;
mod qwen_image;
mod qwen_image_rope;
mod t5;
mod text;
mod vae;
mod vision_tower;

use std::cell::Cell;

use mlx_parity::{PortResult, Run, Suite};

/// Registers the variants of every port, and the port of Gemma without a fault.
pub(crate) fn ports(suite: Suite) -> Suite {
    let models: [fn(Suite) -> Suite; 19] = [
        audio::ports,
        choices::ports,
        clip::ports,
        flow_match::ports,
        flux::ports,
        gated_mlp::ports,
        gemma::ports,
        image::ports,
        mamba::ports,
        mistral::ports,
        pipeline::ports,
        quantized::ports,
        qwen2_moe::ports,
        qwen3::ports,
        qwen_image::ports,
        t5::ports,
        text::ports,
        vae::ports,
        vision_tower::ports,
    ];
    models.iter().fold(suite, |suite, ports| ports(suite))
}

/// The variant of a port: the one change that it makes.
struct Variant {
    name: &'static str,
    is_made: Cell<bool>,
}

impl Variant {
    /// Whether the port makes this change here.
    fn is(&self, name: &str) -> bool {
        let is_this = self.name == name;
        if is_this {
            self.is_made.set(true);
        }
        is_this
    }
}

/// Registers a port `<port>/<name>` per name. A variant that no line asks for fails.
fn add(
    suite: Suite,
    port: &str,
    names: &'static [&'static str],
    run_as: fn(&Run, &Variant) -> PortResult,
) -> Suite {
    names.iter().fold(suite, |suite, name| {
        suite.port(format!("{port}/{name}"), move |run| {
            let variant = Variant { name, is_made: Cell::new(false) };
            run_as(run, &variant)?;
            match variant.is_made.get() {
                true => Ok(()),
                false => Err(format!("no line of the port asks for the variant `{name}`").into()),
            }
        })
    })
}
