//! How the gated MLP is run.

use mlx_parity::Suite;
use parity_tests::gated_mlp::Block;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("gated_mlp::block", |run| {
        let mut block = Block::new(run.params()?)?;
        run.weights()?.load_into(&mut block)?;
        block.forward(&run.input("x")?)?;
        Ok(())
    })
}
