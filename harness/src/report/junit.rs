//! JUnit's XML, which CI systems read: a suite a spec, a case a trial.
//!
//! XML has no way to write most control characters, nor U+FFFE and U+FFFF: all texts go through
//! [`clean_lines`](crate::printable::clean_lines), which leaves escapes in their place.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::collect::{Collected, Fate};
use super::failure::trial_text;
use crate::printable::{clean, clean_lines, indented};
use crate::run::{Account, DISCOVERY, Ending, Verdict};
use crate::spec::Spec;

/// The run as JUnit XML; `target` is the test target that the suite is.
pub(super) fn junit(run: &Collected, target: &str) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("parity");
    if let Some(wrong) = &run.discovery {
        let status = match wrong.join("\n") {
            wrong if wrong.is_empty() => TestCaseStatus::success(),
            wrong => failure("spec", &wrong),
        };
        report.add_test_suite(single(DISCOVERY, status));
    }
    for error in &run.broken {
        report.add_test_suite(single(&error.id, failure("spec", &error.to_string())));
    }
    for (spec, fate) in &run.specs {
        match fate {
            Fate::Ran(account) => {
                let mut suite = TestSuite::new(&*clean_lines(&spec.id));
                suite
                    .add_test_cases(account.endings.iter().map(|ending| case(spec, account, ending, target)));
                report.add_test_suite(suite);
            }
            Fate::Ignored(reason) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(&*clean_lines(reason));
                report.add_test_suite(single(&spec.id, status));
            }
            Fate::Failed(problem) => {
                report.add_test_suite(single(&spec.id, failure("crash", &indented(problem, 2))));
            }
            Fate::NotRun => {}
        }
    }
    report.to_string()
}

fn single(id: &str, status: TestCaseStatus) -> TestSuite {
    let mut suite = TestSuite::new(&*clean_lines(id));
    suite.add_test_case(TestCase::new("spec", status));
    suite
}

fn failure(class: &str, text: &str) -> TestCaseStatus {
    let text = &*clean_lines(text);
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(class).set_message(text.lines().next().unwrap_or_default()).set_description(text);
    status
}

fn case(spec: &Spec, account: &Account, ending: &Ending, target: &str) -> TestCase {
    let status = match &ending.verdict {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::NotGated(_) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("measured, not gated");
            status
        }
        Verdict::Failed { class, .. } => failure(class.name(), &trial_text(spec, account, ending, target)),
        // An error of the run, in JUnit's words, not a failure of what is tested.
        Verdict::Pending(line) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type("pending").set_message(&*clean(line));
            status
        }
    };
    let mut case = TestCase::new(&*clean_lines(&ending.name), status);
    case.set_classname(&*clean_lines(&spec.id));
    // A run's file may hold any number.
    let seconds = ending.record.as_ref().map(|record| record.millis / 1e3);
    if let Some(time) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        case.set_time(time);
    }
    case
}
