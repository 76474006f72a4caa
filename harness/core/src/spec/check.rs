//! The rules for a spec as a whole; those for one checkpoint are in `checkpoint`.

use std::path::Path;

use super::bounds;
use super::checkpoint::{Draft, check_checkpoint};
use super::choice::injected_alone;
use super::decode::{At, Decode, Maybe, Reader};
use super::expand::{Expanded, expand};
use super::file::{ReferenceFile, SpecFile};
use super::keywords::Device;
use super::model::{MemoryGate, Reference, Spec};
use super::policy::Policies;
use super::problem::{Problem, SourceSpan, SpecError, quoted};
use super::rules::{level, names, relative, version};
use super::twins::twins;
use super::weights_key::{weight_file, weights};
use super::yaml::{self, Keys};
use crate::text::suggest::did_you_mean;

/// Reads one spec from its text. `path` is for messages only.
///
/// # Errors
///
/// When anything in the text is wrong. The error lists all problems, as far as one does not hide another.
pub fn parse_spec(id: &str, path: &Path, source: &str, policies: &Policies) -> Result<Spec, SpecError> {
    let fail = |problems| SpecError {
        id: id.to_owned(),
        path: path.to_owned(),
        problems,
        source: source.to_owned(),
    };
    let read = |keys| {
        let node = yaml::parse(source, keys).map_err(|problem| vec![problem])?;
        let mut reader = Reader::new(source);
        let spec = SpecFile::decode(&node, &mut reader)
            .map(|file| check_spec(id, path, &file, &node.place, policies, &mut reader));
        match spec {
            Some(spec) if reader.problems.is_empty() => Ok(spec),
            _ => Err(reader.sorted()),
        }
    };
    read(Keys::Unplaced).or_else(|_| read(Keys::Placed)).map_err(fail)
}

fn check_spec(
    id: &str,
    path: &Path,
    file: &SpecFile,
    root: &SourceSpan,
    policies: &Policies,
    reader: &mut Reader<'_>,
) -> Spec {
    version(&file.version, reader);
    if let Some(port) = file.port.get() {
        port_name(port, reader);
    }
    if let Some(fixtures) = file.fixtures.get() {
        relative(fixtures, "the fixture root", reader);
    }
    let inputs = names(&file.inputs, "input", reader);
    let level = level(&file.level, reader);
    let drafts: Vec<Draft> = file.checkpoints.value().map_or_else(Vec::new, |list| {
        list.iter().map(|at| check_checkpoint(&at.value, &at.place, policies, reader)).collect()
    });
    if let Some(At { value, place }) = file.checkpoints.get()
        && value.is_empty()
    {
        reader.problem(
            place,
            "`checkpoints` is empty",
            "expected at least one: a spec without any proves nothing",
        );
    }
    let expanded = expand(drafts, reader);
    let inject = inject(&file.inject, &expanded, reader);
    if file.reference.is_absent()
        && let Some(checkpoint) = expanded.checkpoints.iter().find(|checkpoint| checkpoint.needs_golden())
    {
        let message = "key `reference` is missing in a spec";
        let allowed = format!(
            "checkpoint {} in line {} needs a golden, so the spec must name the reference that makes it",
            quoted(&checkpoint.name),
            checkpoint.line
        );
        reader.problem(root, message, allowed);
    }
    let twins = twins(file, &expanded, &inputs, policies, reader);
    Spec {
        id: id.to_owned(),
        path: path.to_owned(),
        port: file.port.value().cloned().unwrap_or_default(),
        about: file.about.value().cloned(),
        reference: file.reference.value().map(|file| reference(file, reader)),
        fixtures: file.fixtures.value().cloned().unwrap_or_else(|| id.to_owned()),
        inputs,
        weights: file.weights.get().map(|at| weights(&at.value, &at.place, reader)),
        adapters: adapters(file, reader),
        device: file.device.value().copied().unwrap_or(Device::Default),
        timeout: file.timeout.value().map_or(bounds::DEFAULT_TIMEOUT, |timeout| timeout.0),
        memory: file
            .memory
            .value()
            .and_then(|memory| Some(MemoryGate { peak_bytes: memory.peak.value()?.0 })),
        requires: file
            .requires
            .value()
            .map_or_else(Vec::new, |list| list.iter().map(|at| at.value.clone()).collect()),
        inject,
        level,
        checkpoints: expanded.checkpoints,
        twins,
        twin: None,
    }
}

fn port_name(port: &At<String>, reader: &mut Reader<'_>) {
    let name = &port.value;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_:./-".contains(c);
    if name.is_empty() || name.len() > bounds::NAME || !name.chars().all(fits) {
        let allowed = format!(
            "expected 1 to {} letters, digits and `_`, `:`, `.`, `/`, `-`, as in `qwen_image::vision_block`",
            bounds::NAME
        );
        reader.problem(&port.place, format!("{} cannot be a port's name", quoted(name)), allowed);
    }
}

