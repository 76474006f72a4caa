//! How the router is run.

use mlx_parity::Suite;
use parity_tests::routing::Mixture;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("routing::topk", |run| {
        let mut mixture = Mixture::new(run.params()?)?;
        run.weights()?.load_into(&mut mixture)?;
        mixture.forward(&run.input("x")?)?;
        Ok(())
    })
}
