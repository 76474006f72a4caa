//! Fixture folders: the goldens, inputs and weights that a reference made, and their manifest.
//!
//! Nothing here writes a golden. `fixtures/README.md` describes the format, for exporters in any language.

mod adapter_facts;
mod checksums;
mod entry;
mod error;
mod external;
mod external_checksums;
mod external_record;
mod key;
mod manifest;
mod memory;
mod port_layout;
mod recipes;
mod rows;
mod second_reference;
mod set;
mod slots;
mod step_facts;
mod verify;

pub use crate::files::identity::FileIdentity;
pub use adapter_facts::{AdapterFacts, AdapterFile};
pub use entry::{RecipesFile, Role, TensorEntry};
pub use error::FixtureError;
pub use external::ExternalWeights;
pub use external_record::ExternalRecord;
pub use key::{canonical_json, made_by_key};
pub use manifest::{FORMAT, MadeBy, Manifest, ManifestError};
pub use memory::{ChecksumMemory, Trust};
pub use port_layout::{as_compared, in_port_layout};
pub use rows::{Correspondence, RowsError, SelectedRows};
pub use second_reference::{Agreement, SecondReference, SecondScript};
pub use set::MANIFEST;
pub use set::{FixtureSet, Golden};
pub use slots::{SlotMatch, SlotsError};
pub use step_facts::StepFacts;
