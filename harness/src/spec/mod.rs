//! YAML becomes a [`Spec`]: read, checked, with its loops expanded.
//!
//! Reading a spec opens its file and `policies.yaml` and nothing else: no golden, no MLX, so that listing is free.
//!
//! The way of a file: `yaml` gives a tree in which every node knows its place; `decode` turns it into the types of
//! the grammar (`file`, `values`, `words`), from which `schema.json` is made too; `check`, `checkpoint` and `gate`
//! hold the rules across keys; `expand` makes one checkpoint of each turn of a loop. Problems are gathered on the
//! whole way and shown together, each with its line.

pub mod bounds;
mod check;
mod checkpoint;
mod decode;
mod drawable;
mod expand;
mod expr;
mod file;
mod gate;
pub mod list;
mod load;
mod model;
mod policy;
mod problem;
mod read;
mod requirement;
mod schema;
mod template;
mod values;
mod words;
mod yaml;

pub use check::parse_spec;
pub(crate) use checkpoint::parse_layout;
pub(crate) use drawable::undrawable;
pub use expand::RESERVED;
pub use load::Specs;
pub(crate) use model::hit_name;
pub use model::{Checkpoint, Dim, Packing, Reference, Spec, Weights};
pub use policy::{POLICIES, Policies, PoliciesState, Policy};
pub use problem::{Place, Problem, SpecError};
pub use requirement::{Host, Requirement};
pub use schema::{SCHEMA, schema, schema_text};
pub use words::{Device, Stage};
