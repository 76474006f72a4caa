//! The parity suite: one test per checkpoint of each spec in `parity-specs/`.

use std::process::ExitCode;

use mlx_parity::Suite;
use parity_tutorial::GatedMlp;

fn main() -> ExitCode {
    Suite::new(".", "parity-specs", "fixtures")
        .port("gated_mlp::block", |run| {
            let mut port = GatedMlp::new(run.params()?)?;
            run.weights()?.load_into(&mut port)?;
            port.forward(&run.input("x")?)?;
            Ok(())
        })
        .main()
}
