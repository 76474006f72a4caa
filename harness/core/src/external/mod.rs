//! External weights: files outside the project, such as the shards of a model in the cache of Hugging Face.
//!
//! A spec names them by a path with environment variables and wildcards, or by an index file. This module finds the files.
//! `golden` opens and verifies them.

mod error;
mod index;
mod locate;
mod path;

pub use error::ExternalError;
pub use index::WeightMap;
pub use locate::{ExternalFile, LocatedWeights, locate};
pub use path::{ExternalPath, PathProblem};
