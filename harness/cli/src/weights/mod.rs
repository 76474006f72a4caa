//! The command `weights`: every weight of a spec, those of adapters too, and what the last run did with it; or a plain file
//! against a spec. Reads headers, no tensor.

mod against;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use thiserror::Error;

use super::{CliError, Project, say};
use crate::error::CommandError;
use crate::find_spec::find_spec;
use mlx_parity_core::files::size;
use mlx_parity_core::golden::{FixtureError, FixtureSet};
use mlx_parity_core::preflight::with_external;
use mlx_parity_core::results::RunData;
use mlx_parity_core::run_folder::{Audit, Folder, FolderError};
use mlx_parity_core::runs::Out;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Spec, Weights};
use mlx_parity_core::tensor::{Dtype, TensorError, TensorFormat};
use mlx_parity_core::text::printable::{clean, json};
use mlx_parity_core::text::program::suite_command;
use mlx_parity_core::weights::{WeightIndex, WeightIndexError};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask weights gated_mlp/block          Show every weight and what the last run did with it\n  \
    cargo xtask weights gated_mlp/block --json   Print the same as one JSON object\n  \
    cargo xtask weights model.safetensors --against gated_mlp/block\n                                               \
    Compare a file with the weights of a spec\n\n\
    Names are those of the port, after the spec's `rename`. The command reads only headers of files.\n\
    Exits with 1 when a file is wrong or differs from the spec, or when `<spec>::weights` failed\n\
    in the last run.")]
pub(crate) struct Arguments {
    /// Spec, as `model/component`; with --against: files of weights, or folders of such files
    #[arg(required = true, value_name = "SPEC|FILE")]
    targets: Vec<String>,
    /// Compare the files with the weights of this spec: names, shapes, dtypes
    #[arg(long, value_name = "SPEC")]
    against: Option<String>,
    /// With --against: compare names only, for a model whose sizes differ from the spec's config
    #[arg(long, requires = "against")]
    names: bool,
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
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("`{}` holds no npy, npz or safetensors file", path.display())]
    EmptyFolder { path: PathBuf },
    #[error("`{first}` and `{second}` are both the weight `{name}`, after the spec's `rename`")]
    TwoWeights { name: String, first: String, second: String },
    #[error("`{file}` is a file, and a spec is expected")]
    NoAgainst { file: String },
    #[error("one spec is expected, found {count} names")]
    SeveralSpecs { count: usize },
}

impl CommandError for WeightsError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NoWeights { .. } => {
                Some("name the files in `weights.file`, `weights.shards` or `weights.external`".into())
            }
            Self::NoAgainst { file } => {
                Some(format!("compare it with a spec: `cargo xtask weights {file} --against <SPEC>`"))
            }
            Self::SeveralSpecs { .. } => {
                Some("name one spec; to compare files with a spec, add `--against <SPEC>`".into())
            }
            Self::EmptyFolder { .. } => Some("name the files".into()),
            Self::TwoWeights { .. } => {
                Some("name the files of one checkpoint, or correct `weights.rename`".into())
            }
            Self::Fixture(_) | Self::Catalogue(_) | Self::Folder(_) | Self::Tensor(_) => None,
        }
    }
}

/// What is shown, and what `--json` writes.
#[derive(Debug, Serialize)]
struct WeightList {
    spec: String,
    /// The run whose audit is shown.
    run: Option<String>,
    /// The number of elements of all weights.
    parameters: u64,
    /// The bytes of all weights.
    bytes: u64,
    /// The memory of the machine, as the last run measured it.
    machine_bytes: Option<u64>,
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
    if let Some(spec) = &arguments.against {
        return against::run(project, arguments, spec);
    }
    let [spec] = &arguments.targets[..] else {
        return Err(WeightsError::SeveralSpecs { count: arguments.targets.len() }.into());
    };
    if TensorFormat::of(spec).is_ok() || spec.contains('.') {
        // A plain file, most likely; the error of a `.pt` file has the line that converts it.
        TensorFormat::of(spec).map_err(WeightsError::from)?;
        return Err(WeightsError::NoAgainst { file: spec.clone() }.into());
    }
    let spec = find_spec(project, spec)?;
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
    let set = with_external(spec, FixtureSet::open(&project.fixture_root(), &spec.fixtures)?)?;
    let latest = Out::of(project.root()).run("latest");
    let data = RunData::read(&Folder::at(latest.join(&spec.id)))?;
    let audit = data.as_ref().and_then(RunData::audit);
    let adapters = spec.adapter_weights();
    let of_adapters =
        adapters.as_ref().map(|adapters| (adapters, data.as_ref().and_then(RunData::adapter_audit)));
    let (mut weights, mut missing, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for (declared, audit) in std::iter::once((declared, audit)).chain(of_adapters) {
        let catalogue = WeightIndex::of(declared, &set)?;
        faults.extend(files_faults(&catalogue, declared, &set)?);
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
        weights.extend(catalogue.weights().map(|(name, entry)| WeightRow {
            name: name.to_owned(),
            stored: entry.name.clone(),
            dtype: entry.dtype,
            shape: entry.shape.clone(),
            file: entry.file.clone(),
            audit: audit.and_then(|audit| use_in(audit, name)),
        }));
        let known: Vec<&str> = catalogue.weights().map(|(name, _)| name).collect();
        let expected = declared.expect.iter().filter(|name| !known.contains(&name.as_str()));
        missing.extend(audit.into_iter().flat_map(|audit| &audit.missing).chain(expected).cloned());
    }
    missing.sort();
    missing.dedup();
    let run = audit.and_then(|_| std::fs::read_link(&latest).ok()).map(|run| run.display().to_string());
    let elements =
        |row: &WeightRow| row.shape.iter().fold(1u64, |all, &length| all.saturating_mul(length as u64));
    let bytes = |row: &WeightRow| elements(row).saturating_mul(row.dtype.size() as u64);
    Ok(WeightList {
        spec: spec.id.clone(),
        run,
        parameters: weights.iter().map(elements).sum(),
        bytes: weights.iter().map(bytes).sum(),
        machine_bytes: data.as_ref().and_then(RunData::resources).and_then(|used| used.machine_bytes),
        weights,
        missing,
        faults,
    })
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
        let share = self.machine_bytes.filter(|machine| *machine > 0).map(|machine| {
            let percent = 100.0 * self.bytes as f64 / machine as f64;
            format!(", {percent:.1} % of this machine's {}", size::words(machine))
        });
        let (parameters, bytes) = (self.parameters, size::words(self.bytes));
        let _ = writeln!(text, "{parameters} parameters, {bytes}{}", share.unwrap_or_default());
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
