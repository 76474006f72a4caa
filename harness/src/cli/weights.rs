//! `cargo xtask weights`: every weight of a spec, and what the last run did with it. Reads headers, no tensor.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use thiserror::Error;

use super::{CliError, Project, say};
use crate::golden::{FixtureError, FixtureSet};
use crate::near::did_you_mean;
use crate::printable::{clean, json};
use crate::run::{Audit, Catalogue, CatalogueError, Folder, FolderError, Out, Story};
use crate::spec::list::counted;
use crate::spec::{Spec, SpecError, Specs, Weights};
use crate::tensor::Dtype;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask weights gated_mlp/block          names, dtypes, shapes, files, and the last run's audit\n  \
    cargo xtask weights gated_mlp/block --json   the same as one JSON object\n\n\
    Names are the port's, after the spec's `rename`. Exits with 1 when the files or the last audit are wrong.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`
    spec: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Why weights could not be listed.
#[derive(Debug, Error)]
pub(crate) enum WeightsError {
    #[error("there is no spec `{id}`{near}")]
    NoSpec { id: String, near: String },
    #[error("{0}")]
    Spec(#[source] Box<SpecError>),
    #[error("spec `{id}` has no `weights`")]
    NoWeights { id: String },
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl WeightsError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NoSpec { .. } => Some("see the specs with `cargo xtask list`".into()),
            Self::NoWeights { .. } => Some("name the files in `weights.file` or `weights.shards`".into()),
            Self::Spec(_) | Self::Fixture(_) | Self::Catalogue(_) | Self::Folder(_) => None,
        }
    }
}

/// What is shown, and what `--json` writes.
#[derive(Debug, Serialize)]
struct Listing {
    spec: String,
    /// The run whose audit is shown.
    run: Option<String>,
    weights: Vec<Row>,
    /// What the port asked for, or the spec expects, and the files do not have.
    missing: Vec<String>,
    /// Everything else that is wrong, with its kind before it.
    faults: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// The name in the fixture set.
    stored: String,
    dtype: Dtype,
    shape: Vec<usize>,
    file: String,
    audit: Option<Fate>,
}

