//! Loads weights in the layout of PyTorch into modules of mlx-rs.

use std::collections::HashMap;
use std::error::Error;

use mlx_rs::Array;
use mlx_rs::module::ModuleParameters;

/// Gives every parameter of `module` the weight with its name. Convolution kernels come in the layout of PyTorch,
/// `[out, in, height, width]`, and are transposed to channel-last.
///
/// # Errors
/// An error of `weight`, or a weight whose shape is not that of its parameter.
pub fn load<E>(
    module: &mut impl ModuleParameters,
    weight: impl Fn(&str) -> Result<Array, E>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let mut loaded = HashMap::new();
    for (name, parameter) in module.parameters().flatten() {
        let mut array = weight(&name).map_err(Into::into)?;
        if array.ndim() == 4 {
            array = array.transpose_axes(&[0, 2, 3, 1])?;
        }
        if array.shape() != parameter.shape() {
            let (found, wanted) = (array.shape(), parameter.shape());
            return Err(format!("`{name}` has shape {found:?}, channels last, expected {wanted:?}").into());
        }
        loaded.insert(name, array);
    }
    module.update_flattened(loaded);
    Ok(())
}
