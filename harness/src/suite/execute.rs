//! Lists or runs a suite, from its arguments to its exit code.

use std::process::ExitCode;

use libtest_mimic::Arguments;

use super::Suite;
use super::conclusion::conclude;
use super::trials::SuiteTrials;

/// Lists or runs the trials that `arguments` select. If `refused` is set, every trial fails with that message.
pub(super) fn run(suite: &Suite, arguments: &Arguments, refused: Option<String>) -> ExitCode {
    if arguments.test_threads == Some(0) {
        // libtest prints the same error. libtest-mimic would wait forever for threads that do not exist.
        eprintln!("error: argument for --test-threads must not be 0");
        return ExitCode::from(101);
    }
    let mut all = SuiteTrials::of(suite, arguments, refused);
    all.select(arguments);
    let trials = std::mem::take(&mut all.trials);
    // Specs run one after the other anyway, because one worker holds the device. With one thread, trials are also printed in
    // their order: the first divergence comes before its consequences.
    let ordered = Arguments { test_threads: arguments.test_threads.or(Some(1)), ..arguments.clone() };
    let conclusion = libtest_mimic::run(&ordered, trials.into_iter().map(|(trial, _)| trial).collect());
    if arguments.list {
        return ExitCode::SUCCESS;
    }
    conclude(&all, arguments, &conclusion)
}
