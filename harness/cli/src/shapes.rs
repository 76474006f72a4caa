//! The command `shapes`: one pass of a port that looks at shapes and dtypes and evaluates nothing.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use super::parity::SuiteRun;
use super::{CliError, Project, say, setup};
use crate::error::CommandError;
use crate::find_spec::find_run;
use mlx_parity_core::record::{Record, Status, TensorInfo};
use mlx_parity_core::results::RunData;
use mlx_parity_core::run_folder::{Folder, FolderError};
use mlx_parity_core::runs::{Asked, Out, claim};
use mlx_parity_core::settings::names::SHAPES;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Spec, hit_name};
use mlx_parity_core::text::printable::{clean, json, paint};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask shapes gated_mlp/block           shapes and dtypes of every checkpoint\n  \
    cargo xtask shapes gated_mlp/block --json    the same as one JSON object\n\n\
    The harness evaluates nothing, so the pass is quick and needs little memory. A port that asks\n\
    for a value itself, as with `item`, still computes that value.\n\
    Exits with 1 when a shape or dtype is wrong, or a checkpoint is not reached.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`
    spec: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why the pass could not be made.
#[derive(Debug, Error)]
pub(crate) enum ShapesError {
    #[error("the pass over the shapes of `{id}` did not finish")]
    NotRun { id: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write to `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

impl CommandError for ShapesError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotRun { .. } => Some("read the lines above".into()),
            Self::Folder(_) | Self::Write { .. } => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let id = arguments.spec.as_str();
    let spec = find_run(project, id)?;
    setup::ensure(project)?;
    let out = Out::of(project.root()).path().join("shapes");
    claim(&out).map_err(ShapesError::from)?;
    let asked =
        Asked::new(&out, SHAPES, id).map_err(|source| ShapesError::Write { path: out.clone(), source })?;
    let variables = asked.variables();
    let suite = SuiteRun { filter: None, release: arguments.release, variables: &variables, going: None };
    let status = suite.run(project)?;
    let data = RunData::read(&Folder::at(out.join(id))).map_err(ShapesError::from)?;
    let Some(data) = data.filter(|_| status.success()) else {
        return Err(ShapesError::NotRun { id: id.to_owned() }.into());
    };
    let level = data.level().unwrap_or(spec.level);
    let reached: Vec<&Record> = data.records().collect();
    let unreached: Vec<&str> = spec
        .checkpoints
        .iter()
        .filter(|checkpoint| checkpoint.level <= level)
        .filter(|checkpoint| !reached.iter().any(|record| record.checkpoint == checkpoint.name))
        .map(|checkpoint| checkpoint.name.as_str())
        .collect();
    let error = data.end().and_then(|end| end.error.clone());
    say(&match arguments.json {
        true => {
            let object =
                serde_json::json!({"spec": id, "records": reached, "unreached": unreached, "error": error});
            json(&format!("{object:#}\n"))
        }
        false => table(&spec, &reached, &unreached, error.as_deref()),
    });
    let wrong = reached.iter().any(|record| record.verdict.status == Status::Fail);
    Ok(if wrong || !unreached.is_empty() || error.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn table(spec: &Spec, reached: &[&Record], unreached: &[&str], error: Option<&str>) -> String {
    let form = |info: Option<&TensorInfo>| {
        info.map_or_else(|| "-".to_owned(), |info| format!("{} {:?}", info.dtype, info.shape))
    };
    let names: Vec<String> =
        reached.iter().map(|record| hit_name(&record.checkpoint, record.hit).into_owned()).collect();
    let width =
        names.iter().map(|name| name.chars().count()).chain(unreached.iter().map(|name| name.len())).max();
    let width = width.unwrap_or(0);
    let mut text = format!("{}  shapes and dtypes; no value was computed\n", clean(&spec.id));
    let mut wrong = 0;
    for (record, name) in reached.iter().zip(&names) {
        let (expected, actual) = (form(record.expected.as_ref()), form(record.actual.as_ref()));
        let (word, code) = match (record.verdict.status, record.verdict.class) {
            (Status::Fail, class) => (class.map_or("wrong", |class| class.name()), "31"),
            _ => ("ok", "32"),
        };
        let _ =
            write!(text, "  {} {:<width$}  {actual}", paint(true, code, &format!("{word:<9}")), clean(name));
        if record.verdict.status == Status::Fail {
            wrong += 1;
            let place = record.location.as_ref().map(|place| format!(" ({}:{})", place.file, place.line));
            let _ = write!(text, ", golden {expected}: {}", clean(&record.verdict.detail));
            let _ = write!(text, "{}", clean(&place.unwrap_or_default()));
        }
        text.push('\n');
    }
    for name in unreached {
        let _ =
            writeln!(text, "  {} {:<width$}", paint(true, "31", &format!("{:<9}", "unreached")), clean(name));
    }
    if let Some(error) = error {
        let _ = writeln!(text, "the port failed: {}", clean(error));
    }
    let count = counted(reached.len(), "tensor");
    let _ = writeln!(text, "{count}: {wrong} wrong, {} not reached", unreached.len());
    text
}
