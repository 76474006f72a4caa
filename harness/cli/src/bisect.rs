//! `cargo xtask bisect`: the first faulty stage of a spec.
//!
//! A red run is followed by a second run with every golden injected, so each stage receives golden inputs.

use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;

use super::parity::{ParityError, SuiteRun};
use super::{CliError, Project, setup};
use crate::error::CommandError;
use crate::find_spec::find_run;
use mlx_parity_core::report::{Rows, ladder, localisation_text};
use mlx_parity_core::results::{Account, ExpectedSpecs, Fate, Localisation, RunResults};
use mlx_parity_core::runs::{Out, RunName};
use mlx_parity_core::spec::Spec;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask bisect gated_mlp/block                     the first faulty stage\n  \
    PARITY_LEVEL=2 cargo xtask bisect gated_mlp/block      with inner checkpoints too\n\n\
    Exits with 1 when the spec is red, and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`
    spec: String,
    /// Print every checkpoint of both passes
    #[arg(long)]
    all: bool,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a spec could not be bisected.
#[derive(Debug, Error)]
pub(crate) enum BisectError {
    #[error("the suite did not run `{id}`: {problem}")]
    NotRun { id: String, problem: String },
}

impl CommandError for BisectError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotRun { .. } => Some("run `cargo xtask parity`, and read its report".into()),
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec = find_run(project, &arguments.spec)?;
    setup::ensure(project)?;
    let free = run_once(project, arguments, &spec)?;
    let local = free.on_golden_inputs();
    let found = free.localisation().cloned().unwrap_or(Localisation::Right);
    let (rows, colour) = (if arguments.all { Rows::All } else { Rows::Folded }, true);
    println!("first pass\n{}", ladder(&free, rows, colour));
    if free.local.is_some() {
        println!("second pass, on golden inputs\n{}", ladder(local, rows, colour));
    }
    print!("{}", conclusion(&found, &free, local));
    Ok(if free.is_red() || found != Localisation::Right { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn conclusion(found: &Localisation, free: &Account, local: &Account) -> String {
    match found {
        Localisation::Right if !free.is_red() => format!("nothing is wrong with `{}`\n", free.spec.id),
        // Trials such as weights and fixtures are not stages.
        Localisation::Right => {
            "every checkpoint is right; the failing trials are listed below the checkpoints\n".to_owned()
        }
        found => localisation_text(found, local),
    }
}

/// Runs only this spec and reads its results.
fn run_once(project: &Project, arguments: &Arguments, spec: &Spec) -> Result<Arc<Account>, CliError> {
    let going = Out::of(project.root()).start(&RunName::fresh(true)).map_err(ParityError::from)?;
    let filter = format!("{}::", spec.id);
    let suite =
        SuiteRun { filter: Some(&filter), release: arguments.release, variables: &[], going: Some(&going) };
    suite.run(project)?;
    let results = RunResults::read(&going.folder, ExpectedSpecs::Selected).map_err(ParityError::from)?;
    let refused = results.others.first().cloned();
    let fate = results.specs.into_iter().find(|found| found.id == spec.id).map(|found| found.fate);
    let problem = match fate {
        Some(Fate::Ran(account)) => return Ok(account),
        Some(Fate::Ignored(reason)) => format!("it {reason}"),
        Some(Fate::Failed(problem)) => problem,
        Some(Fate::NotRun | Fate::NotAsked) | None => {
            refused.unwrap_or_else(|| "the suite recorded no result for it".to_owned())
        }
    };
    Err(BisectError::NotRun { id: spec.id.clone(), problem }.into())
}
