//! The command `show`: one spec as a table, or one checkpoint with its values. Reads the run folder, and the goldens
//! where values are asked for.

mod details;
mod subject;
mod surroundings;
mod table;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use super::find_run::{RunsError, find};
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::calculate::{CalculateError, help};
use mlx_parity_core::golden::FixtureError;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::text::printable::json;
use mlx_parity_core::text::program::suite_command;

use subject::Subject;
use values::{HitValues, Request};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask show gated_mlp/block                       shapes and statistics of every checkpoint\n  \
    cargo xtask show gated_mlp/block::act                  both sides of one checkpoint\n  \
    cargo xtask show gated_mlp/block::act --slice '0, :, 3' --diff\n  \
    cargo xtask show gated_mlp/block::act --expr 'abs(actual - golden)[0, :, 3].max()'\n  \
    cargo xtask show --functions                           what an expression can use\n\n\
    The second hit of a checkpoint is `checkpoint@1`. A run keeps the actuals of green checkpoints\n\
    only with PARITY_KEEP=all. Expressions use float64, and can have several lines and variables.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`, or one checkpoint, as `model/component::checkpoint`
    #[arg(required_unless_present = "functions")]
    what: Option<String>,
    /// A folder in target/parity/runs, or the path of a run folder [default: newest]
    #[arg(long)]
    run: Option<String>,
    /// Print only this part of the values, as in NumPy: `0, :, 3`
    #[arg(long, value_name = "INDEX")]
    slice: Option<String>,
    /// Print the golden's values
    #[arg(long)]
    golden: bool,
    /// Print the actual's values
    #[arg(long)]
    actual: bool,
    /// Print the values of `actual - golden`
    #[arg(long)]
    diff: bool,
    /// Evaluate an expression over `golden` and `actual`
    #[arg(long, value_name = "EXPRESSION")]
    expr: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// List the functions of expressions
    #[arg(long, exclusive = true)]
    functions: bool,
}

/// Why something cannot be shown.
#[derive(Debug, Error)]
pub(crate) enum ShowError {
    #[error("run `{run}` has no results of spec `{spec}`{near}")]
    NoSpec { run: String, spec: String, near: String },
    #[error("spec `{spec}` has no checkpoint `{name}`{near}")]
    NoCheckpoint { spec: String, name: String, near: String },
    #[error("`{name}` was not reached in run `{run}`")]
    NotReached { name: String, run: String },
    #[error("the run kept no actual of `{name}`, which is {status}")]
    NotKept { name: String, status: String, command: String },
    #[error("cannot read the actual `{path}`: {problem}")]
    Actual { path: PathBuf, problem: String },
    #[error("the golden of `{name}` cannot be used: {problem}")]
    Golden { name: String, problem: String },
    #[error("`{spec}` is a whole spec; --slice, --golden, --actual, --diff and --expr need one checkpoint")]
    WholeSpec { spec: String, example: String },
    #[error("`{path}` is not the spec that was run: its digest differs")]
    Changed { path: PathBuf },
    #[error("{option}: {source}")]
    Expression { option: &'static str, source: CalculateError },
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Runs(#[from] RunsError),
}

impl CommandError for ShowError {
    fn next(&self) -> Option<String> {
        match self {
            // A misspelt name cannot be run.
            Self::NoSpec { near, .. } if !near.is_empty() => None,
            Self::NoSpec { spec, .. } => Some(format!("run it with `{} {spec}::`", suite_command())),
            Self::NotKept { command, .. } => Some(format!("keep every actual with `{command}`")),
            Self::WholeSpec { example, .. } => Some(format!("name a checkpoint, such as `{example}`")),
            Self::Expression { .. } => Some("see the functions with `cargo xtask show --functions`".into()),
            Self::Changed { .. } => Some("run the spec again".into()),
            Self::Runs(error) => error.next(),
            _ => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.functions {
        say(&help());
        return Ok(ExitCode::SUCCESS);
    }
    let what = arguments.what.as_deref().unwrap_or_default();
    let (spec, checkpoint) = what.split_once("::").map_or((what, None), |(spec, name)| (spec, Some(name)));
    let found = find(project, arguments.run.as_deref()).map_err(ShowError::from)?;
    let subject = Subject::read(found.folder(), spec.trim_end_matches('/'))?;
    let request = Request {
        slice: arguments.slice.as_deref(),
        golden: arguments.golden,
        actual: arguments.actual,
        diff: arguments.diff,
        expression: arguments.expr.as_deref(),
    };
    let text = match checkpoint {
        None if request.is_any() => {
            let example = subject.example();
            return Err(ShowError::WholeSpec { spec: spec.to_owned(), example }.into());
        }
        None if arguments.json => json(&format!("{:#}\n", table::as_json(&subject))),
        None => table::as_text(&subject),
        Some(name) => {
            let hit = subject.hit(name)?;
            let values = HitValues::new(project, &subject, &hit);
            let answers = request.answer(&values)?;
            match arguments.json {
                true => json(&format!("{:#}\n", details::as_json(&subject, &hit, &values, &answers))),
                false if request.is_any() => answers.text(),
                false => details::as_text(project, &subject, &hit, &values),
            }
        }
    };
    say(&text);
    Ok(ExitCode::SUCCESS)
}
