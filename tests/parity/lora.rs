//! How LoRA is trained, and how a trained one is applied.

use std::collections::HashMap;
use std::rc::Rc;

use mlx_parity::Suite;
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::optimizers::{Optimizer, clip_grad_norm};
use mlx_rs::{Array, nn};
use parity_tests::training::{AdamW, LoraConfig, LoraModel, next_token_loss};
use serde::Deserialize;

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    micro_batches: usize,
    lr: f32,
    weight_decay: f32,
    max_norm: f32,
    #[serde(flatten)]
    config: LoraConfig,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = suite.port("lora::inference", |run| {
        let mut model = LoraModel::new(&run.params()?)?;
        run.weights()?.load_into(&mut model)?;
        run.adapters()?.load_into(&mut model)?;
        model.forward(&run.input("input_ids")?)?;
        Ok(())
    });
    suite.port("lora::training", |run| {
        let params: Params = run.params()?;
        let mut model = LoraModel::new(&params.config)?;
        run.weights()?.load_into(&mut model)?;

        let share = Array::from_f32(1.0 / params.micro_batches as f32);
        let mut sums: HashMap<Rc<str>, Array> = HashMap::new();
        for micro in 0..params.micro_batches {
            let _scope = scope("micro", micro);
            let ids = run.input(&format!("micro.{micro}.input_ids"))?;
            let loss = |model: &mut LoraModel, ids: &Array| -> Result<Array, Exception> {
                tap("loss", next_token_loss(&model.forward(ids)?, ids)?.multiply(&share)?)
            };
            let (_, gradients) = nn::value_and_grad(loss)(&mut model, &ids)?;
            for (name, gradient) in gradients {
                let sum =
                    sums.remove(&name).map_or_else(|| Ok(gradient.clone()), |sum| sum.add(&gradient))?;
                sums.insert(name, sum);
            }
        }
        let gradients = run.gradients(&sums)?;
        let (clipped, _) = clip_grad_norm(&gradients, params.max_norm)?;
        let clipped = run.tap_each("clipped", &clipped)?;

        let mut optimizer = AdamW::new(params.lr, params.weight_decay);
        optimizer.update(&mut model, clipped)?;
        run.state_after(&mut optimizer, &["exp_avg", "exp_avg_sq"])?;
        run.parameters_after(&mut model)?;
        Ok(())
    })
}
