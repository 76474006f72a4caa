//! Tensors as bytes: dtypes, views, and the files that hold them.

mod dtype;
mod view;

pub use dtype::Dtype;
pub use view::{TensorView, ViewError, byte_len};
