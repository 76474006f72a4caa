//! Faults in Qwen3.

mod at_taps;

use std::mem::swap;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::qwen3::{Config, Qwen3, choose};

const STEPS: usize = 4;

pub(crate) fn ports(suite: Suite) -> Suite {
    at_taps::ports(suite)
        .port("qwen3::decoder", |run| with(run, |_| {}, |_| {}))
        // The value of Llama.
        .port("qwen3::decoder/rope_theta", |run| with(run, |config| config.rope_theta = 1e4, |_| {}))
        .port("qwen3::decoder/eps", |run| with(run, |config| config.rms_norm_eps = 1e-5, |_| {}))
        // A tenth of the right eps, in one norm of each layer.
        .port("qwen3::decoder/eps_1e_7", |run| {
            let fault = |model: &mut Qwen3| {
                model.model.layers.iter_mut().for_each(|layer| layer.post_attention_layernorm.eps = 1e-7);
            };
            with(run, |_| {}, fault)
        })
        .port("qwen3::decoder/q_and_k_norm_swapped", |run| {
            let fault = |model: &mut Qwen3| {
                for layer in &mut model.model.layers {
                    swap(&mut layer.self_attn.q_norm, &mut layer.self_attn.k_norm);
                }
            };
            with(run, |_| {}, fault)
        })
        // The smaller models tie it.
        .port("qwen3::decoder/tied_head", |run| {
            let fault = |model: &mut Qwen3| {
                if let Some(head) = &mut model.lm_head {
                    head.weight.value = model.model.embed_tokens.weight.value.clone();
                }
            };
            with(run, |_| {}, fault)
        })
        .port("qwen3::decoder/cache_forgotten", |run| {
            let mut model = loaded(run, |_| {})?;
            let mut tokens = run.input("input_ids")?;
            for step in 0..STEPS {
                let _scope = scope("step", step);
                let logits = model.forward(&tokens, &mut model.new_cache())?;
                tokens = choose(&logits)?.token.expand_dims(1)?;
            }
            Ok(())
        })
        .port("qwen3::decoder/first_position_chosen", |run| {
            let mut model = loaded(run, |_| {})?;
            let mut cache = model.new_cache();
            let mut tokens = run.input("input_ids")?;
            for step in 0..STEPS {
                let _scope = scope("step", step);
                let logits = model.forward(&tokens, &mut cache)?;
                tokens = choose(&logits.try_index((.., ..1))?)?.token.expand_dims(1)?;
            }
            Ok(())
        })
}

fn loaded(
    run: &Run,
    fault: impl FnOnce(&mut Config),
) -> Result<Qwen3, Box<dyn std::error::Error + Send + Sync>> {
    let mut config = run.params()?;
    fault(&mut config);
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok(model)
}

/// The port with these changes to its configuration and to the loaded model.
fn with(run: &Run, configured: impl FnOnce(&mut Config), loaded_so: impl FnOnce(&mut Qwen3)) -> PortResult {
    let mut model = loaded(run, configured)?;
    loaded_so(&mut model);
    model.generate(&run.input("input_ids")?, STEPS)?;
    Ok(())
}
