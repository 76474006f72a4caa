//! The key `weights`: files in the fixture folder, or external ones.

use super::decode::{At, Maybe, Reader};
use super::external::External;
use super::file::{QuantizedFile, WeightsFile};
use super::model::{Packing, Weights};
use super::problem::{Problem, SourceSpan};
use super::rules::relative;
use crate::external::ExternalPath;
use crate::tensor::{Dtype, convert_advice};

pub(super) fn weights(file: &WeightsFile, place: &SourceSpan, reader: &mut Reader<'_>) -> Weights {
    let keys =
        [("file", file.file.place()), ("shards", file.shards.place()), ("external", file.external.place())];
    let mut given = keys.iter().filter_map(|(key, place)| place.map(|place| (key, place)));
    match (given.next(), given.next()) {
        (None, _) => {
            reader.problem(place, "`weights` names no file", "expected `file`, `shards` or `external`");
        }
        (Some((first, first_place)), Some((second, second_place))) => {
            let message = format!("`weights` has both `{first}` and `{second}`");
            let problem = Problem::new(second_place, message, "expected one of them");
            reader.problems.push(problem.related(first_place, format!("`{first}`")));
        }
        (Some(_), None) => {}
    }
    if let (Some(place), true) = (file.sha256.place(), file.external.is_absent()) {
        let allowed =
            "expected it with `external`: files in the fixture folder have their checksums in the manifest";
        reader.problem(place, "`sha256` without `external`", allowed);
    }
    let files: Vec<&At<String>> =
        file.file.get().into_iter().chain(file.shards.value().into_iter().flatten()).collect();
    if file.shards.value().is_some_and(Vec::is_empty)
        && let Some(place) = file.shards.place()
    {
        reader.problem(place, "`shards` is empty", "expected at least one file");
    }
    for at in &files {
        weight_file(at, reader);
    }
    let list = |list: &Maybe<Vec<At<String>>>| {
        list.value().map_or_else(Vec::new, |list| list.iter().map(|at| at.value.clone()).collect())
    };
    Weights {
        files: files.into_iter().map(|at| at.value.clone()).collect(),
        external: external(file, reader),
        rename: file.rename.value().map(|rename| rename.0.clone()).unwrap_or_default(),
        allow_missing: list(&file.allow_missing),
        expect: list(&file.expect),
        frozen: list(&file.frozen),
        dtype: file.dtype.get().and_then(|dtype| weight_dtype(dtype, reader)),
        quantized: file.quantized.value().and_then(|file| packing(file, reader)),
    }
}

/// Where external weights are, and which files they must be.
fn external(file: &WeightsFile, reader: &mut Reader<'_>) -> Option<External> {
    let at = file.external.get()?;
    let sha256 = file.sha256.value().cloned();
    match ExternalPath::parse(&at.value) {
        Ok(path) => Some(External { path, sha256 }),
        Err(problem) => {
            reader.problem(&at.place, problem.message, problem.allowed);
            None
        }
    }
}

/// Reports a weight file that is not inside the fixture folder, or that is never read.
pub(super) fn weight_file(at: &At<String>, reader: &mut Reader<'_>) {
    relative(at, "the fixture folder", reader);
    let advice = convert_advice(&at.value);
    if !advice.is_empty() {
        let problem = format!("`{}` is a PyTorch pickle, which is never read", at.value);
        reader.problem(&at.place, problem, format!("expected .npy, .npz or .safetensors{advice}"));
    }
}

/// The dtype of all floating-point weights, which must be a float.
fn weight_dtype(dtype: &At<Dtype>, reader: &mut Reader<'_>) -> Option<Dtype> {
    if !dtype.value.is_float() {
        let allowed =
            "expected the dtype of the floating-point weights: `float16`, `bfloat16`, `float32`, `float64`";
        reader.problem(&dtype.place, format!("found `{}`", dtype.value), allowed);
        return None;
    }
    Some(dtype.value)
}

fn packing(file: &QuantizedFile, reader: &mut Reader<'_>) -> Option<Packing> {
    let mut one_of = |found: &Maybe<u32>, allowed: &[u32]| {
        let at = found.get()?;
        if !allowed.contains(&at.value) {
            let allowed: Vec<String> = allowed.iter().map(u32::to_string).collect();
            let message = format!("found {}, which MLX cannot pack", at.value);
            reader.problem(&at.place, message, format!("expected one of {}", allowed.join(", ")));
            return None;
        }
        Some(at.value)
    };
    let (bits, group_size) =
        (one_of(&file.bits, &Packing::BITS), one_of(&file.group_size, &Packing::GROUP_SIZES));
    Some(Packing { bits: bits?, group_size: group_size? })
}
