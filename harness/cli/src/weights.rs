//! The command `weights`: every weight of a spec, and what the last run did with it. Reads headers, no tensor.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use thiserror::Error;

use super::{CliError, Project, say};
use crate::error::CommandError;
use crate::find_spec::find_spec;
use mlx_parity_core::golden::{FixtureError, FixtureSet};
use mlx_parity_core::results::RunData;
use mlx_parity_core::run_folder::{Audit, Folder, FolderError};
use mlx_parity_core::runs::Out;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Spec, Weights};
use mlx_parity_core::tensor::Dtype;
use mlx_parity_core::text::printable::{clean, json};
use mlx_parity_core::text::program::suite_command;
use mlx_parity_core::weights::{WeightIndex, WeightIndexError};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask weights gated_mlp/block          Show every weight and what the last run did with it\n  \
    cargo xtask weights gated_mlp/block --json   Print the same as one JSON object\n\n\
    Names are those of the port, after the spec's `rename`.\n\
    Exits with 1 when the files are wrong or the last run's weight audit failed.")]
pub(crate) struct Arguments {
    /// Spec, as `model/component`
    spec: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Why weights could not be listed.
#[derive(Debug, Error)]
pub(crate) enum WeightsError {
    #[error("spec `{id}` has no `weights`")]
    NoWeights { id: String },
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Catalogue(#[from] WeightIndexError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl CommandError for WeightsError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NoWeights { .. } => Some("name the files in `weights.file` or `weights.shards`".into()),
            Self::Fixture(_) | Self::Catalogue(_) | Self::Folder(_) => None,
        }
    }
}

/// What is shown, and what `--json` writes.
#[derive(Debug, Serialize)]
struct WeightList {
    spec: String,
    /// The run whose audit is shown.
    run: Option<String>,
    weights: Vec<WeightRow>,
    /// Weights that the port asked for or the spec expects, and that the files do not have.
    missing: Vec<String>,
    /// Everything else that is wrong, each after its kind.
    faults: Vec<String>,
}

#[derive(Debug, Serialize)]
struct WeightRow {
    name: String,
    /// The name in the fixture set.
    stored: String,
    dtype: Dtype,
    shape: Vec<usize>,
    file: String,
    audit: Option<WeightUse>,
}

/// What the last run did with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum WeightUse {
    Taken,
    Unused,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec = find_spec(project, &arguments.spec)?;
    let listing = list(project, &spec)?;
    let text = match arguments.json {
        true => json(&format!("{:#}\n", serde_json::json!(listing))),
        false => listing.table(),
    };
    say(&text);
    Ok(if listing.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(project: &Project, spec: &Spec) -> Result<WeightList, WeightsError> {
    let declared = spec.weights.as_ref().ok_or_else(|| WeightsError::NoWeights { id: spec.id.clone() })?;
    let set = FixtureSet::open(&project.fixture_root(), &spec.fixtures)?;
    let catalogue = WeightIndex::of(declared, &set)?;
    let latest = Out::of(project.root()).run("latest");
    let data = RunData::read(&Folder::at(latest.join(&spec.id)))?;
    let audit = data.as_ref().and_then(RunData::audit);
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
    let rows = catalogue.weights().map(|(name, entry)| WeightRow {
        name: name.to_owned(),
        stored: entry.name.clone(),
        dtype: entry.dtype,
        shape: entry.shape.clone(),
        file: entry.file.clone(),
        audit: audit.and_then(|audit| use_in(audit, name)),
    });
    let known: Vec<&str> = catalogue.weights().map(|(name, _)| name).collect();
    let expected = declared.expect.iter().filter(|name| !known.contains(&name.as_str()));
    let mut missing: Vec<String> =
        audit.into_iter().flat_map(|audit| &audit.missing).chain(expected).cloned().collect();
    missing.sort();
    missing.dedup();
    let run = audit.and_then(|_| std::fs::read_link(&latest).ok()).map(|run| run.display().to_string());
    Ok(WeightList { spec: spec.id.clone(), run, weights: rows.collect(), missing, faults })
}

/// Returns what is wrong with the files whatever a port does, worded as the audit does.
fn files_faults(
    catalogue: &WeightIndex<'_>,
    declared: &Weights,
    set: &FixtureSet,
) -> Result<Vec<String>, FixtureError> {
    for (_, entry) in catalogue.weights() {
        // A header may contradict the manifest. An npz is left out: reading its headers would unpack it.
        if !entry.file.ends_with(".npz") {
            set.weight(&entry.name)?;
        }
    }
    let faults = catalogue.problems(declared);
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

/// Returns what the run did with a weight; nothing when the run ended before.
fn use_in(audit: &Audit, name: &str) -> Option<WeightUse> {
    let among = |names: &[String]| names.iter().any(|other| other == name);
    if among(&audit.taken) {
        return Some(WeightUse::Taken);
    }
    among(&audit.unused).then_some(WeightUse::Unused)
}

impl WeightList {
    fn is_right(&self) -> bool {
        let unused = self.weights.iter().any(|row| row.audit == Some(WeightUse::Unused));
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
                Some(WeightUse::Taken) => "taken",
                Some(WeightUse::Unused) => "unused",
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
                "the last run did not audit these weights; run `{} {}`",
                suite_command(),
                self.spec
            ),
        }
        .unwrap_or_default();
        text
    }
}
