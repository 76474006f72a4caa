//! `cargo xtask diagnose`: what the newest run found of red specs, and every cause that there is a name for.

use std::fmt::Write as _;
use std::process::ExitCode;

use thiserror::Error;

use super::{CliError, Project, parity, report, say};
use crate::diagnose::Kind;
use crate::golden::FixtureSet;
use crate::near::did_you_mean;
use crate::report::{Fate, finding};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask diagnose                    the first wrong stage of every red spec of the newest run, and its cause\n  \
    cargo xtask diagnose gated_mlp/block    that of one spec\n  \
    cargo xtask diagnose --list             every kind of cause, what it means and what to look at next\n\n\
    Runs nothing: a red run has already run its ports once more on golden inputs. Exits with 1 when a spec is red.")]
pub(crate) struct Arguments {
    /// Only this spec, as `model/component`
    spec: Option<String>,
    /// Another run than the newest: the name of its folder
    #[arg(long)]
    run: Option<String>,
    /// List the kinds of causes instead
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
    let collected = parity::collect(project, &run, None);
    let ran = || {
        collected.specs.iter().filter_map(|(spec, fate)| match fate {
            Fate::Ran(account) => Some((spec, account)),
            _ => None,
        })
    };
    if let Some(id) = arguments.spec.as_ref().filter(|id| ran().all(|(spec, _)| spec.id != **id)) {
        let near = did_you_mean(id, ran().map(|(spec, _)| spec.id.as_str()));
        return Err(DiagnoseError::NotRun { id: id.clone(), near }.into());
    }
    let mut red = false;
    for (spec, account) in ran().filter(|(spec, _)| arguments.spec.as_ref().is_none_or(|id| spec.id == *id)) {
        let fixtures = FixtureSet::open(&project.fixture_root(), &spec.fixtures).ok();
        let text = match account.finding(spec, fixtures.as_ref()) {
            Some(found) if account.is_red() => finding(spec, &found, account.on_golden_inputs()),
            _ if account.is_red() => {
                "what is red here is no stage, or stands behind a crash: see `cargo xtask report`\n"
                    .to_owned()
            }
            _ if arguments.spec.is_some() => "nothing is wrong\n".to_owned(),
            _ => continue,
        };
        red |= account.is_red();
        say(&format!("{}  {text}\n", spec.id));
    }
    if !red && arguments.spec.is_none() {
        say("nothing is wrong\n");
    }
    Ok(if red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list() -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let _ = writeln!(text, "{kind}\n  means    {}\n  look at  {}", kind.about(), kind.next());
    }
    let _ = writeln!(text, "{} kinds", Kind::ALL.len());
    text
}
