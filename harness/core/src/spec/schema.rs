//! `schema.json` for editors, generated from the types that specs are read into.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::file::SpecFile;
use super::policy::PolicyFile;

/// Name of the schema's file, directly in the spec root.
pub const SCHEMA: &str = "schema.json";

/// The JSON Schema (draft 2020-12) of a spec. It has that of `policies.yaml` under `$defs/PolicyFile`.
///
/// It covers keys, types and words. `cargo xtask lint` checks rules across keys, names and limits of loops.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<PolicyFile>();
    let mut schema = generator.into_root_schema_for::<SpecFile>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), json!("mlx-parity spec"));
    }
    super::model::sorted(&schema)
}

/// The text of the schema's file: sorted keys, two spaces per level, a line feed at the end.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}
