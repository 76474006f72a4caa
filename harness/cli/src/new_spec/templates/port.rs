//! {{component}} of {{model}}, ported from its reference, with a tap at each checkpoint of `{{spec}}`.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;

/// What is left to do here. Both functions fail with it until they are filled in.
const FILL_IN: &str = "fill in: the port in `{{port_file}}`, its layers in `new` and its forward pass with a tap at each \
    checkpoint of `{{spec}}`";

/// The port. Its layers are fields with `#[param]`, named as the weights are; the spec's `weights.rename` can rename weights.
#[derive(Debug, ModuleParameters)]
pub struct Port {}

impl Port {
    /// Returns a port whose parameters are not loaded yet.
    pub fn new() -> Result<Self, Exception> {
        Err(Exception::custom(FILL_IN))
    }

    /// Runs the forward pass once. A tap is `let x = tap("conv_in", self.conv_in.forward(x)?)?;`. In a loop,
    /// `let _scope = scope("blocks", i);` puts `blocks.<i>.` before the names of the taps that follow. Both are in
    /// `mlx_parity_tap`.
    pub fn forward(&mut self, _inputs: &[Array]) -> Result<Array, Exception> {
        // {{taps}}
        Err(Exception::custom(FILL_IN))
    }
}
