//! How quantised layers are run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::error::Exception;
use parity_tests::quantized::linear::{Config, Twins};

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("quantized::linear", |run| linear(run, |_| {}, |_| Ok(())))
}

/// Runs the layer and its copies, after these changes to the config and to the loaded layers.
pub(crate) fn linear(
    run: &Run,
    prepare: impl Fn(&mut Config),
    change: impl Fn(&mut Twins) -> Result<(), Exception>,
) -> PortResult {
    let mut config = run.params()?;
    prepare(&mut config);
    let mut twins = Twins::new(&config)?;
    run.weights()?.load_into(&mut twins)?;
    change(&mut twins)?;
    twins.forward(&run.input("x")?)?;
    Ok(())
}
