//! How the parts of Flux are run.

use mlx_parity::Suite;
use parity_tests::flux::{transformer, vae};

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("flux::transformer", |run| {
            let mut model = transformer::Transformer::new(&run.params()?)?;
            run.weights()?.load_into(&mut model)?;
            model.forward(&transformer::Inputs {
                hidden_states: run.input("hidden_states")?,
                encoder_hidden_states: run.input("encoder_hidden_states")?,
                pooled_projections: run.input("pooled_projections")?,
                timestep: run.input("timestep")?,
                guidance: Some(run.input("guidance")?),
                img_ids: run.input("img_ids")?,
                txt_ids: run.input("txt_ids")?,
            })?;
            Ok(())
        })
        .port("flux::vae_decoder", |run| {
            let weights = run.weights()?;
            let mut decoder = vae::Decoder::new(&run.params()?)?;
            decoder.load(|name| weights.get(name))?;
            // Inputs are as the reference had them, with channels first.
            decoder.forward(&run.input("latents")?.transpose_axes(&[0, 2, 3, 1])?)?;
            Ok(())
        })
}
