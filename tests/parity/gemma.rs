//! How Gemma is run.

use mlx_parity::Suite;
use parity_tests::gemma::{Config, Gemma};
use serde::Deserialize;

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("gemma::decoder", |run| {
        let Params { steps, config } = run.params()?;
        let mut model = Gemma::new(&config)?;
        run.weights()?.load_into(&mut model)?;
        model.generate(&run.input("input_ids")?, steps)?;
        Ok(())
    })
}
