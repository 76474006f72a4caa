//! `cargo xtask diagnose`: the first faulty stage of each red spec in the newest run, and all kinds of causes and facts.

use std::fmt::Write as _;
use std::process::ExitCode;

use thiserror::Error;

use super::find_run::find;
use super::parity::ParityError;
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::diagnose::{CauseKind, FactKind};
use mlx_parity_core::preflight::DISCOVERY;
use mlx_parity_core::report::localisation_text;
use mlx_parity_core::results::{Account, ExpectedSpecs, Fate, RunResults, TrialOutcome};
use mlx_parity_core::spec::RESERVED;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::{clean, clean_lines, indented};
use mlx_parity_core::text::suggest::did_you_mean;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask diagnose                    the first faulty stage of each red spec, and its cause\n  \
    cargo xtask diagnose gated_mlp/block    the same for one spec\n  \
    cargo xtask diagnose --list             every kind of cause and fact, with its meaning\n\n\
    Runs nothing: a red run has already run its ports a second time, on golden inputs.\n\
    Exits with 1 when anything in the run is red, cannot be read or was not run, and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// Only this spec, as `model/component`
    spec: Option<String>,
    /// The run, a folder in target/parity/runs; the newest by default
    #[arg(long)]
    run: Option<String>,
    /// List the kinds of causes and facts instead
    #[arg(long, conflicts_with_all = ["spec", "run"])]
    list: bool,
}

/// Why a run cannot be diagnosed.
#[derive(Debug, Error)]
pub(crate) enum DiagnoseError {
    #[error("the run has no spec `{id}`{near}")]
    NotRun { id: String, near: String },
}

impl CommandError for DiagnoseError {
    fn next(&self) -> Option<String> {
        Some("run it with `cargo xtask parity`, and see the specs with `cargo xtask list`".into())
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.list {
        say(&list());
        return Ok(ExitCode::SUCCESS);
    }
    let run = find(project, arguments.run.as_deref())?;
    let mut results = RunResults::read(run.folder(), ExpectedSpecs::Everything).map_err(ParityError::from)?;
    let diagnosed = match &arguments.spec {
        Some(id) => {
            let known = || {
                let broken = results.broken.iter().map(|error| error.id.as_str());
                results.specs.iter().map(|spec| spec.id.as_str()).chain(broken)
            };
            if known().all(|spec| spec != id) {
                let near = did_you_mean(id, known());
                return Err(DiagnoseError::NotRun { id: id.clone(), near }.into());
            }
            results.specs.retain(|spec| spec.id == *id);
            results.broken.retain(|error| error.id == *id);
            results.discovery = None;
            results.others.clear();
            diagnose(&results, true)
        }
        None => diagnose(&results, false),
    };
    say(&diagnosed.text);
    Ok(if diagnosed.is_green { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many specs that were not run are listed; the rest is counted.
const SHOWN: usize = 4;

/// The report on a run, and whether all of it is green.
struct DiagnosedRun {
    text: String,
    is_green: bool,
}

/// Reports everything that is not green: problems of all specs, specs that cannot be read, then each red spec. With
/// `always`, green and ignored specs are reported too.
fn diagnose(run: &RunResults, always: bool) -> DiagnosedRun {
    let (mut red, mut green, mut not_run) = (String::new(), String::new(), Vec::new());
    for wrong in run.discovery.iter().flatten() {
        let _ = writeln!(red, "{DISCOVERY}  {}\n", indented(wrong, 2));
    }
    for error in &run.broken {
        let _ = writeln!(red, "{}\n", clean_lines(&error.text));
    }
    for other in &run.others {
        let _ = writeln!(red, "{}\n", indented(other, 2));
    }
    for spec in &run.specs {
        let id = &spec.id;
        let _ = match &spec.fate {
            Fate::Ran(account) if account.is_red() => writeln!(red, "{id}  {}", of_red(account)),
            Fate::Ran(_) if always => writeln!(green, "{id}  nothing is wrong"),
            Fate::Ignored(reason) if always => writeln!(green, "{id}  was ignored: it {reason}"),
            Fate::Ran(_) | Fate::Ignored(_) => Ok(()),
            Fate::Failed(problem) => writeln!(red, "{id}  {}\n", clean(problem)),
            Fate::NotAsked => Ok(()),
            Fate::NotRun => {
                not_run.push(id.as_str());
                Ok(())
            }
        };
    }
    let more = not_run.len().saturating_sub(SHOWN);
    if let Some(names) = not_run.get(..not_run.len() - more).filter(|names| !names.is_empty()) {
        let more = if more > 0 { format!(" and {}", counted(more, "other")) } else { String::new() };
        let _ = writeln!(red, "not run: {}{more}\n", names.join(", "));
    }
    let is_green = red.is_empty();
    let text = match is_green && green.is_empty() {
        true => "nothing is wrong\n".to_owned(),
        false => red + &green,
    };
    DiagnosedRun { text, is_green }
}

/// The report on a red spec: its first faulty stage, then the other red trials.
fn of_red(account: &Account) -> String {
    if let Some(problem) = account.data.local_problem() {
        return format!(
            "the results of its second run, on golden inputs, cannot be read: {}; run the spec again\n",
            clean(problem)
        );
    }
    let mut text = match account.localisation() {
        Some(found) => localisation_text(found, account.on_golden_inputs()),
        None => "the first faulty stage is unknown\n".to_owned(),
    };
    // Weights, fixtures and statistics are not stages, so the localisation does not include them.
    let beside = account.trials.iter().filter(|trial| RESERVED.contains(&trial.name.as_str()));
    for trial in beside {
        if let TrialOutcome::Failed { class, line, .. } = &trial.outcome {
            let _ =
                writeln!(text, "  also red `{}::{}` ({class}): {}", account.spec.id, trial.name, clean(line));
        }
    }
    text
}

fn list() -> String {
    let mut text =
        "causes: each predicts the actual; the report shows how much of the error reversing it removes\n\n"
            .to_owned();
    for kind in CauseKind::ALL {
        let _ = writeln!(text, "{kind}\n  means    {}\n  look at  {}", kind.about(), kind.next());
    }
    text.push_str("\nfacts: observations about an error that no cause explains\n\n");
    for kind in FactKind::ALL {
        let _ = writeln!(text, "{kind}\n  means    {}\n  look at  {}", kind.about(), kind.next());
    }
    let _ =
        writeln!(text, "\n{} kinds of causes, {} kinds of facts", CauseKind::ALL.len(), FactKind::ALL.len());
    text
}
