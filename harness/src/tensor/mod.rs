//! Tensors as bytes: dtypes, views, and the files that hold them.
//!
//! Files are mapped, not read: opening one looks at its header only, and a tensor is compared where it lies. What a
//! header claims is checked against the file before anything is allocated for it.

mod cast;
mod dtype;
mod error;
mod file;
mod held;
mod mapped;
mod npy;
mod npz;
mod safetensors;
mod stream;
mod view;
mod write;

pub(crate) use cast::nearest_bf16;
pub use cast::{CastError, cast};
pub use dtype::Dtype;
pub(crate) use error::convert_advice;
pub use error::{Place, TensorError};
pub use file::TensorFile;
pub(crate) use file::{EXTENSIONS, is_lfs_pointer};
pub use held::Tensor;
pub(crate) use stream::for_each_chunk;
pub(crate) use view::row_major;
pub use view::{TensorView, ViewError, byte_len};
pub use write::write_npy;

/// The most axes a file may give a tensor: as many as NumPy allows.
pub(crate) const MAX_AXES: usize = 64;