/// What the last run did with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    Taken,
    Unused,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec = find(project, &arguments.spec)?;
    let listing = list(project, &spec)?;
    let text = match arguments.json {
        true => json(&format!("{:#}\n", serde_json::json!(listing))),
        false => listing.table(),
    };
    say(&text);
    Ok(if listing.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find(project: &Project, id: &str) -> Result<Spec, WeightsError> {
    let Specs { specs, broken, .. } = Specs::load(&project.spec_root());
    let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
    if let Some(spec) = specs.into_iter().find(|spec| spec.id == id) {
        return Ok(spec);
    }
    Err(match broken.into_iter().find(|error| error.id == id) {
        Some(error) => WeightsError::Spec(Box::new(error)),
        None => WeightsError::NoSpec { id: id.to_owned(), near },
    })
}

fn list(project: &Project, spec: &Spec) -> Result<Listing, WeightsError> {
    let declared = spec.weights.as_ref().ok_or_else(|| WeightsError::NoWeights { id: spec.id.clone() })?;
    let set = FixtureSet::open(&project.fixture_root(), &spec.fixtures)?;
    let catalogue = Catalogue::of(declared, &set)?;
    let latest = Out::of(project.root()).run("latest");
    let story = Story::read(&Folder::at(latest.join(&spec.id)))?;
    let audit = story.as_ref().and_then(Story::audit);
    let mut faults = files_faults(&catalogue, declared, &set)?;
    let texts = audit
        .map(Audit::faults)
        .into_iter()
        .flatten()
        .filter(|(kind, ..)| !matches!(*kind, "MISSING" | "UNUSED"));
    for (kind, _, found) in texts {
        for text in found.iter().map(|text| format!("{kind:<8} {text}")) {
            if !faults.contains(&text) {
                faults.push(text);
            }
        }
    }
    let rows = catalogue.weights().map(|(name, entry)| Row {
        name: name.to_owned(),
        stored: entry.name.clone(),
        dtype: entry.dtype,
        shape: entry.shape.clone(),
        file: entry.file.clone(),
        audit: audit.and_then(|audit| fate(audit, name)),
    });
    let known: Vec<&str> = catalogue.weights().map(|(name, _)| name).collect();
    let expected = declared.expect.iter().filter(|name| !known.contains(&name.as_str()));
    let mut missing: Vec<String> =
        audit.into_iter().flat_map(|audit| &audit.missing).chain(expected).cloned().collect();
    missing.sort();
    missing.dedup();
    let run = audit.and_then(|_| std::fs::read_link(&latest).ok()).map(|run| run.display().to_string());
    Ok(Listing { spec: spec.id.clone(), run, weights: rows.collect(), missing, faults })
}

/// What is wrong with the files whatever a port does, in the audit's words.
fn files_faults(
    catalogue: &Catalogue<'_>,
    declared: &Weights,
    set: &FixtureSet,
) -> Result<Vec<String>, FixtureError> {
    for (_, entry) in catalogue.weights() {
        // A header says what its file has, and may contradict the manifest; an npz would be unpacked for it.
        if !entry.file.ends_with(".npz") {
            set.weight(&entry.name)?;
        }
    }
    let faults = catalogue.faults(declared);
    let audit = Audit {
        mistyped: faults.mistyped,
        siblings: faults.siblings,
        packing: faults.packing,
        ..Audit::default()
    };
    let texts = audit.faults().into_iter().flat_map(|(kind, _, found)| {
        found.iter().map(move |text| format!("{kind:<8} {text}")).collect::<Vec<_>>()
    });
    Ok(texts.collect())
}

/// Neither when the port did not come so far.
fn fate(audit: &Audit, name: &str) -> Option<Fate> {
    let among = |names: &[String]| names.iter().any(|other| other == name);
    if among(&audit.taken) {
        return Some(Fate::Taken);
    }
    among(&audit.unused).then_some(Fate::Unused)
}

impl Listing {
    fn is_right(&self) -> bool {
        let unused = self.weights.iter().any(|row| row.audit == Some(Fate::Unused));
        self.missing.is_empty() && self.faults.is_empty() && !unused
    }

    fn table(&self) -> String {
        let files: std::collections::BTreeSet<&str> =
            self.weights.iter().map(|row| row.file.as_str()).collect();
        let mut text = format!(
            "{}  {} in {}\n",
            self.spec,
            counted(self.weights.len(), "weight"),
            counted(files.len(), "file")
        );
        let header = ["name", "dtype", "shape", "file", "last run"].map(str::to_owned);
        let rows = self.weights.iter().map(|row| {
            let file = match row.name == row.stored {
                true => row.file.clone(),
                false => format!("{} as {}", row.file, row.stored),
            };
            let audit = match row.audit {
                Some(Fate::Taken) => "taken",
                Some(Fate::Unused) => "unused",
                None => "-",
            };
            [row.name.clone(), row.dtype.to_string(), format!("{:?}", row.shape), file, audit.to_owned()]
        });
        let missing = self
            .missing
            .iter()
            .map(|name| [name.clone(), "-".to_owned(), "-".to_owned(), "-".to_owned(), "missing".to_owned()]);
        let rows: Vec<[String; 5]> = std::iter::once(header).chain(rows).chain(missing).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 5] = std::array::from_fn(width);
        for row in &rows {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{:<width$}", clean(cell))).collect();
            let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
        }
        for fault in &self.faults {
            let _ = writeln!(text, "  {}", clean(fault));
        }
        match &self.run {
            Some(run) => writeln!(text, "last run: {run}"),
            None => writeln!(
                text,
                "the last run does not say what became of them; `cargo xtask parity {}` does",
                self.spec
            ),
        }
        .unwrap_or_default();
        text
    }
}
