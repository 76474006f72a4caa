//! `cargo xtask mutate`: how good a spec is. Faults are planted at its taps, one at a time, to see which checkpoints notice.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use thiserror::Error;

use super::parity::SuiteRun;
use super::tighten::{Use, tightest, use_of, written};
use super::{CliError, Project, say, setup};
use crate::atomic::write_atomically;
use crate::compare::Gate;
use crate::near::did_you_mean;
use crate::record::Record;
use crate::report::{MutatedRow, mutations_text, score_line};
use crate::run::{Asked, Folder, FolderError, Mutations, Out, Steps, claim};
use crate::settings::names::MUTATE;
use crate::spec::{SpecError, Specs, bounds};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask mutate gated_mlp/block                    which faults its checkpoints notice\n  \
    PARITY_LEVEL=2 cargo xtask mutate gated_mlp/block     with inner checkpoints too\n  \
    cargo xtask mutate gated_mlp/block --at-least 90      fail below 90 percent\n\n\
    Faults: two axes exchanged, times 1.01, without the mean of each channel, moved by one, rounded\n\
    to bfloat16, one channel zero, halves exchanged; whole numbers are only moved. One that leaves\n\
    a tensor as it was does not count. The port has to be green without any.\n\
    Exits with 0 unless it cannot run, or the score is below --at-least.")]
pub(crate) struct Arguments {
    /// The spec, as `model/component`
    spec: String,
    /// Fail when less than this part of the faults is noticed
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    at_least: Option<u8>,
    /// Write what came of every fault as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a spec could not be mutated.
#[derive(Debug, Error)]
pub(crate) enum MutateError {
    #[error("there is no spec `{id}`{near}")]
    NoSpec { id: String, near: String },
    #[error(transparent)]
    Spec(Box<SpecError>),
    #[error("the suite could not plant faults in `{id}`; it says why above")]
    NotRun { id: String },
    #[error("no fault could be planted in `{id}`: none of its checkpoints was met")]
    Nothing { id: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl MutateError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NoSpec { .. } => Some("see the specs with `cargo xtask list`".into()),
            Self::NotRun { id } | Self::Nothing { id } => {
                Some(format!("it has to be green first: `cargo xtask parity {id}`"))
            }
            Self::Spec(_) | Self::Folder(_) | Self::Write { .. } => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let id = arguments.spec.as_str();
    find(project, id)?;
    setup::ensure(project)?;
    let out = Out::of(project.root()).path().join("mutations");
    claim(&out).map_err(MutateError::from)?;
    let failed = |source| MutateError::Write { path: out.clone(), source };
    let asked = Asked::new(&out, MUTATE, id).map_err(failed)?;
    let variables = asked.variables();
    let suite = SuiteRun { filter: None, release: arguments.release, variables: &variables, going: None };
    let (status, _) = suite.run(project)?;
    if !status.success() {
        return Err(MutateError::NotRun { id: id.to_owned() }.into());
    }
    let steps = Steps::in_folder(&Folder::at(out.join(id)));
    let mutations = Mutations::of(steps.read().map_err(MutateError::from)?);
    let score = mutations.score();
    if mutations.came.is_empty() {
        return Err(MutateError::Nothing { id: id.to_owned() }.into());
    }
    let rows = rows(&mutations);
    say(&mutations_text(id, &rows, io::stdout().is_terminal()));
    say(&format!("{}\n", score_line(score)));
    if let Some(path) = &arguments.json {
        let text = json_text(id, &mutations, &rows);
        write_atomically(path, |out| out.write_all(text.as_bytes()))
            .map_err(|source| MutateError::Write { path: path.clone(), source })?;
    }
    let enough =
        arguments.at_least.zip(score.percent()).is_none_or(|(least, percent)| percent >= least.into());
    Ok(if enough { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find(project: &Project, id: &str) -> Result<(), MutateError> {
    let Specs { specs, broken, .. } = Specs::load(&project.spec_root());
    if let Some(error) = broken.into_iter().find(|error| error.id == id) {
        return Err(MutateError::Spec(Box::new(error)));
    }
    let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
    let found = specs.iter().any(|spec| spec.id == id);
    found.then_some(()).ok_or_else(|| MutateError::NoSpec { id: id.to_owned(), near })
}

/// One row a checkpoint, in the order of the run.
fn rows(mutations: &Mutations) -> Vec<MutatedRow<'_>> {
    let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
    for record in &mutations.clean {
        if let Some(used) = use_of(record) {
            uses.entry(&record.checkpoint).and_modify(|worst| *worst = worst.worst(used)).or_insert(used);
        }
    }
    let first_hits = mutations.clean.iter().filter(|record| record.hit == 0);
    let row = |record: &'_ Record, checkpoint| {
        let worst = uses.get(checkpoint);
        let tight = record.gate.as_ref().zip(worst).and_then(|(gate, worst)| tighter(gate, worst));
        (worst.map(|worst| worst.used), tight)
    };
    first_hits
        .map(|record| {
            let (used, tightest) = row(record, record.checkpoint.as_str());
            let came =
                mutations.came.iter().filter(|one| one.planted.checkpoint == record.checkpoint).collect();
            MutatedRow { checkpoint: &record.checkpoint, used, gate: record.gate.as_ref(), tightest, came }
        })
        .collect()
}

/// The tightest gate that leaves room, where it is at least twice as tight, and what part of the present one it is.
fn tighter(gate: &Gate, worst: &Use) -> Option<(String, f64)> {
    if worst.used == 0.0
        && !worst.rounds
        && matches!(gate, Gate::Tolerance { rtol, atol, .. } if rtol + atol > 0.0)
    {
        return Some(("rtol: 0, atol: 0".to_owned(), 0.0));
    }
    let tight = tightest(gate, worst.used.max(worst.at_floor));
    let part = match (gate, &tight) {
        (Gate::Tolerance { rtol, atol, .. }, Gate::Tolerance { rtol: r, atol: a, .. }) => {
            let part = |now: f64, then: f64| if then > 0.0 { now / then } else { 0.0 };
            part(*r, *rtol).max(part(*a, *atol))
        }
        (Gate::Noise { k }, Gate::Noise { k: tight }) if *k > bounds::NOISE => tight / k,
        _ => return None,
    };
    (part > 0.0 && part <= 0.5).then(|| (written(&tight), part))
}

fn json_text(id: &str, mutations: &Mutations, rows: &[MutatedRow<'_>]) -> String {
    let score = mutations.score();
    let checkpoints: Vec<_> = rows
        .iter()
        .map(|row| {
            let tightest = row.tightest.as_ref().map(|(gate, _)| gate);
            json!({ "checkpoint": row.checkpoint, "gate": row.gate, "used": row.used, "tightest": tightest })
        })
        .collect();
    let object = json!({
        "spec": id,
        "planted": score.planted(),
        "noticed": score.noticed(),
        "at_itself": score.at_itself,
        "later": score.later,
        "survived": score.survived,
        "equivalent": score.equivalent,
        "checkpoints": checkpoints,
        "mutations": mutations.came,
    });
    format!("{object:#}\n")
}
