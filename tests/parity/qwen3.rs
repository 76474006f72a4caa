//! How Qwen3 is run.

use mlx_parity::Suite;
use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::optimizers::Optimizer;
use mlx_rs::{Array, nn};
use parity_tests::qwen3::{Config, Qwen3};
use parity_tests::training::{AdamW, next_token_loss};
use serde::Deserialize;

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// The parameters of the spec of a training step.
#[derive(Deserialize)]
struct Training {
    lr: f32,
    weight_decay: f32,
    #[serde(flatten)]
    config: Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = suite.port("qwen3::decoder", |run| {
        let Params { steps, config } = run.params()?;
        let mut model = Qwen3::new(&config)?;
        run.weights()?.load_into(&mut model)?;
        model.generate(&run.input("input_ids")?, steps)?;
        Ok(())
    });
    let suite = suite.port("qwen3::greedy", |run| {
        let Params { steps, config } = run.params()?;
        let mut model = Qwen3::new(&config)?;
        run.weights()?.load_into(&mut model)?;
        model.greedy(&run.input("input_ids")?, steps)?;
        Ok(())
    });
    suite.port("qwen3::training", |run| {
        let Training { lr, weight_decay, config } = run.params()?;
        let mut model = Qwen3::new(&config)?;
        run.weights()?.load_into(&mut model)?;
        let (ids, labels) = (run.input("input_ids")?, run.input("labels")?);
        let loss = |model: &mut Qwen3, (ids, labels): (&Array, &Array)| -> Result<Array, Exception> {
            let mut cache = model.new_cache();
            tap("loss", next_token_loss(&model.forward(ids, &mut cache)?, labels)?)
        };
        let (_, gradients) = nn::value_and_grad(loss)(&mut model, (&ids, &labels))?;
        let gradients = run.gradients(&gradients)?;
        let mut optimizer = AdamW::new(lr, weight_decay);
        optimizer.update(&mut model, gradients)?;
        run.state_after(&mut optimizer, &["exp_avg", "exp_avg_sq"])?;
        run.parameters_after(&mut model)?;
        Ok(())
    })
}
