//! Reads `recipes.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use super::attributes::{Attribute, Attributes};
use super::decode::decode;
use super::graph::{Node, Operand, Place, Recipe};
use super::operands::MAX_OPERANDS;

/// The version of the format that this build reads.
pub const FORMAT: u32 = 1;
/// The longest file that is read.
pub const MAX_BYTES: u64 = 64 << 20;
/// The most nodes of a recipe.
const MAX_NODES: usize = 1 << 20;
/// The most sources, goldens, and goldens without a node.
const MAX_NAMES: usize = 1 << 16;
/// The longest name, path or reason, in bytes.
const MAX_TEXT: usize = 4096;

/// Why a recipe cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum RecipeError {
    /// It is not JSON, or does not follow the format.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is too long to be read.
    #[error("it has {found} bytes, at most {MAX_BYTES} are allowed")]
    TooLong { found: u64 },
    /// It was made for a later version of mlx-parity.
    #[error("its format is {found}, this mlx-parity reads up to {FORMAT}")]
    Future { found: u64 },
    /// Its version never existed.
    #[error("its format is {found}, expected {FORMAT}")]
    Format { found: u64 },
    /// A node names a source that is not listed.
    #[error("node {node} comes from source {found}, but only {listed} are listed")]
    Source { node: usize, found: usize, listed: usize },
    /// A golden names a node that does not exist.
    #[error("golden `{}` is node {found}, but only {nodes} exist", golden.escape_debug())]
    Golden { golden: String, found: usize, nodes: usize },
    /// A golden is both in `goldens` and in `missing`.
    #[error("golden `{}` is in `goldens` and in `missing`, expected one of them", golden.escape_debug())]
    Both { golden: String },
    /// The recipe and the manifest list different tensors.
    #[error("{0}")]
    Manifest(String),
}

impl Recipe {
    /// Reads a recipe and checks every number and name in it.
    ///
    /// # Errors
    ///
    /// When the text is not a recipe of this version, or contradicts itself.
    pub fn parse(text: &[u8]) -> Result<Self, RecipeError> {
        if text.len() as u64 > MAX_BYTES {
            return Err(RecipeError::TooLong { found: text.len() as u64 });
        }
        // The version is read first and alone, because a later format may have keys that are unknown here.
        #[derive(Deserialize)]
        struct Probe {
            format: u64,
        }
        match serde_json::from_slice::<Probe>(text)?.format {
            found if found > u64::from(FORMAT) => return Err(RecipeError::Future { found }),
            found if found < u64::from(FORMAT) => return Err(RecipeError::Format { found }),
            _ => {}
        }
        let RecipeFile { format: _, sources: Texts(sources), nodes: Nodes(nodes), goldens, missing } =
            serde_json::from_slice(text)?;
        for (index, node) in nodes.iter().enumerate() {
            if let Some(Place { file, .. }) = node.place.filter(|place| place.file >= sources.len()) {
                return Err(RecipeError::Source { node: index, found: file, listed: sources.len() });
            }
        }
        for (golden, &found) in &goldens.0 {
            if found >= nodes.len() {
                let (golden, nodes) = (golden.clone(), nodes.len());
                return Err(RecipeError::Golden { golden, found, nodes });
            }
            if missing.0.contains_key(golden) {
                return Err(RecipeError::Both { golden: golden.clone() });
            }
        }
        let missing = missing.0.into_iter().map(|(name, why)| (name, why.0)).collect();
        Ok(Self { nodes, goldens: goldens.0, missing, sources })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    #[expect(dead_code, reason = "it was checked before")]
    format: u32,
    sources: Texts,
    nodes: Nodes,
    goldens: Names<usize>,
    missing: Names<Text>,
}

/// A text of bounded length.
#[derive(Debug)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.len() {
            0..=MAX_TEXT => Ok(Self(text)),
            found => {
                Err(D::Error::custom(format!("a text has {found} bytes, at most {MAX_TEXT} are allowed")))
            }
        }
    }
}

struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of paths")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(Text(text)) = items.next_element()? {
                    limit(texts.len(), MAX_NAMES, "sources")?;
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// An object in which every key appears once.
struct Names<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Names<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Names<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a name per golden")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names<T>, A::Error> {
                let mut names = BTreeMap::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    limit(names.len(), MAX_NAMES, "goldens")?;
                    if names.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format!("golden {name:?} is given twice")));
                    }
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Nodes(Vec<Node>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Nodes, A::Error> {
                let mut nodes: Vec<Node> = Vec::new();
                while let Some(node) = items.next_element::<NodeFile>()? {
                    let index = nodes.len();
                    limit(index, MAX_NODES, "nodes")?;
                    let bad = |name: &str, problem| {
                        A::Error::custom(format!("node {index} (`{}`): {problem}", name.escape_debug()))
                    };
                    nodes.push(node.check(index).map_err(|(name, problem)| bad(&name, problem))?);
                }
                Ok(Nodes(nodes))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A node as it is written: `[op, inputs, attributes]` or `[op, inputs, attributes, source, line]`.
struct NodeFile {
    name: String,
    inputs: Vec<Operand>,
    attributes: Attributes,
    place: Option<Place>,
}

impl NodeFile {
    /// Returns the node, or the name of its operation and what is wrong with it.
    fn check(self, index: usize) -> Result<Node, (String, String)> {
        let later = self.inputs.iter().find_map(|input| match input {
            Operand::Node(node) if *node >= index => Some(node),
            _ => None,
        });
        if let Some(later) = later {
            return Err((self.name, format!("its operand {later} is not an earlier node")));
        }
        let op = decode(&self.name, self.attributes).map_err(|problem| (self.name.clone(), problem))?;
        let present: Vec<bool> = self.inputs.iter().map(|input| *input != Operand::Absent).collect();
        op.check_operands(&present).map_err(|problem| (self.name, problem))?;
        Ok(Node { op, inputs: self.inputs, place: self.place })
    }
}

impl<'de> Deserialize<'de> for NodeFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = NodeFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node `[op, inputs, attributes]` or `[op, inputs, attributes, source, line]`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NodeFile, A::Error> {
                let short = |length| A::Error::invalid_length(length, &self);
                let Text(name) = items.next_element()?.ok_or_else(|| short(0))?;
                let Inputs(inputs) = items.next_element()?.ok_or_else(|| short(1))?;
                let attributes = items.next_element()?.ok_or_else(|| short(2))?;
                let place = match items.next_element::<usize>()? {
                    None => None,
                    Some(file) => {
                        let line: u32 = items.next_element()?.ok_or_else(|| short(4))?;
                        if line == 0 {
                            return Err(A::Error::custom("a line is 0, expected a number from 1"));
                        }
                        Some(Place { file, line })
                    }
                };
                match items.next_element::<IgnoredAny>()? {
                    None => Ok(NodeFile { name, inputs, attributes, place }),
                    Some(_) => Err(A::Error::invalid_length(6, &self)),
                }
            }
        }
        deserializer.deserialize_seq(Parts)
    }
}

struct Inputs(Vec<Operand>);

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Inputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of operands")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Inputs, A::Error> {
                let mut inputs = Vec::new();
                while let Some(input) = items.next_element::<Attribute>()? {
                    limit(inputs.len(), MAX_OPERANDS, "operands")?;
                    inputs.push(operand(&input).ok_or_else(|| {
                        A::Error::custom(format!(
                            "an operand is {input}, expected a node's number, [x] for a number x, or null"
                        ))
                    })?);
                }
                Ok(Inputs(inputs))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

fn operand(written: &Attribute) -> Option<Operand> {
    match written {
        Attribute::Null => Some(Operand::Absent),
        Attribute::Whole(node) => usize::try_from(*node).ok().map(Operand::Node),
        Attribute::List(items) => match items.as_slice() {
            [number] => number.number().map(Operand::Number),
            _ => None,
        },
        _ => None,
    }
}

/// Fails when one more item would be too many.
fn limit<E: Error>(length: usize, allowed: usize, what: &str) -> Result<(), E> {
    if length < allowed { Ok(()) } else { Err(E::custom(format!("more than {allowed} {what}"))) }
}
