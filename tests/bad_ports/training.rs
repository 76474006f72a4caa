//! Faults in a training step: of Qwen3 with AdamW, and of LoRA with accumulation and clipping.

use std::collections::HashMap;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::{Exception, StateProjectionError};
use mlx_rs::module::{ModuleParameters, Parameter};
use mlx_rs::optimizers::{Optimizer, OptimizerState, clip_grad_norm};
use mlx_rs::utils::{StateProjection, Updatable};
use mlx_rs::{Array, nn, ops, stop_gradient};
use parity_tests::qwen3::{Config, Qwen3};
use parity_tests::training::{AdamW, LoraConfig, LoraModel, Moments, next_token_loss};
use serde::Deserialize;

use crate::change::times;

const QWEN3: &[&str] = &[
    "no_bias_correction",
    "weight_decay_coupled",
    "weight_decay_on_norms",
    "eps_in_root",
    "loss_summed",
    "queries_detached",
    "embedding_not_trained",
    "own_adamw",
    "norms_skipped",
    // Unseen.
    "first_moment_not_corrected",
    "decay_without_lr",
    "no_weight_decay",
    "step_added",
    "lr_of_another_config",
    "second_beta_of_llama",
    "all_labels_counted",
    "eps_before_correction",
    // Rewrites.
    "decayed_after_update",
    "moments_as_differences",
    "loss_by_log_softmax",
];

const LORA: &[&str] = &[
    "accumulated_as_sum",
    "not_clipped",
    "b_frozen",
    "base_trained",
    "last_micro_batch_alone",
    // Unseen.
    "clipped_by_value",
    "clipped_one_by_one",
    "alpha_not_divided",
    "accumulated_over_batch_size",
    // Rewrites.
    "divided_after_accumulation",
    "norm_of_norms",
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite =
        suite.port("qwen3::training", |run| qwen3(run, "")).port("lora::training", |run| lora(run, ""));
    let suite = QWEN3
        .iter()
        .fold(suite, |suite, fault| suite.port(format!("qwen3::training/{fault}"), |run| qwen3(run, fault)));
    LORA.iter()
        .fold(suite, |suite, fault| suite.port(format!("lora::training/{fault}"), |run| lora(run, fault)))
}

#[derive(Deserialize)]
struct Training {
    lr: f32,
    weight_decay: f32,
    #[serde(flatten)]
    config: Config,
}

fn qwen3(run: &Run, fault: &'static str) -> PortResult {
    let Training { lr, weight_decay, config } = run.params()?;
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    if fault == "embedding_not_trained" {
        model.model.embed_tokens.freeze_parameters(true);
    }
    let (ids, labels) = (run.input("input_ids")?, run.input("labels")?);
    let loss = |model: &mut Qwen3, (ids, labels): (&Array, &Array)| -> Result<Array, Exception> {
        let mut cache = model.new_cache();
        if fault == "queries_detached" {
            for layer in &mut model.model.layers {
                let q = &mut layer.self_attn.q_proj.weight.value;
                *q = stop_gradient(&*q)?;
            }
        }
        let logits = model.forward(ids, &mut cache)?;
        tap("loss", loss_of(&logits, labels, fault)?)
    };
    let (_, gradients) = nn::value_and_grad(loss)(&mut model, (&ids, &labels))?;
    let gradients = run.gradients(&gradients)?;
    let mut inner = AdamW::new(if fault == "lr_of_another_config" { lr * 0.3 } else { lr }, weight_decay);
    if fault == "second_beta_of_llama" {
        inner.betas.1 = 0.95;
    }
    if fault == "own_adamw" {
        let mut optimizer = mlx_rs::optimizers::AdamW::new(lr);
        optimizer.weight_decay = Array::from_f32(weight_decay);
        return finish(run, &mut model, &mut optimizer, gradients);
    }
    finish(run, &mut model, &mut Variant { inner, fault }, gradients)
}

