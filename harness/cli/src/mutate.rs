//! The command `mutate`: how much a spec notices. The suite changes tensors at its taps, one at a time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use thiserror::Error;

use super::parity::SuiteRun;
use super::tighten::{Use, tightest, use_of};
use super::{CliError, Project, say, setup};
use crate::error::CommandError;
use crate::find_spec::find_run;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::gate::Gate;
use mlx_parity_core::mutation::{MutationLog, MutationResults};
use mlx_parity_core::record::Record;
use mlx_parity_core::report::{MutatedRow, mutations_text, score_line};
use mlx_parity_core::run_folder::{Folder, FolderError};
use mlx_parity_core::runs::{Asked, Out, claim};
use mlx_parity_core::settings::names::MUTATE;

use mlx_parity_core::text::program::suite_command;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask mutate gated_mlp/block                    Show which mutations its checkpoints notice\n  \
    PARITY_LEVEL=2 cargo xtask mutate gated_mlp/block     Mutate inner checkpoints too\n  \
    cargo xtask mutate gated_mlp/block --at-least 90      Fail below 90 percent\n\n\
    Mutations: exchange two axes, multiply by 1.01, subtract the mean of each channel, move by one\n\
    element, round to bfloat16, set one channel to zero, exchange halves. Integer tensors are only\n\
    moved. A mutation that leaves a tensor unchanged does not count. The unmutated port must be green.\n\n\
    Exits with 1 when the command cannot run or the score is below --at-least, else with 0.")]
pub(crate) struct Arguments {
    /// Spec, as `model/component`
    spec: String,
    /// Fail when checkpoints notice less than this share of the mutations
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    at_least: Option<u8>,
    /// Write the result of every mutation to this file, as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a spec could not be mutated.
#[derive(Debug, Error)]
pub(crate) enum MutateError {
    #[error("the suite could not mutate `{id}`; its output above shows why")]
    NotRun { id: String },
    #[error("`{id}` could not be mutated: the port reached none of its checkpoints")]
    Nothing { id: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl CommandError for MutateError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotRun { id } | Self::Nothing { id } => {
                Some(format!("make it green first: `{} {id}`", suite_command()))
            }
            Self::Folder(_) | Self::Write { .. } => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let id = arguments.spec.as_str();
    find_run(project, id)?;
    setup::ensure(project)?;
    let out = Out::of(project.root()).path().join("mutations");
    claim(&out).map_err(MutateError::from)?;
    let failed = |source| MutateError::Write { path: out.clone(), source };
    let asked = Asked::new(&out, MUTATE, id).map_err(failed)?;
    let variables = asked.variables();
    let suite = SuiteRun { filter: None, release: arguments.release, variables: &variables, going: None };
    let status = suite.run(project)?;
    if !status.success() {
        return Err(MutateError::NotRun { id: id.to_owned() }.into());
    }
    let log = MutationLog::in_folder(&Folder::at(out.join(id)));
    let mutations = MutationResults::of(log.read().map_err(MutateError::from)?);
    let score = mutations.score();
    if mutations.results.is_empty() {
        return Err(MutateError::Nothing { id: id.to_owned() }.into());
    }
    let rows = rows(&mutations);
    say(&mutations_text(id, &rows, true));
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

/// Returns one row per checkpoint, in the order of the run.
fn rows(mutations: &MutationResults) -> Vec<MutatedRow<'_>> {
    let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
    for record in &mutations.unmutated {
        if let Some(used) = use_of(record) {
            uses.entry(&record.checkpoint).and_modify(|worst| *worst = worst.worst(used)).or_insert(used);
        }
    }
    let first_hits = mutations.unmutated.iter().filter(|record| record.hit == 0);
    let row = |record: &'_ Record, checkpoint| {
        let worst = uses.get(checkpoint);
        let tight = record.gate.as_ref().zip(worst).and_then(|(gate, worst)| tighter(gate, worst));
        (worst.map(|worst| worst.used), tight)
    };
    first_hits
        .map(|record| {
            let (used, tightest) = row(record, record.checkpoint.as_str());
            let came =
                mutations.results.iter().filter(|one| one.mutation.checkpoint == record.checkpoint).collect();
            MutatedRow { checkpoint: &record.checkpoint, used, gate: record.gate.as_ref(), tightest, came }
        })
        .collect()
}

/// Returns the tightest gate that leaves room, if it is at most half of the present one, and its share of that.
fn tighter(gate: &Gate, worst: &Use) -> Option<(String, f64)> {
    let is_of_bounds = !gate.needs_floor() && !gate.is_of_choices();
    if worst.used == 0.0 && !worst.rounds && is_of_bounds && !gate.is_exact() {
        return Some(("rtol: 0, atol: 0".to_owned(), 0.0));
    }
    let tight = tightest(gate, worst.used.max(worst.at_floor));
    let part = gate.part_allowed_by(&tight)?;
    (part > 0.0 && part <= 0.5).then(|| (tight.yaml(), part))
}

fn json_text(id: &str, mutations: &MutationResults, rows: &[MutatedRow<'_>]) -> String {
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
        "planted": score.noticeable(),
        "noticed": score.noticed(),
        "at_itself": score.at_itself,
        "later": score.later,
        "survived": score.survived,
        "equivalent": score.equivalent,
        "checkpoints": checkpoints,
        "mutations": mutations.results,
    });
    format!("{object:#}\n")
}
