//! Mistakes in the gated MLP.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use parity_tests::gated_mlp::Block;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        // What mlx-rs takes by default, and PyTorch does not.
        .port("gated_mlp::block/eps", |run| with(run, |block| block.norm.eps = 1e-5))
        .port("gated_mlp::block/gate_and_up_swapped", |run| {
            with(run, |block| std::mem::swap(&mut block.gate, &mut block.up))
        })
        .port("gated_mlp::block/no_bias", |run| {
            with(run, |block| block.down.bias.value = Some(Array::from_slice(&[0f32; 32], &[32])))
        })
}

/// The port as it is, but for what `mistake` does to the loaded block.
fn with(run: &Run, mistake: impl FnOnce(&mut Block)) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    mistake(&mut block);
    block.forward(&run.input("x")?)?;
    Ok(())
}
