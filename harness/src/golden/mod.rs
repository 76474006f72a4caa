//! A fixture folder: goldens, inputs and weights that a reference made, and the manifest that vouches for them.
//!
//! Nothing here writes a golden. `fixtures/README.md` has the format, for exporters in any language.

mod error;
mod key;
mod manifest;
mod memory;
mod set;
mod verify;

pub use crate::identity::FileIdentity;
pub use error::FixtureError;
pub use key::{canonical_json, made_by_key};
pub use manifest::{FORMAT, MadeBy, Manifest, ManifestError, Role, TensorEntry};
pub use memory::{ChecksumMemory, Trust};
pub(crate) use set::MANIFEST;
pub use set::{FixtureSet, Golden};
