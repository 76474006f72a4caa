//! {{component}} of {{model}}, ported from its reference. Taps are at the checkpoints of `{{spec}}`.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;

/// What is left to do here; both functions say so until they do what their names promise.
const FILL_IN: &str = "fill in: the port in `{{port_file}}`, its layers in `new` and its forward pass with a tap at each \
    checkpoint of `{{spec}}`";

/// The port. Its layers are fields with `#[param]`, named as the weights are (the spec's `weights.rename` helps).
#[derive(Debug, ModuleParameters)]
pub struct Port {}

impl Port {
    /// A port whose parameters are still to be loaded.
    pub fn new() -> Result<Self, Exception> {
        Err(Exception::custom(FILL_IN))
    }

    /// Runs it once, e.g. with `let x = tap("conv_in", self.conv_in.forward(x)?)?;` (`use mlx_parity_tap::{scope, tap};`),
    /// and in a loop with `let _scope = scope("blocks", i);` around the taps of a turn.
    pub fn forward(&mut self, _inputs: &[Array]) -> Result<Array, Exception> {
        Err(Exception::custom(FILL_IN))
    }
}
