//! `policies.yaml`: named tolerances, and which of them bound the inline tolerances of specs.
//!
//! No policy is built in: the numbers that decide must be in the project's own files. Without the file, a spec that names
//! a policy is wrong, and an inline tolerance needs a `why`, because nothing bounds it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::bounds;
use super::decode::{At, Decode, Reader, entries, mapping};
use super::problem::{SpecError, quoted};
use super::read::{ReadError, read_text};
use super::rules::{tolerance, version};
use super::values::is_identifier;
use super::yaml::{self, Node};
use crate::tensor::Dtype;
use crate::text::suggest::did_you_mean;

/// Name of the policy file, directly in the spec root.
pub const POLICIES: &str = "policies.yaml";

/// A tolerance with a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Policy {
    /// Relative part, times the expected value.
    pub rtol: f64,
    /// Absolute part.
    pub atol: f64,
    /// Dtypes that the policy is meant for; a checkpoint with another dtype needs `why`.
    pub dtypes: Vec<Dtype>,
    /// Its purpose.
    pub about: Option<String>,
}

/// The policies of a spec root.
#[derive(Debug, Clone, PartialEq)]
pub struct Policies {
    /// The path of the file, which need not exist.
    pub path: PathBuf,
    /// By name.
    pub named: BTreeMap<String, Policy>,
    /// By dtype, the name of the policy that bounds inline tolerances.
    pub bounds: BTreeMap<Dtype, String>,
    /// Whether the file exists and is right.
    pub state: PoliciesState,
}

/// Whether `policies.yaml` was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliciesState {
    /// It was read.
    Read,
    /// It does not exist.
    Missing,
    /// It is wrong, so no policy is known.
    Broken,
}

impl Policies {
    /// Reads the policies of a spec root, with the error when the file is wrong.
    pub fn load(spec_root: &Path) -> (Self, Option<SpecError>) {
        let path = spec_root.join(POLICIES);
        let empty =
            |state| Self { path: path.clone(), named: BTreeMap::new(), bounds: BTreeMap::new(), state };
        let source = match read_text(&path) {
            Ok(source) => source,
            Err(ReadError::Missing) => return (empty(PoliciesState::Missing), None),
            Err(ReadError::Bad(problem, source)) => {
                let error = SpecError {
                    id: "policies".to_owned(),
                    path: path.clone(),
                    problems: vec![*problem],
                    source,
                };
                return (empty(PoliciesState::Broken), Some(error));
            }
        };
        match parse(&source) {
            Ok((named, bounds)) => (Self { path, named, bounds, state: PoliciesState::Read }, None),
            Err(problems) => {
                let error = SpecError { id: "policies".to_owned(), path: path.clone(), problems, source };
                (empty(PoliciesState::Broken), Some(error))
            }
        }
    }

    /// The policy that bounds inline tolerances on this dtype.
    pub fn bound(&self, dtype: Dtype) -> Option<(&str, &Policy)> {
        let name = self.bounds.get(&dtype)?;
        Some((name, self.named.get(name)?))
    }
}

type ParsedPolicies = (BTreeMap<String, Policy>, BTreeMap<Dtype, String>);

fn parse(source: &str) -> Result<ParsedPolicies, Vec<super::Problem>> {
    let node = yaml::parse(source, yaml::Keys::Placed).map_err(|problem| vec![problem])?;
    let mut reader = Reader::new(source);
    let file = PolicyFile::decode(&node, &mut reader);
    let read = file.map(|file| check(&file, &mut reader)).unwrap_or_default();
    if reader.problems.is_empty() { Ok(read) } else { Err(reader.sorted()) }
}

