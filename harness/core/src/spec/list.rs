//! Listing specs: as a tree, as names and as JSON.

use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::checkpoints::{Checkpoint, Dim};
use super::load::Specs;
use super::model::Spec;
use crate::gate::Gate;
use crate::number::percent;
use crate::text::printable::clean;

/// Writes the specs and their checkpoints as a tree with one level per folder. A broken spec has its first problem.
///
/// The checkpoints of one loop are one line, with their number.
///
/// # Errors
///
/// Those of `out`.
pub fn tree(out: &mut dyn Write, specs: &Specs) -> fmt::Result {
    let mut entries: Vec<(&str, Result<&Spec, &super::SpecError>)> = specs
        .specs
        .iter()
        .map(|spec| (spec.id.as_str(), Ok(spec)))
        .chain(specs.broken.iter().map(|error| (error.id.as_str(), Err(error))))
        .collect();
    entries.sort_by_key(|&(id, _)| id);
    let mut folder = None;
    for (id, entry) in entries {
        let (parent, name) = id.rsplit_once('/').unwrap_or(("", id));
        if folder != Some(parent) {
            if !parent.is_empty() {
                writeln!(out, "{parent}/")?;
            }
            folder = Some(parent);
        }
        let indent = if parent.is_empty() { "" } else { "  " };
        match entry {
            Ok(spec) => {
                let count = counted(spec.checkpoints.len(), "checkpoint");
                let requires: Vec<String> = spec.requires.iter().map(ToString::to_string).collect();
                let requires = match requires.is_empty() {
                    true => String::new(),
                    false => format!(", requires {}", requires.join(", ")),
                };
                writeln!(out, "{indent}{name}  {count}, port {}{requires}", spec.port)?;
                for group in spec.checkpoints.chunk_by(|a, b| a.line == b.line) {
                    writeln!(out, "{indent}  {}", line(group))?;
                }
                for twin in &spec.twins {
                    let count = counted(twin.checkpoints.len(), "checkpoint");
                    writeln!(out, "{indent}  +{}  {count}, compared with {}", twin.name, twin.of)?;
                }
            }
            Err(error) => {
                let first = error.problems.first().map(ToString::to_string).unwrap_or_default();
                writeln!(out, "{indent}{name}  broken: {}", clean(&first))?;
            }
        }
    }
    let mut summary = vec![
        counted(specs.specs.len(), "spec"),
        counted(specs.specs.iter().map(|spec| spec.checkpoints.len()).sum(), "checkpoint"),
    ];
    if !specs.broken.is_empty() {
        summary.push(format!("{} broken", specs.broken.len()));
    }
    writeln!(out, "{}", summary.join(", "))
}

fn line(group: &[Checkpoint]) -> String {
    let [first, rest @ ..] = group else { return String::new() };
    let mut words = vec![match rest.last() {
        None => first.name.clone(),
        Some(last) => format!("{} … {} ({})", first.name, last.name, group.len()),
    }];
    words.extend(first.dtype.map(|dtype| dtype.to_string()));
    if let Some(shape) = &first.shape {
        let dims: Vec<String> = shape.iter().map(Dim::to_string).collect();
        words.push(format!("[{}]", dims.join(", ")));
    }
    match &first.gate {
        Some(Gate::Tolerance { policy: Some(policy), .. }) => words.push(format!("policy {policy}")),
        Some(Gate::Tolerance { rtol, atol, policy: None }) => {
            words.push(format!("rtol {rtol:e} atol {atol:e}"))
        }
        Some(gate) => words.push(gate.text()),
        None => {}
    }
    words.extend(first.range.map(|(low, high)| format!("range [{low}, {high}]")));
    words.extend(first.positions.as_ref().map(|positions| positions.words(&first.name)));
    words.extend(first.against.as_ref().map(|against| format!("against {against}")));
    words.extend(first.scores.as_ref().map(|scores| format!("scores {scores}")));
    words.extend(first.weights.as_ref().map(|weights| format!("with {weights}")));
    words.extend(first.at_least.map(|part| format!("at least {} off", percent(part))));
    words.extend((first.level > 0).then(|| format!("level {}", first.level)));
    words.extend((first.hits > 1).then(|| format!("{} hits", first.hits)));
    words.extend((!first.gated).then(|| "not gated".to_owned()));
    words.join("  ")
}

/// Writes the name of one trial per line: `spec::checkpoint`, or `<id>::spec` for a broken spec.
///
/// # Errors
///
/// Those of `out`.
pub fn names(out: &mut dyn Write, specs: &Specs) -> fmt::Result {
    for spec in &specs.specs {
        for checkpoint in &spec.checkpoints {
            writeln!(out, "{}::{}", spec.id, checkpoint.name)?;
        }
        for twin in &spec.twins {
            for checkpoint in &twin.checkpoints {
                writeln!(out, "{}+{}::{}", spec.id, twin.name, checkpoint.name)?;
            }
        }
    }
    for error in &specs.broken {
        writeln!(out, "{}::spec", error.id)?;
    }
    Ok(())
}

/// Writes one JSON object on one line: `specs`, with their loops expanded, and `broken`, with their problems.
///
/// # Errors
///
/// Those of `out`.
pub fn json(out: &mut dyn Write, specs: &Specs) -> fmt::Result {
    let broken: Vec<Value> = specs
        .broken
        .iter()
        .chain(&specs.unreadable)
        .map(|error| {
            let problems: Vec<Value> = error
                .problems
                .iter()
                .map(|problem| {
                    json!({
                        "line": problem.place.as_ref().map(|place| place.line),
                        "column": problem.place.as_ref().map(|place| place.column),
                        "message": problem.message,
                        "allowed": problem.allowed,
                    })
                })
                .collect();
            json!({ "id": error.id, "path": error.path.display().to_string(), "problems": problems })
        })
        .collect();
    let specs = serde_json::to_string(&specs.specs).map_err(|_| fmt::Error)?;
    writeln!(out, "{{\"version\":1,\"specs\":{specs},\"broken\":{}}}", Value::Array(broken))
}

/// A count with its noun: `1 spec`, `2 specs`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