fn finish(
    run: &Run,
    model: &mut impl ModuleParameters,
    optimizer: &mut impl Optimizer,
    gradients: HashMap<Rc<str>, Array>,
) -> PortResult {
    optimizer.update(model, gradients)?;
    run.state_after(optimizer, &["exp_avg", "exp_avg_sq"])?;
    run.parameters_after(model)?;
    Ok(())
}

fn loss_of(logits: &Array, labels: &Array, fault: &str) -> Result<Array, Exception> {
    use mlx_rs::ops::indexing::TryIndexOp;

    let counted = || -> Result<Array, Exception> {
        let labels = labels.try_index((.., 1..))?;
        labels.ge(Array::from_int(0))?.as_dtype(mlx_rs::Dtype::Float32)?.sum(None)
    };
    match fault {
        "loss_summed" => next_token_loss(logits, labels)?.multiply(counted()?),
        "all_labels_counted" => {
            let all = labels.dim(0) * (labels.dim(1) - 1);
            next_token_loss(logits, labels)?.multiply(counted()?)?.divide(Array::from_f32(all as f32))
        }
        "loss_by_log_softmax" => next_token_loss(&nn::log_softmax(logits, -1)?, labels),
        _ => next_token_loss(logits, labels),
    }
}

/// AdamW with a fault.
struct Variant {
    inner: AdamW,
    fault: &'static str,
}

impl Optimizer for Variant {
    type State = Moments;

    fn state(&self) -> &Moments {
        &self.inner.moments
    }

    fn state_mut(&mut self) -> &mut Moments {
        &mut self.inner.moments
    }

    fn update_single(
        &mut self,
        key: &Rc<str>,
        gradient: &Array,
        parameter: &mut Array,
    ) -> Result<(), Exception> {
        let fault = self.fault;
        let AdamW { lr, eps, weight_decay, .. } = self.inner;
        let number = Array::from_f32;
        let gradient = match fault {
            "weight_decay_coupled" if parameter.ndim() >= 2 => {
                gradient.add(times(parameter, weight_decay)?)?
            }
            _ => gradient.clone(),
        };
        let (m, v) = match fault {
            "moments_as_differences" => {
                let (first, second) = self.inner.betas;
                let zero = times(&gradient, 0.0)?;
                let towards = |now: &Array, keep: f64| {
                    zero.add(now.subtract(&zero)?.multiply(number((1.0 - keep) as f32))?)
                };
                let found = (towards(&gradient, first)?, towards(&gradient.square()?, second)?);
                self.inner.moments.insert(Rc::clone(key), found.clone());
                found
            }
            _ => self.inner.moments_after(key, &gradient)?,
        };
        if fault == "norms_skipped" && parameter.ndim() < 2 {
            return Ok(());
        }
        let (first, second) = match (fault, self.inner.corrections()) {
            ("no_bias_correction", _) => (1.0, 1.0),
            ("first_moment_not_corrected", (_, second)) => (1.0, second),
            (_, both) => both,
        };
        let corrected = v.divide(number(second))?;
        let divisor = match fault {
            "eps_in_root" => corrected.add(number(eps))?.sqrt()?,
            "eps_before_correction" => v.sqrt()?.add(number(eps))?.divide(number(second.sqrt()))?,
            _ => corrected.sqrt()?.add(number(eps))?,
        };
        let update = m.divide(divisor)?.multiply(number(lr / first))?;
        let kept = match fault {
            "weight_decay_coupled" | "no_weight_decay" => parameter.clone(),
            "weight_decay_on_norms" => times(parameter, 1.0 - lr * weight_decay)?,
            "decay_without_lr" if parameter.ndim() >= 2 => times(parameter, 1.0 - weight_decay)?,
            _ => self.inner.kept(parameter)?,
        };
        *parameter = match fault {
            "step_added" => kept.add(update)?,
            "decayed_after_update" if parameter.ndim() >= 2 => {
                parameter.subtract(update)?.subtract(times(parameter, lr * weight_decay)?)?
            }
            _ => kept.subtract(update)?,
        };
        Ok(())
    }
}

