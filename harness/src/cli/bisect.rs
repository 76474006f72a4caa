//! `cargo xtask bisect`: the first faulty stage of a spec.
//!
//! A red run is followed by one with every golden injected, so that each stage works on golden inputs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;

use super::parity::{ParityError, SuiteRun};
use super::{CliError, Project, setup};
use crate::near::did_you_mean;
use crate::report::{error_chain, finding, ladder};
use crate::run::{Account, Finding, Folder, Out, RunName, Story, account};
use crate::spec::{Spec, SpecError, Specs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask bisect gated_mlp/block                     the culprit, or that the error only adds up\n  \
    PARITY_LEVEL=2 cargo xtask bisect gated_mlp/block      between inner checkpoints too\n\n\
    Exits with 1 when the spec is red, 0 when nothing is wrong.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`
    spec: String,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a spec could not be searched.
#[derive(Debug, Error)]
pub(crate) enum BisectError {
    #[error("there is no spec `{id}`{near}")]
    NoSpec { id: String, near: String },
    #[error(transparent)]
    Spec(Box<SpecError>),
    #[error("the suite did not run `{id}`: {said}")]
    NotRun { id: String, said: String },
    #[error("what the run left in `{folder}` cannot be read: {problem}")]
    Unreadable { folder: PathBuf, problem: String },
}

impl BisectError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NoSpec { .. } => Some("see the specs with `cargo xtask list`".into()),
            Self::Spec(_) => None,
            Self::NotRun { .. } | Self::Unreadable { .. } => {
                Some("see what `cargo xtask parity` says".into())
            }
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec = find(project, &arguments.spec)?;
    setup::ensure(project)?;
    let free = run_once(project, arguments, &spec)?;
    let local = free.on_golden_inputs();
    let found = free.finding(&spec).cloned().unwrap_or(Finding::Right);
    let colour = io::stdout().is_terminal();
    println!("free-running\n{}", ladder(&spec, &free, colour));
    if free.local.is_some() {
        println!("on golden inputs\n{}", ladder(&spec, local, colour));
    }
    print!("{}", said(&spec, &found, &free, local));
    Ok(if free.is_red() || found != Finding::Right { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn said(spec: &Spec, found: &Finding, free: &Account, local: &Account) -> String {
    match found {
        Finding::Right if !free.is_red() => format!("nothing is wrong with `{}`\n", spec.id),
        // Weights, fixtures and the like are no stages.
        Finding::Right => "no checkpoint is wrong; what is red stands below them\n".to_owned(),
        found => finding(spec, found, local),
    }
}

fn find(project: &Project, id: &str) -> Result<Arc<Spec>, BisectError> {
    let Specs { specs, broken, .. } = Specs::load(&project.spec_root());
    let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
    if let Some(error) = broken.into_iter().find(|error| error.id == id) {
        return Err(BisectError::Spec(Box::new(error)));
    }
    let found = specs.into_iter().find(|spec| spec.id == id).map(Arc::new);
    found.ok_or_else(|| BisectError::NoSpec { id: id.to_owned(), near })
}

/// Runs the spec alone, and reads what it left.
fn run_once(project: &Project, arguments: &Arguments, spec: &Arc<Spec>) -> Result<Account, CliError> {
    let going = Out::of(project.root()).start(&RunName::fresh(true)).map_err(ParityError::from)?;
    let filter = format!("{}::", spec.id);
    let suite =
        SuiteRun { filter: Some(&filter), release: arguments.release, variables: &[], going: Some(&going) };
    let (_, said) = suite.run(project)?;
    let folder = going.folder.join(&spec.id);
    match Story::read(&Folder::at(folder.clone())) {
        Ok(Some(story)) => Ok(account(spec, story)),
        Ok(None) => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            Err(BisectError::NotRun { id: spec.id.clone(), said: last.to_owned() }.into())
        }
        Err(error) => Err(BisectError::Unreadable { folder, problem: error_chain(&error) }.into()),
    }
}
