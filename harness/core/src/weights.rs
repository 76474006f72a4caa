//! The weights of a spec, by the names of the port, and the problems that names, dtypes and shapes show.
//! Reads no tensor and needs no MLX.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::golden::{FixtureSet, TensorEntry};
use crate::spec::list::counted;
use crate::spec::{Packing, Weights};
use crate::tensor::{Dtype, convert_advice};

/// Why the weights of a spec cannot be listed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum WeightIndexError {
    #[error("the spec's weight file `{file}` has no weights in the manifest{}", convert_advice(file))]
    NoFile { file: String },
    #[error("the spec's external weights are not on this machine")]
    NotHere,
    #[error("the spec's `rename` turns both `{first}` and `{second}` into the weight `{name}`")]
    TwoWeights { name: String, first: String, second: String },
}

/// Every weight of the spec's files, by name.
#[derive(Debug)]
pub struct WeightIndex<'a> {
    /// The port's name of each weight, and its entry in the manifest.
    weights: BTreeMap<String, &'a TensorEntry>,
}

/// Problems of the weight files themselves, whatever the port does with them. Each text begins with a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WeightProblems {
    /// Weights of another dtype than the spec declares.
    pub mistyped: Vec<String>,
    /// Scales or biases that a quantised weight lacks.
    pub siblings: Vec<String>,
    /// Weights packed differently than the spec declares or their scales allow.
    pub packing: Vec<String>,
}

impl<'a> WeightIndex<'a> {
    /// Lists the weights that the spec declares, with its `rename` applied.
    ///
    /// # Errors
    /// When a declared file has no weights, when external weights were not added to the set, or when two weights get the
    /// same name.
    pub fn of(declared: &Weights, set: &'a FixtureSet) -> Result<Self, WeightIndexError> {
        if let Some(file) =
            declared.files.iter().find(|file| !set.weights().any(|entry| entry.file == **file))
        {
            return Err(WeightIndexError::NoFile { file: file.clone() });
        }
        if declared.external.is_some() && set.external().is_none() {
            return Err(WeightIndexError::NotHere);
        }
        let mut weights: BTreeMap<String, &TensorEntry> = BTreeMap::new();
        for entry in set.weights().filter(|entry| is_declared(entry, declared)) {
            let name = renamed(&entry.name, &declared.rename);
            if let Some(first) = weights.insert(name.clone(), entry) {
                let (first, second) = (first.name.clone(), entry.name.clone());
                return Err(WeightIndexError::TwoWeights { name, first, second });
            }
        }
        Ok(Self { weights })
    }

    /// Every weight with the port's name, sorted by name.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &'a TensorEntry)> {
        self.weights.iter().map(|(name, entry)| (name.as_str(), *entry))
    }

    /// Returns the problems that names, dtypes and shapes show.
    pub fn problems(&self, declared: &Weights) -> WeightProblems {
        let mut problems = WeightProblems::default();
        if let Some(wanted) = declared.dtype {
            let others = self.weights().filter(|(_, entry)| entry.dtype.is_float() && entry.dtype != wanted);
            problems.mistyped.extend(others.map(|(name, entry)| {
                format!("{name}: the file has {}, but the spec declares {wanted}", entry.dtype)
            }));
        }
        let by_stored: BTreeMap<&str, &TensorEntry> =
            self.weights.values().map(|entry| (entry.name.as_str(), *entry)).collect();
        let mut any = false;
        for entry in self.weights.values().filter(|entry| entry.dtype == Dtype::Uint32) {
            let Some(layer) = layer(&entry.name) else { continue };
            any = true;
            let [scales, biases] = ["scales", "biases"].map(|kind| {
                let found = layer_names(layer, kind).find_map(|name| by_stored.get(name.as_str()).copied());
                if found.is_none() {
                    let name = layer_names(layer, kind).next().unwrap_or_default();
                    problems
                        .siblings
                        .push(format!("{name}: not in the files, but `{}` is quantised", entry.name));
                }
                found
            });
            if let (Some(scales), Some(biases)) = (scales, biases)
                && let Err(problem) = check_packing(entry, scales, biases, declared.quantized)
            {
                problems.packing.push(format!("{}: {problem}", entry.name));
            }
        }
        if let Some(packing) = declared.quantized.filter(|_| !any) {
            problems.packing.push(format!("the spec declares {packing}, but no weight is quantised"));
        }
        problems
    }
}

