//! `cargo xtask regenerate-fixtures`: runs references, so that goldens again belong to what their specs name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

use super::python::{Python, last_lines};
use super::steps::Steps;
use super::{CliError, Project};
use crate::golden::{ChecksumMemory, canonical_json};
use crate::near::did_you_mean;
use crate::run::look_at_fixtures;
use crate::spec::{Reference, Spec, Specs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask regenerate-fixtures                      every set that is missing, stale or broken\n  \
    cargo xtask regenerate-fixtures gated_mlp/block      that one\n  \
    cargo xtask regenerate-fixtures --force              every set\n\n\
    A reference is run as `python3 SCRIPT FOLDER`, with the spec's reference block in PARITY_REFERENCE and\n\
    parity_export, numpy and safetensors to import; PARITY_PYTHON names another Python.")]
pub(crate) struct Arguments {
    /// Specs, as `model/component`; all of them unless told
    specs: Vec<String>,
    /// Also sets that are current
    #[arg(long)]
    force: bool,
}

/// Why a set could not be made anew. The old one is then still there.
#[derive(Debug, Error)]
pub(crate) enum RegenerateError {
    #[error("there is no spec `{id}`{near}")]
    NoSpec { id: String, near: String },
    #[error("spec `{id}` has no `reference`, so nothing can make its fixtures")]
    NoReference { id: String },
    #[error("`{script}` failed: {said}")]
    Script { script: PathBuf, said: String },
    #[error("what `{script}` made cannot be used: {problem}")]
    Unusable { script: PathBuf, problem: String },
}

impl RegenerateError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NoSpec { .. } => Some("see the specs with `cargo xtask list`".into()),
            Self::NoReference { .. } => {
                Some("name the script that exports its goldens in `reference.script`".into())
            }
            Self::Script { .. } | Self::Unusable { .. } => {
                Some("mend the script, then run the command again".into())
            }
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let found = Specs::load(&project.spec_root());
    let specs = select(&found, &arguments.specs)?;
    let mut done = BTreeSet::new();
    let mut made = 0;
    let steps = Steps::start("looking at fixtures");
    for (spec, reference) in specs {
        // Twins share a set.
        if !done.insert(&spec.fixtures) || (!arguments.force && problem(project, spec).is_none()) {
            continue;
        }
        steps.step(&format!("make {}", spec.fixtures), || make(project, spec, reference))?;
        made += 1;
    }
    println!("{made} made, {} current; next: `cargo xtask parity`", done.len() - made);
    Ok(ExitCode::SUCCESS)
}

/// The specs with those ids that have fixtures, each with its reference.
fn select<'a>(found: &'a Specs, ids: &[String]) -> Result<Vec<(&'a Spec, &'a Reference)>, RegenerateError> {
    let mut selected = Vec::new();
    for id in ids {
        let known = || found.specs.iter().map(|spec| spec.id.as_str());
        if !known().any(|other| other == id) {
            return Err(RegenerateError::NoSpec { id: id.clone(), near: did_you_mean(id, known()) });
        }
    }
    for spec in found.specs.iter().filter(|spec| ids.is_empty() || ids.contains(&spec.id)) {
        match &spec.reference {
            Some(reference) => selected.push((spec, reference)),
            None if spec.needs_fixtures() => {
                return Err(RegenerateError::NoReference { id: spec.id.clone() });
            }
            None => {}
        }
    }
    Ok(selected)
}

/// What is wrong with the set of a spec, if anything is.
fn problem(project: &Project, spec: &Spec) -> Option<String> {
    let (_, obstacles) =
        look_at_fixtures(spec, project.root(), &project.fixture_root(), &mut ChecksumMemory::default());
    obstacles.into_iter().next().map(|obstacle| obstacle.text)
}

fn make(project: &Project, spec: &Spec, reference: &Reference) -> Result<(), CliError> {
    let script = project.root().join(&reference.script);
    let python = Python::find()?;
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Some(exporter) = project.exporter_folder() {
        paths = vec![exporter.to_owned(), python.packages(project, &exporter.join("requirements-test.txt"))?];
    }
    paths.extend(std::env::var_os("PYTHONPATH").iter().flat_map(std::env::split_paths));
    let mut command = python.command();
    command.arg(&script).arg(project.fixture_root().join(Path::new(&spec.fixtures)));
    command.env("PYTHONPATH", std::env::join_paths(paths).unwrap_or_default());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PARITY_REFERENCE", canonical_json(&reference.to_json()));
    let output = command.current_dir(project.root()).output();
    let said = match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(last_lines(&output.stderr)),
        Err(error) => Some(error.to_string()),
    };
    if let Some(said) = said {
        return Err(RegenerateError::Script { script, said }.into());
    }
    match problem(project, spec) {
        Some(problem) => Err(RegenerateError::Unusable { script, problem }.into()),
        None => Ok(()),
    }
}