fn check(file: &PolicyFile, reader: &mut Reader<'_>) -> ParsedPolicies {
    version(&file.version, reader);
    let mut named = BTreeMap::new();
    let names: Vec<&str> = file
        .policies
        .value()
        .map_or_else(Vec::new, |p| p.0.iter().map(|(name, _)| name.value.as_str()).collect());
    for (name, entry) in file.policies.value().iter().flat_map(|policies| &policies.0) {
        let (Some(rtol), Some(atol)) = (entry.rtol.get(), entry.atol.get()) else { continue };
        let right = [rtol, atol].map(|number| tolerance(number, reader));
        if right == [true, true] {
            let dtypes =
                entry.dtypes.value().iter().flat_map(|list| list.iter().map(|at| at.value)).collect();
            let about = entry.about.value().cloned();
            let policy = Policy { rtol: rtol.value, atol: atol.value, dtypes, about };
            named.insert(name.value.clone(), policy);
        }
    }
    let mut bounds = BTreeMap::new();
    for (dtype, name) in file.bounds.value().iter().flat_map(|bounds| &bounds.0) {
        if !names.contains(&name.value.as_str()) {
            let near = did_you_mean(&name.value, names.iter().copied());
            let message = format!("unknown policy {}{near}", quoted(&name.value));
            reader.problem(&name.place, message, "expected one of those under `policies`");
        }
        bounds.insert(*dtype, name.value.clone());
    }
    (named, bounds)
}

mapping! {
    /// Named tolerances.
    struct PolicyFile ("a policy file", required: [version, policies]) {
        /// Version of the grammar: 1.
        #[schemars(extend("const" = 1))]
        version: u32,
        /// By dtype, the policy that bounds inline tolerances on checkpoints of that dtype.
        bounds: Bounds,
        /// The policies, by name.
        policies: NamedPolicies,
    }
}

mapping! {
    /// A tolerance: `|actual - expected| <= atol + rtol * |expected|` for every element.
    struct PolicyEntry ("a policy", required: [rtol, atol, dtypes]) {
        /// Relative part, times the expected value.
        #[schemars(range(min = 0))]
        rtol: f64,
        /// Absolute part.
        #[schemars(range(min = 0))]
        atol: f64,
        /// Dtypes that the policy is meant for; a checkpoint with another dtype needs `why`.
        dtypes: Vec<At<Dtype>>,
        /// The purpose of the policy.
        about: String,
    }
}

#[derive(Debug)]
pub(super) struct NamedPolicies(Vec<(At<String>, PolicyEntry)>);

impl Decode for NamedPolicies {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = entries(node, "`policies`", reader)?;
        let mut named = Vec::new();
        for (key, value) in entries {
            if !is_identifier(&key.name) {
                let message = format!("policy {} is not a valid name", quoted(&key.name));
                reader.problem(&key.place, message, "expected letters, digits and `_`, and no digit first");
            }
            if let Some(entry) = PolicyEntry::decode(value, reader) {
                named.push((At { value: key.name.clone(), place: key.place.clone() }, entry));
            }
        }
        Some(Self(named))
    }
}

impl JsonSchema for NamedPolicies {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Policies".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let entry = generator.subschema_for::<PolicyEntry>();
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": bounds::NAME },
            "additionalProperties": entry,
        })
    }
}

#[derive(Debug)]
pub(super) struct Bounds(Vec<(Dtype, At<String>)>);

impl Decode for Bounds {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = entries(node, "`bounds`", reader)?;
        let mut bounds = Vec::new();
        for (key, value) in entries {
            let Some(dtype) = Dtype::from_name(&key.name) else {
                let names = Dtype::ALL.map(Dtype::name);
                let near = did_you_mean(&key.name, names);
                let allowed = names.map(|name| format!("`{name}`")).join(", ");
                let message = format!("unknown dtype {}{near}", quoted(&key.name));
                reader.problem(&key.place, message, format!("expected one of {allowed}"));
                continue;
            };
            if let Some(name) = String::decode(value, reader) {
                bounds.push((dtype, At { value: name, place: value.place.clone() }));
            }
        }
        (bounds.len() == entries.len()).then_some(Self(bounds))
    }
}

impl JsonSchema for Bounds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bounds".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let dtype = generator.subschema_for::<Dtype>();
        json_schema!({
            "type": "object",
            "propertyNames": dtype,
            "additionalProperties": { "type": "string" },
        })
    }
}
