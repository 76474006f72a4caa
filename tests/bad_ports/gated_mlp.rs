//! Faults in the gated MLP.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::{Array, Dtype};
use parity_tests::gated_mlp::Block;

use crate::at_tap::{TapFault, add_faults};
use crate::change::{plus, through, times};

pub(crate) fn ports(suite: Suite) -> Suite {
    add_faults(suite, "gated_mlp::block", |run| with(run, |_| {}), AT_TAPS)
        .port("gated_mlp::block", |run| with(run, |_| {}))
        // The default of mlx-rs, which PyTorch does not share.
        .port("gated_mlp::block/eps", |run| with(run, |block| block.norm.eps = 1e-5))
        .port("gated_mlp::block/gate_and_up_swapped", |run| {
            with(run, |block| std::mem::swap(&mut block.gate, &mut block.up))
        })
        .port("gated_mlp::block/no_bias", |run| {
            with(run, |block| block.down.bias.value = Some(Array::from_slice(&[0f32; 32], &[32])))
        })
        // Gemma stores its weights minus one.
        .port("gated_mlp::block/weight_from_one", |run| {
            with(run, |block| {
                block.norm.weight.value = plus(&block.norm.weight.value, 1.0).expect("there are numbers");
            })
        })
        .port("gated_mlp::block/weights_in_half_precision", |run| {
            with(run, |block| {
                for linear in [&mut block.gate, &mut block.up] {
                    let weight = &mut linear.weight.value;
                    *weight = through(weight, Dtype::Float16).expect("numbers can be rounded");
                }
            })
        })
}

const AT_TAPS: &[TapFault] = &[
    ("no_residual", "out", &["inputs/x"], |x, from| x.subtract(&from[0])),
    // As small as the effect of another order of summing: no factor that anybody would write.
    ("nearly_right", "norm", &[], |x, _| times(x, 0.99999)),
    // No fault at all, for tests of the bench itself.
    ("nothing", "out", &[], |x, _| Ok(x.clone())),
];

/// Runs the port with this change to the loaded block.
fn with(run: &Run, fault: impl FnOnce(&mut Block)) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    fault(&mut block);
    block.forward(&run.input("x")?)?;
    Ok(())
}
