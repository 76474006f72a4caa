//! How the parts of Flux are run.

use mlx_parity::Suite;
use parity_tests::flux::vae;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("flux::vae_decoder", |run| {
        let weights = run.weights()?;
        let mut decoder = vae::Decoder::new(&run.params()?)?;
        decoder.load(|name| weights.get(name))?;
        // Inputs are as the reference had them, with channels first.
        decoder.forward(&run.input("latents")?.transpose_axes(&[0, 2, 3, 1])?)?;
        Ok(())
    })
}
