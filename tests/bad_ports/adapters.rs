//! Faults in how adapters are applied: a small transformer with LoRA on queries and values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::module::ModuleParameters;
use parity_tests::training::{LoraConfig, LoraLinear, LoraModel};

thread_local! {
    /// The parameters of the first call, for a port that caches them.
    static KEPT: RefCell<Option<HashMap<Rc<str>, Array>>> = const { RefCell::new(None) };
}

const FAULTS: &[&str] = &[
    "without_effect",
    "applied_twice",
    "scale_forgotten",
    "only_first_block",
    "factors_exchanged",
    // Unseen.
    "alpha_alone",
    "root_of_rank",
    "subtracted",
    "layers_exchanged",
    "b_of_first_block",
    "values_only",
    // Of the end-to-end tests.
    "other_rank",
    "base_alone",
    "kept_from_first_call",
    // Rewrites.
    "merged",
    "scale_in_b",
    "read_one_by_one",
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = suite.port("lora::inference", |run| port(run, ""));
    FAULTS
        .iter()
        .fold(suite, |suite, fault| suite.port(format!("lora::inference/{fault}"), |run| port(run, fault)))
}

fn port(run: &Run, fault: &str) -> PortResult {
    let mut config: LoraConfig = run.params()?;
    if fault == "other_rank" {
        config.rank /= 2;
    }
    let mut model = LoraModel::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let adapters = run.adapters()?;
    if fault == "base_alone" {
        // Nothing is loaded.
    } else if fault == "kept_from_first_call" {
        adapters.load_into(&mut model)?;
        let loaded = model.parameters().flatten().into_iter();
        let loaded = loaded.map(|(name, array)| (name, array.clone())).collect();
        let kept = KEPT.with_borrow_mut(|kept| kept.get_or_insert(loaded).clone());
        model.update_flattened(kept);
    } else if fault == "read_one_by_one" {
        for (i, block) in model.blocks.iter_mut().enumerate() {
            for (name, layer) in [("q", &mut block.q), ("v", &mut block.v)] {
                layer.lora_a.value = adapters.get(&format!("blocks.{i}.{name}.lora_a"))?;
                layer.lora_b.value = adapters.get(&format!("blocks.{i}.{name}.lora_b"))?;
            }
        }
    } else {
        adapters.load_into(&mut model)?;
    }
    let (rank, alpha) = (config.rank as f32, config.alpha);
    let first_b = model.blocks[0].q.lora_b.value.clone();
    for (i, block) in model.blocks.iter_mut().enumerate() {
        if fault == "layers_exchanged" {
            std::mem::swap(&mut block.q.lora_a, &mut block.v.lora_a);
            std::mem::swap(&mut block.q.lora_b, &mut block.v.lora_b);
        }
        if fault == "values_only" {
            block.q.scale = 0.0;
        }
        if fault == "b_of_first_block" {
            block.q.lora_b.value = first_b.clone();
        }
        for layer in [&mut block.q, &mut block.v] {
            match fault {
                "without_effect" => layer.scale = 0.0,
                "applied_twice" => merge(layer)?,
                "scale_forgotten" => layer.scale = 1.0,
                "only_first_block" if i > 0 => layer.scale = 0.0,
                "factors_exchanged" => {
                    let (a, b) = (layer.lora_a.value.clone(), layer.lora_b.value.clone());
                    layer.lora_a.value = b.t();
                    layer.lora_b.value = a.t();
                }
                "alpha_alone" => layer.scale = alpha,
                "root_of_rank" => layer.scale = alpha / rank.sqrt(),
                "subtracted" => layer.scale = -layer.scale,
                "merged" => {
                    merge(layer)?;
                    layer.scale = 0.0;
                }
                "scale_in_b" => {
                    let scale = Array::from_f32(layer.scale);
                    layer.lora_b.value = layer.lora_b.value.multiply(scale)?;
                    layer.scale = 1.0;
                }
                _ => {}
            }
        }
    }
    model.forward(&run.input("input_ids")?)?;
    Ok(())
}

/// Adds the product of the adapter to the weight of its layer.
fn merge(layer: &mut LoraLinear) -> Result<(), Exception> {
    let product = layer.lora_b.value.matmul(&layer.lora_a.value)?;
    let weight = &mut layer.base.weight.value;
    *weight = weight.add(product.multiply(Array::from_f32(layer.scale))?)?;
    Ok(())
}