/// Whether the weight is in one of the declared files.
pub fn is_declared(entry: &TensorEntry, declared: &Weights) -> bool {
    match entry.is_external() {
        true => declared.external.is_some(),
        false => declared.files.contains(&entry.file),
    }
}

/// The prefix of a layer's tensors: `blocks.0.up.` for `blocks.0.up.weight`.
fn layer(name: &str) -> Option<&str> {
    name.strip_suffix("weight").filter(|layer| layer.is_empty() || layer.ends_with('.'))
}

/// The possible names of another tensor of a quantised layer. mlx-rs keeps and saves the packed weight one level deeper, in
/// `inner`.
fn layer_names(layer: &str, kind: &str) -> impl Iterator<Item = String> {
    let outer = layer.strip_suffix("inner.").filter(|outer| outer.is_empty() || outer.ends_with('.'));
    [Some(layer), outer].into_iter().flatten().map(move |layer| format!("{layer}{kind}"))
}

fn check_packing(
    weight: &TensorEntry,
    scales: &TensorEntry,
    biases: &TensorEntry,
    declared: Option<Packing>,
) -> Result<(), String> {
    if scales.shape != biases.shape {
        return Err(format!("its scales are {:?}, but its biases are {:?}", scales.shape, biases.shape));
    }
    let ([rows @ .., words], [scale_rows @ .., groups]) = (&weight.shape[..], &scales.shape[..]) else {
        return Err("a quantised weight has at least one axis".to_owned());
    };
    if rows != scale_rows {
        return Err(format!("it is {:?}, but its scales are {:?}", weight.shape, scales.shape));
    }
    let fitting = Packing::fitting(*words, *groups);
    let right = declared.map_or(!fitting.is_empty(), |packing| packing.fits(*words, *groups));
    if right {
        return Ok(());
    }
    let allowed: Vec<String> = fitting.iter().map(Packing::to_string).collect();
    let allowed =
        if allowed.is_empty() { "no packing that MLX has".to_owned() } else { allowed.join(", or ") };
    let shapes = format!("rows of {} with {}", counted(*words, "word"), counted(*groups, "group"));
    Err(match declared {
        Some(packing) => format!("the spec declares {packing}, but {shapes} allow {allowed}"),
        None => format!("{shapes} allow {allowed}"),
    })
}

