//! `cargo xtask diagnose`: what the newest run found of red specs, and every cause and fact that there is a name for.

use std::fmt::Write as _;
use std::process::ExitCode;

use thiserror::Error;

use super::{CliError, Project, parity, report, say};
use crate::diagnose::{FactKind, Kind};
use crate::near::did_you_mean;
use crate::printable::{clean, indented};
use crate::report::{Collected, Fate, finding};
use crate::run::{Account, DISCOVERY, Verdict};
use crate::spec::list::counted;
use crate::spec::{RESERVED, Spec};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask diagnose                    the first faulty stage of every red spec of the newest run, and its cause\n  \
    cargo xtask diagnose gated_mlp/block    that of one spec\n  \
    cargo xtask diagnose --list             every kind of cause and of fact, what it means and what to look at next\n\n\
    Runs nothing: a red run has already run its ports once more on golden inputs. Exits with 0 only when the run is\n\
    green: with 1 when anything in it is red, cannot be read or was not run.")]
pub(crate) struct Arguments {
    /// Only this spec, as `model/component`
    spec: Option<String>,
    /// Another run than the newest: the name of its folder
    #[arg(long)]
    run: Option<String>,
    /// List the kinds of causes and of facts instead
    #[arg(long, conflicts_with_all = ["spec", "run"])]
    list: bool,
}

/// Why there is nothing to tell.
#[derive(Debug, Error)]
pub(crate) enum DiagnoseError {
    #[error("the run has no spec `{id}`{near}")]
    NotRun { id: String, near: String },
}

impl DiagnoseError {
    pub(crate) fn next(&self) -> Option<String> {
        Some("run it with `cargo xtask parity`, and see the specs with `cargo xtask list`".into())
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.list {
        say(&list());
        return Ok(ExitCode::SUCCESS);
    }
    let run = report::find(project, arguments.run.as_deref())?;
    let mut collected = parity::collect(project, &run, None);
    let told = match &arguments.spec {
        Some(id) => {
            let known = || {
                let broken = collected.broken.iter().map(|error| error.id.as_str());
                collected.specs.iter().map(|(spec, _)| spec.id.as_str()).chain(broken)
            };
            if known().all(|spec| spec != id) {
                let near = did_you_mean(id, known());
                return Err(DiagnoseError::NotRun { id: id.clone(), near }.into());
            }
            collected.specs.retain(|(spec, _)| spec.id == *id);
            collected.broken.retain(|error| error.id == *id);
            collected.discovery = None;
            diagnosed(&collected, true)
        }
        None => diagnosed(&collected, false),
    };
    say(&told.text);
    Ok(if told.is_green { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Specs that were not run and are written out before the rest is counted.
const SHOWN: usize = 4;

/// The report on a run, and whether all of it is green.
struct Diagnosed {
    text: String,
    is_green: bool,
}

/// Everything that is not green: the specs that cannot be read, what is wrong with all of them, and each spec's own. With
/// `always` a green spec is told, too.
fn diagnosed(run: &Collected, always: bool) -> Diagnosed {
    let (mut red, mut green, mut not_run) = (String::new(), String::new(), Vec::new());
    for wrong in run.discovery.iter().flatten() {
        let _ = writeln!(red, "{DISCOVERY}  {}\n", indented(wrong, 2));
    }
    for error in &run.broken {
        let _ = writeln!(red, "{}\n", error.render(false));
    }
    for (spec, fate) in &run.specs {
        let id = &spec.id;
        let _ = match fate {
            Fate::Ran(account) if account.is_red() => writeln!(red, "{id}  {}", of_red(spec, account)),
            Fate::Ran(_) if always => writeln!(green, "{id}  nothing is wrong"),
            Fate::Ignored(reason) if always => writeln!(green, "{id}  was ignored: it {reason}"),
            Fate::Ran(_) | Fate::Ignored(_) => Ok(()),
            Fate::Failed(problem) => writeln!(red, "{id}  {}\n", clean(problem)),
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
    Diagnosed { text, is_green }
}

/// What there is to say of a red spec.
fn of_red(spec: &Spec, account: &Account) -> String {
    if let Some(problem) = account.story.local_problem() {
        return format!(
            "what its second run, on golden inputs, left cannot be read: {}; run the spec again\n",
            clean(problem)
        );
    }
    let mut text = match account.finding(spec) {
        Some(found) => finding(spec, found, account.on_golden_inputs()),
        None => "no faulty stage is known\n".to_owned(),
    };
    // Weights, fixtures, statistics and what stands behind a crash are no stages.
    let beside = account.endings.iter().filter(|ending| RESERVED.contains(&ending.name.as_str()));
    for ending in beside {
        if let Verdict::Failed { class, line, .. } = &ending.verdict {
            let _ = writeln!(text, "  also red `{}::{}` ({class}): {}", spec.id, ending.name, clean(line));
        }
    }
    text
}

fn list() -> String {
    let mut text =
        "causes: each predicts the actual, and is told with what it leaves of the error\n\n".to_owned();
    for kind in Kind::ALL {
        let _ = writeln!(text, "{kind}\n  means    {}\n  look at  {}", kind.about(), kind.next());
    }
    text.push_str("\nfacts: what can be seen where nothing explains the error; none of them is a cause\n\n");
    for kind in FactKind::ALL {
        let _ = writeln!(text, "{kind}\n  means    {}\n  look at  {}", kind.about(), kind.next());
    }
    let _ = writeln!(text, "\n{} kinds of causes, {} kinds of facts", Kind::ALL.len(), FactKind::ALL.len());
    text
}