fn reference(file: &ReferenceFile, reader: &mut Reader<'_>) -> Reference {
    if let Some(script) = file.script.get() {
        relative(script, "the project's root", reader);
    }
    if let Some(also) = file.also.get() {
        relative(also, "the project's root", reader);
        if file.script.value() == Some(&also.value) {
            let message = format!("`also` is the script {} itself", quoted(&also.value));
            reader.problem(
                &also.place,
                message,
                "expected a second script that computes the same in its own way",
            );
        }
    }
    Reference {
        script: file.script.value().cloned().unwrap_or_default(),
        source: file.source.value().cloned(),
        params: file.params.value().map(|params| params.0.clone()).unwrap_or_default(),
        env: variables(&file.env, reader),
        timeout: file.timeout.value().map_or(bounds::DEFAULT_SCRIPT_TIMEOUT, |timeout| timeout.0),
        also: file.also.value().cloned(),
    }
}

/// The names of environment variables in a list. Reports invalid names and those that the command itself sets.
fn variables(list: &Maybe<Vec<At<String>>>, reader: &mut Reader<'_>) -> Vec<String> {
    let list: Vec<&At<String>> = list.value().into_iter().flatten().collect();
    for (index, at) in list.iter().enumerate() {
        let name = &at.value;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = !name.is_empty()
            && name.len() <= bounds::NAME
            && name.chars().all(fits)
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name {
            let message = format!("{} cannot be the name of an environment variable", quoted(name));
            reader.problem(&at.place, message, "expected letters, digits and `_`, as in `HF_TOKEN`");
        } else if name.starts_with("PARITY_") || name == "PYTHONPATH" || name == "PYTHONHASHSEED" {
            let message = format!("variable {} is set by the command that runs the script", quoted(name));
            reader.problem(&at.place, message, "remove it from `env`");
        }
        if let Some(first) = list[..index].iter().find(|other| other.value == *name) {
            let message = format!("variable {} is named twice", quoted(name));
            reader
                .problems
                .push(Problem::new(&at.place, message, "").related(&first.place, "first named here"));
        }
    }
    list.into_iter().map(|at| at.value.clone()).collect()
}

/// The files of adapters. Adapters change weights, so the spec must have some, in other files.
fn adapters(file: &SpecFile, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(at) = file.adapters.get() else { return Vec::new() };
    if at.value.is_empty() {
        reader.problem(&at.place, "`adapters` is empty", "expected at least one file");
    }
    if file.weights.is_absent() {
        let allowed = "expected `weights` in the same spec: the weights that the adapters change";
        reader.problem(&at.place, "`adapters` without `weights`", allowed);
    }
    let weights = file.weights.value();
    let shards = weights.and_then(|weights| weights.shards.value()).into_iter().flatten();
    let others: Vec<&At<String>> =
        weights.and_then(|weights| weights.file.get()).into_iter().chain(shards).collect();
    for (index, one) in at.value.iter().enumerate() {
        weight_file(one, reader);
        let earlier = at.value[..index].iter();
        if let Some(other) = others.iter().copied().chain(earlier).find(|other| other.value == one.value) {
            let problem = Problem::new(&one.place, format!("file {} is named twice", quoted(&one.value)), "");
            reader.problems.push(problem.related(&other.place, "first named here"));
        }
    }
    at.value.iter().map(|one| one.value.clone()).collect()
}

/// The checkpoints that `inject` names, singly or all of a loop by its name as written.
fn inject(list: &Maybe<Vec<At<String>>>, expanded: &Expanded, reader: &mut Reader<'_>) -> Vec<String> {
    let mut injected = Vec::new();
    for at in list.value().into_iter().flatten() {
        let range = match (expanded.checkpoints.position(&at.value), expanded.loops.get(&at.value)) {
            (Some(index), _) => index..index + 1,
            (None, Some(range)) => range.clone(),
            (None, None) => {
                if !expanded.complete {
                    continue;
                }
                let names = expanded.checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
                let near = did_you_mean(&at.value, names.chain(expanded.loops.keys().map(String::as_str)));
                let message = format!("no checkpoint is called {}{near}", quoted(&at.value));
                reader.problem(&at.place, message, "expected the name of a checkpoint of this spec");
                continue;
            }
        };
        for checkpoint in &expanded.checkpoints[range] {
            if !checkpoint.needs_golden() {
                let message = format!("checkpoint {} has no golden to inject", quoted(&checkpoint.name));
                reader.problem(&at.place, message, "expected one with a value gate and without `against`");
                break;
            }
            if !checkpoint.can_inject() {
                let message =
                    format!("the golden of {} has the most probable ids only", quoted(&checkpoint.name));
                reader.problem(
                    &at.place,
                    message,
                    "expected a golden that the port can continue with: remove `top`",
                );
                break;
            }
            injected.push(checkpoint.name.clone());
        }
    }
    if expanded.complete {
        injected_alone(&injected, &expanded.checkpoints, list.place(), reader);
    }
    injected
}
