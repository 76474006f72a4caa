//! The parity suite: every spec in `parity-specs/` against its port.

use std::process::ExitCode;

use mlx_parity::Suite;
use parity_tests::gated_mlp;

fn main() -> ExitCode {
    Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "parity-specs", "fixtures")
        .port("gated_mlp::block", |run| {
            let mut block = gated_mlp::Block::new(run.params()?)?;
            run.weights()?.load_into(&mut block)?;
            block.forward(&run.input("x")?)?;
            Ok(())
        })
        .main()
}
