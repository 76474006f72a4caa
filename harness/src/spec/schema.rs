//! `schema.json`, for editors: made from the types that specs are read into, so it cannot say anything else.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::file::SpecFile;
use super::policy::PolicyFile;

/// Name of the schema's file, directly under the spec root.
pub const SCHEMA: &str = "schema.json";

/// The JSON Schema (draft 2020-12) of a spec; that of `policies.yaml` is in it under `$defs/PolicyFile`.
///
/// It knows keys, kinds and words. Rules across keys, names and bounds of loops are left to `cargo xtask lint`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<PolicyFile>();
    let mut schema = generator.into_root_schema_for::<SpecFile>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), json!("mlx-parity spec"));
    }
    super::model::sorted(&schema)
}

/// The schema as its file has it: keys in order, two spaces a level, a line feed at the end.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}
