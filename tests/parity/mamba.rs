//! How Mamba is run, and its twins.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::mamba::{Config, Mamba, MixerState, tap_states};
use parity_tests::qwen3::choose;
use serde::Deserialize;

const PORT: &str = "mamba::decoder";

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// What happens to the states between two chunks of a prompt.
pub(crate) type Between = fn(&mut Vec<MixerState>) -> Result<(), Exception>;

pub(crate) fn ports(suite: Suite) -> Suite {
    with_chunks(suite, PORT, |_| Ok(()))
}

/// Registers the model with its twins as `port`.
pub(crate) fn with_chunks(suite: Suite, port: &str, between: Between) -> Suite {
    suite.port(port, |run| with(run, |_| {})).twin(port, "chunked", move |run| chunked(run, between)).twin(
        port,
        "recomputed",
        recomputed,
    )
}

/// The model, the prompt and the number of steps.
pub(crate) fn loaded(run: &Run) -> Result<(Mamba, Array, usize), Box<dyn std::error::Error + Send + Sync>> {
    let Params { steps, config } = run.params()?;
    let mut model = Mamba::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok((model, run.input("input_ids")?, steps))
}

/// Decoding with these changes to the loaded model.
pub(crate) fn with(run: &Run, change: impl FnOnce(&mut Mamba)) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    change(&mut model);
    Ok(model.generate(&prompt, steps)?)
}

/// The prompt in two chunks, and then decoding as before.
fn chunked(run: &Run, between: Between) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    let mut states = model.new_states();
    let mut tokens = prompt.try_index((.., 2..))?;
    for step in 0..steps {
        let _scope = scope("step", step);
        if step == 0 {
            model.forward(&prompt.try_index((.., ..2))?, &mut states)?;
            between(&mut states)?;
        }
        tokens = choose(&model.forward(&tokens, &mut states)?)?.token.expand_dims(1)?;
        tap_states(&mut states)?;
    }
    Ok(())
}

/// Each step scans the whole sequence again, from empty states.
fn recomputed(run: &Run) -> PortResult {
    let (mut model, mut tokens, steps) = loaded(run)?;
    for step in 0..steps {
        let _scope = scope("step", step);
        let mut states = model.new_states();
        let token = choose(&model.forward(&tokens, &mut states)?)?.token;
        tap_states(&mut states)?;
        tokens = concatenate(&[&tokens, &token.expand_dims(1)?.as_dtype(tokens.dtype())?], 1)?;
    }
    Ok(())
}
