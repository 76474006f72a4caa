//! A port whose checkpoint `gated` is a picture that is a little off, for the tests of approvals by eye.

use mlx_parity::Suite;
use mlx_parity_tap::tap;
use mlx_rs::Array;

use crate::misbehaving::forward_by;

pub(crate) fn ports(suite: Suite) -> Suite {
    // Multiplies the picture by a factor, and goes on without the factor. A second factor is for `out`.
    suite.port("picture", |run| {
        let factor: f32 = std::env::var("BAD_PORTS_FACTOR")?.parse()?;
        let of_out: f32 = std::env::var("BAD_PORTS_FACTOR_OF_OUT").map_or(Ok(1.0), |text| text.parse())?;
        forward_by(run, |name, x| {
            let tapped = match name {
                "gated" => x.reshape(&[6, 48])?.multiply(Array::from_f32(factor))?,
                "out" => x.multiply(Array::from_f32(of_out))?,
                _ => x.clone(),
            };
            tap(name, tapped)?;
            Ok(x)
        })
    })
}
