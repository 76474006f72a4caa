//! Tensors as bytes: dtypes, views, and the files that hold them.
//!
//! Files are mapped into memory. Opening one reads its header only, and tensors are compared without a copy. A header is
//! checked against the file before anything is allocated for it.

mod cast;
mod dtype;
mod error;
mod file;
mod float64_view;
mod format;
mod mapped;
mod npy;
mod npz;
mod owned;
mod safetensors;
mod stream;
mod view;
mod write;

pub use cast::nearest_bf16;
pub use cast::{CastError, cast};
pub use dtype::Dtype;
pub use error::convert_advice;
pub use error::{TensorError, TensorPlace};
pub use file::TensorFile;
pub use file::is_lfs_pointer;
pub use float64_view::Float64View;
pub use format::TensorFormat;
pub use owned::Tensor;
pub use stream::for_each_chunk;
pub use view::byte_len;
pub use view::row_major;
pub use view::{TensorView, ViewError};
pub use write::write_npy;

/// The most axes that a tensor in a file may have: as many as NumPy allows.
pub const MAX_AXES: usize = 64;
