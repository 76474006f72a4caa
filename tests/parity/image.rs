//! How the front-ends of vision models are run.

use mlx_parity::Suite;
use parity_tests::image::preprocess;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("image::preprocess", |run| {
        preprocess(&run.params()?, &run.input("bytes")?)?;
        Ok(())
    })
}
