//! A port whose checkpoint `gated` is a picture that is a little off, for the tests of approvals by eye.

use mlx_parity::Suite;
use mlx_parity_tap::tap;
use mlx_rs::Array;

use crate::misbehaving::forward_by;

pub(crate) fn ports(suite: Suite) -> Suite {
    // Multiplies the picture by a factor, and goes on without the factor.
    suite.port("picture", |run| {
        let factor: f32 = std::env::var("BAD_PORTS_FACTOR")?.parse()?;
        forward_by(run, |name, x| {
            let picture = || x.reshape(&[6, 48])?.multiply(Array::from_f32(factor));
            tap(name, if name == "gated" { picture()? } else { x.clone() })?;
            Ok(x)
        })
    })
}
