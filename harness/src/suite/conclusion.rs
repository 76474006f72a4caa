//! The end of a suite: its summary, its reports in the run folder and its exit code.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Conclusion, FormatSetting};

use super::context::now;
use super::trials::SuiteTrials;
use mlx_parity_core::report::{Detail, not_kept, run_text, write_reports};
use mlx_parity_core::results::{Account, ExpectedSpecs, Fate, RunResults, SuiteData};
use mlx_parity_core::run_folder::{SuiteEnd, TrialLine, TrialStatus};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::{clean, clean_lines};
use mlx_parity_core::text::program::program;

/// Writes and prints the reports, and returns libtest's exit code. Returns 101 if the suite and libtest count different
/// numbers of trials, or if a setting is wrong and no trial was selected.
pub(super) fn conclude(suite: &SuiteTrials, arguments: &Arguments, conclusion: &Conclusion) -> ExitCode {
    let lines = suite.context.lines();
    let count = |status: TrialStatus| lines.iter().filter(|line| line.status == status).count();
    let counts = Counts {
        passed: count(TrialStatus::Passed),
        not_gated: count(TrialStatus::NotGated),
        approved: count(TrialStatus::Approved),
        new: count(TrialStatus::New),
        failed: count(TrialStatus::Failed),
        ignored: size(conclusion.num_ignored),
        declared: suite.declared.saturating_sub(size(conclusion.num_filtered_out)),
    };
    let problem = counts.problem(conclusion);
    let end = SuiteEnd {
        ended: now(),
        passed: conclusion.num_passed,
        failed: conclusion.num_failed,
        ignored: conclusion.num_ignored,
        filtered: conclusion.num_filtered_out,
        problem: problem.clone(),
    };
    if let Err(problem) = suite.context.end(&end) {
        eprintln!("parity: the run folder is incomplete: {problem}");
    }
    let run = results(suite, lines, end);
    let quiet = arguments.format == Some(FormatSetting::Json);
    if !suite.context.is_shared() {
        if let Some(Ok(folder)) = suite.context.reported_folder()
            && let Err(error) = write_reports(folder, &run)
        {
            eprintln!("{}", error_chain(&error));
        }
        if !quiet {
            print_specs(&run);
            print_next(suite, &run, &counts);
        }
    }
    if !quiet {
        let summary = run.summary();
        let injected = if summary.injected { ", INJECTED" } else { "" };
        let left_out = match summary.left_out {
            0 => String::new(),
            count => format!(", {} left out by PARITY_LEVEL", counted(count, "checkpoint")),
        };
        println!("parity: {}{left_out}{}{injected}", counts.line(), not_kept(&summary));
    }
    let ran = conclusion.num_passed + conclusion.num_failed > 0;
    if let Some(problem) = suite.context.refused.as_ref().filter(|_| !ran) {
        // No selected trial can report the wrong setting, so it is reported here.
        eprintln!("parity: {}", clean_lines(problem));
        return ExitCode::from(101);
    }
    if !ran {
        // Cargo passes one filter to every test binary, so an empty selection is a warning, not a failure.
        eprintln!("parity: no test ran and nothing is proven: {}", why_nothing(arguments, conclusion));
    }
    match problem {
        Some(problem) => {
            eprintln!("{problem}");
            ExitCode::from(101)
        }
        None => conclusion.exit_code(),
    }
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Number of trials of this process, per result.
struct Counts {
    passed: usize,
    not_gated: usize,
    approved: usize,
    /// Trials that passed, and whose snapshot does not exist yet.
    new: usize,
    failed: usize,
    ignored: usize,
    declared: usize,
}

impl Counts {
    fn line(&self) -> String {
        let Self { passed, not_gated, approved, new, failed, ignored, declared } = self;
        let new = match new {
            0 => String::new(),
            1 => " + 1 new snapshot".to_owned(),
            count => format!(" + {count} new snapshots"),
        };
        let approved = match approved {
            0 => String::new(),
            count => format!(" + {count} approved by eye"),
        };
        format!(
            "{declared} declared = {passed} passed + {failed} failed + {ignored} ignored + {not_gated} not gated{approved}{new}"
        )
    }

    /// Returns an error message if these counts differ from libtest's. Each trial counts itself, so a lost trial shows.
    fn problem(&self, conclusion: &Conclusion) -> Option<String> {
        let ours = (self.passed + self.not_gated + self.approved + self.new, self.failed);
        let libtest = (size(conclusion.num_passed), size(conclusion.num_failed));
        let adds_up = ours == libtest && self.declared == ours.0 + ours.1 + self.ignored;
        (!adds_up).then(|| {
            format!(
                "the counts do not add up: of {} trials, libtest counted {} passed and {} failed; please report this",
                self.declared, libtest.0, libtest.1
            )
        })
    }
}

/// Returns the results of this process, built from the accounts in memory instead of the run folder.
fn results(suite: &SuiteTrials, lines: Vec<TrialLine>, end: SuiteEnd) -> RunResults {
    let folder = suite.context.reported_folder().and_then(Result::ok);
    let plan = suite.context.plan(folder.unwrap_or(&suite.context.root));
    let data = SuiteData { plan, trials: lines, end: Some(end) };
    RunResults::of(&[data], ExpectedSpecs::Selected, |planned, _| {
        let case = suite.cases.iter().find(|case| case.spec.id == planned.id)?;
        case.account().map(|account| match account {
            Ok(account) => Fate::Ran(Arc::clone(account)),
            Err(problem) => Fate::Failed(problem.clone()),
        })
    })
}

/// Prints the run folder, and what to run next.
fn print_next(suite: &SuiteTrials, run: &RunResults, counts: &Counts) {
    let program = program();
    if let Some(Ok(folder)) = suite.context.reported_folder() {
        println!("parity: everything that was measured: {}", suite.context.shown(folder).display());
    }
    // Where nothing was compared, or nothing diverged, there is nothing to diagnose.
    let is_compared = |account: &Account| account.data.obstacles.is_empty() && account.first_red().is_some();
    let has_divergence =
        run.specs.iter().any(|spec| matches!(&spec.fate, Fate::Ran(account) if is_compared(account)));
    match counts.failed {
        0 => {}
        _ if has_divergence => println!("parity: next: `{program} diagnose`, then `{program} report`"),
        _ => println!("parity: next: do what the failures above name; `{program} report` shows them again"),
    }
    // First things first: a red run has something else to do next.
    if counts.new > 0 && counts.failed == 0 {
        println!("parity: {}; next: `{program} accept`", counted(counts.new, "new snapshot"));
    }
}

fn print_specs(run: &RunResults) {
    for spec in &run.specs {
        if let Fate::Ignored(reason) = &spec.fate {
            println!("{} is ignored: it {reason}", spec.id);
        }
    }
    // libtest has already printed the failures of trials without a spec.
    let specs = RunResults { others: Vec::new(), ..run.clone() };
    print!("{}", run_text(&specs, Detail::Red, true));
    if run.is_stopped() {
        println!("stopped after the selected checkpoints; their later hits were not counted");
    }
}

fn why_nothing(arguments: &Arguments, conclusion: &Conclusion) -> String {
    match (conclusion.num_ignored, &arguments.filter) {
        (0, Some(filter)) if arguments.exact => format!("no trial is named `{}`", clean(filter)),
        (0, Some(filter)) => format!("no trial has `{}` in its name", clean(filter)),
        (0, None) => "no trial was selected".to_owned(),
        (1, _) => "the only selected trial is ignored".to_owned(),
        (selected, _) => format!("all {selected} selected trials are ignored"),
    }
}
