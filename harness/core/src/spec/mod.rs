//! Reading specs: from YAML to a checked [`Spec`] with its loops expanded.
//!
//! Reading a spec opens its file and `policies.yaml`, but neither a golden nor MLX, so listing specs is cheap.
//!
//! A file takes four steps. `yaml` parses it into a tree whose nodes know their place. `decode` turns the tree into the
//! types of the grammar (`file`, `values`, `keywords`), which also define `schema.json`. `check`, `checkpoint` and `gate`
//! check the rules across keys. `expand` makes one checkpoint per turn of a loop. Every step collects problems, and all
//! are shown together, each with its line.

pub mod bounds;
mod check;
mod checkpoint;
mod checkpoints;
mod choice;
mod counterpart;
mod decode;
mod devices;
mod drawable;
mod expand;
mod expr;
mod external;
mod file;
mod gate;
mod inject;
mod keywords;
pub mod list;
mod load;
mod model;
mod policy;
mod positions;
mod positions_key;
mod problem;
mod read;
mod requirement;
mod rounds;
mod rules;
mod schema;
mod template;
mod tensor_part;
mod twins;
mod values;
mod weights_key;
mod yaml;

pub use check::parse_spec;
pub use checkpoint::parse_layout;
pub use checkpoints::{Checkpoint, Checkpoints, Dim, hit_name};
pub use counterpart::Counterpart;
pub use devices::Devices;
pub use drawable::undrawable;
pub use expand::RESERVED;
pub use external::{External, FileHashes};
pub use inject::Inject;
pub use keywords::{Device, Stage};
pub use load::Specs;
pub use model::{MAIN, MemoryGate, Packing, Reference, Spec, Twin, TwinOf, Weights};
pub use policy::{POLICIES, Policies, PoliciesState, Policy};
pub use positions::Positions;
pub use problem::{Problem, SourceSpan, SpecError};
pub use requirement::{Host, Requirement};
pub use rounds::in_rounds;
pub use schema::{SCHEMA, schema, schema_text};
pub use tensor_part::TensorPart;
