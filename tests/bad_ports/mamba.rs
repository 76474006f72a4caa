//! Faults in Mamba.

#[path = "../parity/mamba.rs"]
mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, ops};
use parity_tests::mamba::{Mamba, Mixer, MixerState, tap_states};
use parity_tests::qwen3::choose;

use crate::at_tap::{TapFault, add_faults};
use crate::change::backwards;
use right::{loaded, with, with_chunks};

const PORT: &str = "mamba::decoder";

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = right::ports(suite)
        .port("mamba::decoder/dt_bias_left_out", |run| {
            with(run, |model| {
                mixers(model).for_each(|mixer| mixer.dt_proj.bias.value = ops::zeros::<f32>(&[48]).ok());
            })
        })
        // The last weight of the convolution is taken for the oldest token.
        .port("mamba::decoder/kernel_backwards", |run| {
            with(run, |model| {
                for mixer in mixers(model) {
                    let weight = &mut mixer.conv1d.weight.value;
                    *weight = backwards(weight, 2).expect("the kernel is on axis 2");
                }
            })
        })
        .port("mamba::decoder/scan_state_lost", |run| {
            changed(run, |state| {
                state.scan = state.scan.take().map(ops::zeros_like).transpose()?;
                Ok(())
            })
        })
        .port("mamba::decoder/conv_state_lost", |run| {
            changed(run, |state| {
                state.conv = state.conv.take().map(ops::zeros_like).transpose()?;
                Ok(())
            })
        });
    let suite = add_faults(suite, PORT, |run| with(run, |_| {}), AT_TAPS);
    with_chunks(suite, "mamba::decoder/state_lost_between_chunks", |states| {
        states.iter_mut().for_each(|state| state.scan = None);
        Ok(())
    })
}

fn mixers(model: &mut Mamba) -> impl Iterator<Item = &mut Mixer> {
    model.backbone.layers.iter_mut().map(|layer| &mut layer.mixer)
}

/// Decoding with a change of the states after each step.
fn changed(run: &Run, change: fn(&mut MixerState) -> Result<(), Exception>) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    let mut states = model.new_states();
    let mut tokens = prompt.clone();
    for step in 0..steps {
        let _scope = scope("step", step);
        tokens = choose(&model.forward(&tokens, &mut states)?)?.token.expand_dims(1)?;
        tap_states(&mut states)?;
        states.iter_mut().try_for_each(change)?;
    }
    Ok(())
}

const AT_TAPS: &[TapFault] = &[
    (
        "softplus_left_out",
        "step.0.layers.0.mixer.dt",
        &[],
        // The inverse of softplus.
        |dt, _| dt.exp()?.subtract(Array::from_f32(1.0))?.log(),
    ),
    // The parameter is taken for A itself.
    (
        "a_not_exponentiated",
        "step.0.layers.0.mixer.decay",
        &["step.0.layers.0.mixer.dt", "weights/backbone.layers.0.mixer.A_log"],
        |_, from| from[1].negative()?.expand_dims(1)?.multiply(from[0].expand_dims(-1)?)?.exp(),
    ),
    ("a_not_negated", "step.0.layers.0.mixer.decay", &[], |decay, _| decay.reciprocal()),
    (
        "skip_left_out",
        "step.0.layers.0.mixer.skipped",
        &[
            "step.0.layers.0.mixer.scan.0.out",
            "step.0.layers.0.mixer.scan.1.out",
            "step.0.layers.0.mixer.scan.2.out",
            "step.0.layers.0.mixer.scan.3.out",
            "step.0.layers.0.mixer.scan.4.out",
            "step.0.layers.0.mixer.scan.5.out",
        ],
        |_, outs| concatenate(outs, -1),
    ),
    // A new input pushes the newest out.
    ("conv_state_shifted_back", "step.0.layers.0.cache.conv", &[], |state, _| backwards(state, 2)),
];
