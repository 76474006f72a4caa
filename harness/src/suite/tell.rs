//! What a suite says once its trials have run: reasons, ladders, the account of all trials; and the reports it writes.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};

use libtest_mimic::{Arguments, Conclusion, FormatSetting};

use super::trials::Told;
use crate::printable::{clean, clean_lines};
use crate::report::{Collected, Fate, Summary, error_chain, write_reports};

/// Tells of the run, and ends as libtest does, or red when the accounts do not add up.
pub(super) fn tell(told: &Told, arguments: &Arguments, conclusion: &Conclusion) -> ExitCode {
    let counts = *told.counts.lock().unwrap_or_else(PoisonError::into_inner);
    let run = collected(told);
    let summary = Summary {
        ignored: usize::try_from(conclusion.num_ignored).unwrap_or(usize::MAX),
        ..Summary { specs: run.summary().specs, injected: run.summary().injected, ..counts }
    };
    let quiet = arguments.format == Some(FormatSetting::Json);
    if let Some(home) = told.home.as_ref().filter(|home| !home.shared) {
        if let Some(folder) = home.started()
            && let Err(error) = write_reports(folder, &run, &super::target())
        {
            eprintln!("{}", error_chain(&error));
        }
        if !quiet {
            for (spec, reason) in &told.ignored {
                println!("{} is ignored: it {reason}", spec.id);
            }
            print!("{}", run.ladders(true, std::io::stdout().is_terminal()));
            if run.is_stopped() {
                println!(
                    "stopped after the checkpoints that were asked for; later hits of theirs were not counted"
                );
            }
        }
    }
    let filtered = usize::try_from(conclusion.num_filtered_out).unwrap_or(usize::MAX);
    let declared = told.declared.saturating_sub(filtered);
    if !quiet {
        println!(
            "parity: {declared} declared = {} passed + {} failed + {} ignored + {} not gated{}",
            summary.passed,
            summary.failed,
            summary.ignored,
            summary.not_gated,
            if summary.injected { ", INJECTED" } else { "" }
        );
    }
    let ran = conclusion.num_passed + conclusion.num_failed > 0;
    if let Some(problem) = told.refused.as_ref().filter(|_| !ran) {
        // What was selected has no trial here, and what would run elsewhere under this setting proves nothing either.
        eprintln!("parity: {}", clean_lines(problem));
        return ExitCode::from(101);
    }
    if !ran {
        // Cargo passes one filter to every test binary, so that this may be meant: it is no failure, but no proof.
        let selected = conclusion.num_ignored;
        eprintln!(
            "parity: nothing was run and nothing is proven: {}",
            match (selected, &arguments.filter) {
                (0, Some(filter)) if arguments.exact => format!("no trial is called `{}`", clean(filter)),
                (0, Some(filter)) => format!("no trial has `{}` in its name", clean(filter)),
                (0, None) => "no trial was selected".to_owned(),
                (1, _) => "the one trial that was selected is ignored".to_owned(),
                (selected, _) => format!("all {selected} trials that were selected are ignored"),
            }
        );
    }
    let libtest = (conclusion.num_passed, conclusion.num_failed);
    let ours = (summary.passed + summary.not_gated, summary.failed);
    let told_alike = libtest == (ours.0 as u64, ours.1 as u64);
    if !told_alike || declared != ours.0 + ours.1 + summary.ignored {
        eprintln!(
            "the accounts do not add up: of {declared} trials, libtest counted {} passed and {} failed; please report this",
            libtest.0, libtest.1
        );
        return ExitCode::from(101);
    }
    conclusion.exit_code()
}

/// The run as this process saw it.
fn collected(told: &Told) -> Collected {
    let specs = told.cases.iter().map(|case| {
        let ignored = told.ignored.iter().find(|(spec, _)| Arc::ptr_eq(spec, &case.spec));
        let required = told.required.iter().find(|(spec, _)| Arc::ptr_eq(spec, &case.spec));
        let fate = match (case.account(), ignored, required) {
            (Some(Ok(account)), ..) => Fate::Ran(Arc::clone(account)),
            (Some(Err(problem)), ..) => Fate::Failed(problem.clone()),
            (None, Some((_, reason)), _) => Fate::Ignored(reason.clone()),
            (None, None, Some((_, reason))) => Fate::required(reason),
            (None, None, None) => Fate::NotRun,
        };
        (Arc::clone(&case.spec), fate)
    });
    let discovery = told.discovery.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (specs, broken) = (specs.collect(), told.broken.clone());
    Collected { specs, broken, discovery, level: None, expects_all: false }
}
