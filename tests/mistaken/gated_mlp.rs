//! Mistakes in the gated MLP.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::{Array, Dtype};
use parity_tests::gated_mlp::Block;

use crate::change::{plus, through, times};
use crate::plant::{Planted, plant};

pub(crate) fn ports(suite: Suite) -> Suite {
    plant(suite, "gated_mlp::block", |run| with(run, |_| {}), PLANTED)
        .port("gated_mlp::block", |run| with(run, |_| {}))
        // What mlx-rs takes by default, and PyTorch does not.
        .port("gated_mlp::block/eps", |run| with(run, |block| block.norm.eps = 1e-5))
        .port("gated_mlp::block/gate_and_up_swapped", |run| {
            with(run, |block| std::mem::swap(&mut block.gate, &mut block.up))
        })
        .port("gated_mlp::block/no_bias", |run| {
            with(run, |block| block.down.bias.value = Some(Array::from_slice(&[0f32; 32], &[32])))
        })
        // As Gemma stores its weights, minus one.
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

const PLANTED: &[Planted] = &[
    ("no_residual", "out", &["inputs/x"], |x, from| x.subtract(&from[0])),
    // As much as a sum in another order or a slightly other eps may come to, and not a factor that anybody wrote.
    ("nearly_right", "norm", &[], |x, _| times(x, 0.99999)),
    // No fault at all, for tests of the bench itself.
    ("nothing", "out", &[], |x, _| Ok(x.clone())),
];

/// The port as it is, but for what `mistake` does to the loaded block.
fn with(run: &Run, mistake: impl FnOnce(&mut Block)) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    mistake(&mut block);
    block.forward(&run.input("x")?)?;
    Ok(())
}