impl Updatable for Variant {
    fn state_projection(&mut self) -> Result<StateProjection<'_>, StateProjectionError> {
        self.inner.moments.state_projection()
    }
}

#[derive(Deserialize)]
struct LoraParams {
    micro_batches: usize,
    batch: usize,
    lr: f32,
    weight_decay: f32,
    max_norm: f32,
    #[serde(flatten)]
    config: LoraConfig,
}

fn lora(run: &Run, fault: &'static str) -> PortResult {
    let mut params: LoraParams = run.params()?;
    if fault == "alpha_not_divided" {
        params.config.alpha *= params.config.rank as f32;
    }
    let mut model = LoraModel::new(&params.config)?;
    run.weights()?.load_into(&mut model)?;
    for block in &mut model.blocks {
        for layer in [&mut block.q, &mut block.v] {
            match fault {
                "b_frozen" => layer.lora_b.freeze(true),
                "base_trained" => layer.base.unfreeze_parameters(true),
                _ => {}
            }
        }
    }

    let share = 1.0 / params.micro_batches as f32;
    let mut sums: HashMap<Rc<str>, Array> = HashMap::new();
    for micro in 0..params.micro_batches {
        let _scope = scope("micro", micro);
        let ids = run.input(&format!("micro.{micro}.input_ids"))?;
        let loss = |model: &mut LoraModel, ids: &Array| -> Result<Array, Exception> {
            let loss = next_token_loss(&model.forward(ids)?, ids)?;
            let shown = tap("loss", times(&loss, share)?)?;
            if fault == "divided_after_accumulation" { Ok(loss) } else { Ok(shown) }
        };
        let (_, gradients) = nn::value_and_grad(loss)(&mut model, &ids)?;
        for (name, gradient) in gradients {
            let gradient = match fault {
                "accumulated_as_sum" => times(&gradient, 1.0 / share)?,
                "accumulated_over_batch_size" => times(&gradient, 1.0 / params.batch as f32)?,
                "divided_after_accumulation" => times(&gradient, share)?,
                _ => gradient,
            };
            let sum = match sums.remove(&name).filter(|_| fault != "last_micro_batch_alone") {
                Some(sum) => sum.add(&gradient)?,
                None => gradient,
            };
            sums.insert(name, sum);
        }
    }
    let gradients = run.gradients(&sums)?;
    let clipped = run.tap_each("clipped", &clipped(&gradients, params.max_norm, fault)?)?;
    finish(run, &mut model, &mut AdamW::new(params.lr, params.weight_decay), clipped)
}

fn clipped(
    gradients: &HashMap<Rc<str>, Array>,
    most: f32,
    fault: &str,
) -> Result<HashMap<Rc<str>, Array>, Exception> {
    let each = |change: &dyn Fn(&Array) -> Result<Array, Exception>| {
        gradients.iter().map(|(name, gradient)| Ok((Rc::clone(name), change(gradient)?))).collect()
    };
    let norm = |gradient: &Array| gradient.square()?.sum(None)?.sqrt();
    let factor = |norm: &Array| {
        let factor = Array::from_f32(most).divide(norm.add(Array::from_f32(1e-6))?)?;
        ops::minimum(factor, Array::from_f32(1.0))
    };
    match fault {
        "not_clipped" => Ok(gradients.clone()),
        "clipped_by_value" => each(&|gradient| ops::clip(gradient, (-most / 10.0, most / 10.0))),
        "clipped_one_by_one" => each(&|gradient| gradient.multiply(factor(&norm(gradient)?)?)),
        "norm_of_norms" => {
            let norms: Vec<Array> = gradients.values().map(norm).collect::<Result<_, _>>()?;
            let factor = factor(&norm(&ops::stack(&norms, 0)?)?)?;
            each(&|gradient| gradient.multiply(&factor))
        }
        _ => {
            let (clipped, _) = clip_grad_norm(gradients, most)?;
            Ok(clipped.into_iter().map(|(name, gradient)| (name, gradient.into_owned())).collect())
        }
    }
}