/// Returns the port's name of a weight: every run of whole segments that a rule names is replaced, the longest rule first.
pub fn renamed(name: &str, rules: &BTreeMap<String, String>) -> String {
    let mut ordered: Vec<(Vec<&str>, &str)> =
        rules.iter().map(|(from, to)| (from.split('.').collect(), to.as_str())).collect();
    ordered.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let mut rest: &[&str] = &name.split('.').collect::<Vec<_>>();
    let mut parts = Vec::new();
    while let [first, others @ ..] = rest {
        match ordered.iter().find(|(from, _)| rest.starts_with(from)) {
            Some((from, to)) => {
                parts.extend((!to.is_empty()).then_some(*to));
                rest = &rest[from.len()..];
            }
            None => {
                parts.push(*first);
                rest = others;
            }
        }
    }
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Role;

    #[test]
    fn renames_touch_whole_segments_only() {
        let rules: BTreeMap<String, String> = [("attn.proj", "attn.out"), ("proj", "p"), ("inner", "")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .into();
        for (name, wanted) in [
            ("blocks.0.attn.proj.weight", "blocks.0.attn.out.weight"),
            ("proj.weight", "p.weight"),
            ("proj_in.weight", "proj_in.weight"),
            ("proj", "p"),
            ("proj.proj.weight", "p.p.weight"),
            ("q.inner.weight", "q.weight"),
        ] {
            assert_eq!(renamed(name, &rules), wanted);
        }
    }

    fn problems(entries: &[(&str, Dtype, &[usize])], declared: &Weights) -> WeightProblems {
        let entries: Vec<TensorEntry> = entries
            .iter()
            .map(|(name, dtype, shape)| TensorEntry {
                name: (*name).to_owned(),
                role: Role::Weight,
                file: "w.safetensors".to_owned(),
                key: None,
                dtype: *dtype,
                shape: shape.to_vec(),
                sha256: String::new(),
                sequence: None,
                floor: None,
                floor_block: None,
                no_floor: None,
                spread: None,
                place: None,
                step: None,
            })
            .collect();
        let weights = entries.iter().map(|entry| (entry.name.clone(), entry)).collect();
        WeightIndex { weights }.problems(declared)
    }

    const SCALES: (&str, Dtype, &[usize]) = ("a.scales", Dtype::Float16, &[8, 2]);
    const BIASES: (&str, Dtype, &[usize]) = ("a.biases", Dtype::Float16, &[8, 2]);

    fn quantized(bits: u32, group_size: u32) -> Weights {
        Weights { quantized: Some(Packing { bits, group_size }), ..Weights::default() }
    }

    #[test]
    fn a_quantised_weight_has_scales_and_biases_beside_it() {
        let weight = ("a.weight", Dtype::Uint32, &[8, 16][..]);
        assert_eq!(problems(&[weight, SCALES, BIASES], &Weights::default()), WeightProblems::default());
        assert_eq!(
            problems(&[weight, SCALES], &Weights::default()).siblings,
            ["a.biases: not in the files, but `a.weight` is quantised"]
        );
        assert_eq!(problems(&[weight], &Weights::default()).siblings.len(), 2);
        // As mlx-rs saves a layer, and a module that is a single layer.
        let inner = ("a.inner.weight", Dtype::Uint32, &[8, 16][..]);
        assert_eq!(problems(&[inner, SCALES, BIASES], &Weights::default()), WeightProblems::default());
        let bare = [
            ("weight", Dtype::Uint32, &[8, 16][..]),
            ("scales", SCALES.1, SCALES.2),
            ("biases", BIASES.1, BIASES.2),
        ];
        assert_eq!(problems(&bare, &Weights::default()), WeightProblems::default());
        // Neither a float nor another name is quantised.
        let plain = [("a.weight", Dtype::Float32, &[8, 16][..]), ("token_ids", Dtype::Uint32, &[4][..])];
        assert_eq!(problems(&plain, &Weights::default()), WeightProblems::default());
    }

    #[test]
    fn shapes_say_which_packings_are_possible() {
        let weight = |words: usize| ("a.weight", Dtype::Uint32, vec![8, words]);
        let check = |words: usize, declared: &Weights| {
            let (name, dtype, shape) = weight(words);
            problems(&[(name, dtype, &shape), SCALES, BIASES], declared).packing
        };
        // Two groups of 64 elements of 4 bits are 16 words.
        assert!(check(16, &quantized(4, 64)).is_empty());
        assert!(check(16, &quantized(8, 32)).is_empty());
        assert_eq!(
            check(16, &quantized(4, 32)),
            ["a.weight: the spec declares 4 bits in groups of 32, but rows of 16 words with 2 groups allow \
              2 bits in groups of 128, or 4 bits in groups of 64, or 8 bits in groups of 32"]
        );
        assert_eq!(
            check(7, &Weights::default()),
            ["a.weight: rows of 7 words with 2 groups allow no packing that MLX has"]
        );
        assert_eq!(check(12, &Weights::default()), [""; 0], "3 bits in groups of 64, or 6 in groups of 32");
        let other_rows = [("a.weight", Dtype::Uint32, &[4, 16][..]), SCALES, BIASES];
        assert_eq!(
            problems(&other_rows, &Weights::default()).packing,
            ["a.weight: it is [4, 16], but its scales are [8, 2]"]
        );
        let uneven =
            [("a.weight", Dtype::Uint32, &[8, 16][..]), SCALES, ("a.biases", Dtype::Float16, &[8, 1][..])];
        assert_eq!(
            problems(&uneven, &Weights::default()).packing,
            ["a.weight: its scales are [8, 2], but its biases are [8, 1]"]
        );
        let none = [("a.weight", Dtype::Float32, &[8, 16][..])];
        assert_eq!(
            problems(&none, &quantized(4, 64)).packing,
            ["the spec declares 4 bits in groups of 64, but no weight is quantised"]
        );
    }

    #[test]
    fn a_declared_dtype_is_that_of_every_float() {
        let declared = Weights { dtype: Some(Dtype::Bfloat16), ..Weights::default() };
        let set = [
            ("a", Dtype::Bfloat16, &[1][..]),
            ("b", Dtype::Float32, &[1][..]),
            ("c", Dtype::Int32, &[1][..]),
        ];
        assert_eq!(
            problems(&set, &declared).mistyped,
            ["b: the file has float32, but the spec declares bfloat16"]
        );
    }
}
