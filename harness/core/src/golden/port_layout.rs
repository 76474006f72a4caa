//! Goldens in the port's layout.

use crate::spec::Checkpoint;
use crate::tensor::{Tensor, TensorView, cast};

/// Returns the golden after the checkpoint's `squeeze` and `layout`. Nothing else changes; `cast` is not applied.
///
/// # Errors
/// If the golden's axes do not match `squeeze` or `layout`. The error names the key.
pub fn in_port_layout<'a>(golden: TensorView<'a>, checkpoint: &Checkpoint) -> Result<TensorView<'a>, String> {
    let golden = golden.squeeze(&checkpoint.squeeze).map_err(|error| format!("`squeeze`: {error}"))?;
    match &checkpoint.layout {
        Some(axes) => golden.permute(axes).map_err(|error| format!("`layout`: {error}")),
        None => Ok(golden),
    }
}

/// Returns a golden as it is compared: after `squeeze`, `layout` and `cast`.
///
/// # Errors
/// Why the spec does not fit the golden, in words.
pub fn as_compared(golden: &Tensor, checkpoint: &Checkpoint) -> Result<Tensor, String> {
    let view = in_port_layout(golden.view(), checkpoint)?;
    let dtype = checkpoint.cast.unwrap_or(view.dtype());
    cast(&view, dtype).map_err(|error| error.to_string())
}
