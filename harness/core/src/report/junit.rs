//! JUnit XML, which CI systems read: one suite per spec, one case per trial.
//!
//! XML cannot hold most control characters, nor U+FFFE and U+FFFF. Every text therefore passes through
//! [`clean_lines`](crate::text::printable::clean_lines), which replaces them with escapes.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::by_eye::approved_words;
use super::failure::trial_text;
use crate::preflight::DISCOVERY;
use crate::results::{Account, Fate, RunResults, SMOKE, TrialOutcome, TrialResult};
use crate::text::printable::{clean, clean_lines, indented};

/// The run as JUnit XML.
pub(super) fn junit(run: &RunResults) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("parity");
    if run.smoke == Some(true) {
        report.add_test_suite(single(SMOKE, TestCaseStatus::success()));
    }
    if let Some(wrong) = &run.discovery {
        let status = match wrong.join("\n") {
            wrong if wrong.is_empty() => TestCaseStatus::success(),
            wrong => failure("spec", &indented(&wrong, 2)),
        };
        report.add_test_suite(single(DISCOVERY, status));
    }
    for other in &run.others {
        report.add_test_suite(single("parity", failure("spec", &indented(other, 2))));
    }
    for error in &run.broken {
        report.add_test_suite(single(&error.id, failure("spec", &indented(&error.text, 2))));
    }
    for spec in &run.specs {
        match &spec.fate {
            Fate::Ran(account) => {
                let mut suite = TestSuite::new(&*clean(&spec.id));
                suite.add_test_cases(account.selected().map(|trial| case(account, trial, &run.target)));
                report.add_test_suite(suite);
            }
            Fate::Ignored(reason) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(&*clean(reason));
                report.add_test_suite(single(&spec.id, status));
            }
            Fate::Failed(problem) => {
                report.add_test_suite(single(&spec.id, failure("crash", &indented(problem, 2))));
            }
            Fate::NotRun | Fate::NotAsked => {}
        }
    }
    report.to_string()
}

fn single(id: &str, status: TestCaseStatus) -> TestSuite {
    let mut suite = TestSuite::new(&*clean(id));
    let mut case = TestCase::new("spec", status);
    case.set_classname(&*clean(id));
    suite.add_test_case(case);
    suite
}

fn failure(class: &str, text: &str) -> TestCaseStatus {
    let text = &*clean_lines(text);
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(class).set_message(text.lines().next().unwrap_or_default()).set_description(text);
    status
}

fn case(account: &Account, trial: &TrialResult, target: &str) -> TestCase {
    let spec = &account.spec;
    let status = match &trial.outcome {
        TrialOutcome::Passed | TrialOutcome::New(_) => TestCaseStatus::success(),
        // JUnit has no status for this. The reason is printed below, as the output of the case.
        TrialOutcome::Approved(_) => TestCaseStatus::success(),
        TrialOutcome::NotGated(_) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("measured, not gated");
            status
        }
        TrialOutcome::Failed { class, .. } => failure(class.name(), &trial_text(account, trial, target)),
        // JUnit calls this an error: the run is incomplete, and the port has not failed.
        TrialOutcome::Pending(line) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type("pending").set_message(&*clean(line));
            status
        }
    };
    let mut case = TestCase::new(&*clean(&trial.name), status);
    case.set_classname(&*clean(&spec.id));
    if let TrialOutcome::Approved(by_eye) = &trial.outcome {
        case.set_system_out(&*clean(&approved_words(by_eye)));
    }
    // GitLab links the test to this place. Jenkins ignores both.
    if let Some(place) = trial.record.as_ref().and_then(|record| record.location.as_ref()) {
        case.extra.insert("file".into(), clean(&place.file).into_owned().into());
        case.extra.insert("line".into(), place.line.to_string().into());
    }
    // A damaged run folder can hold any number here.
    let seconds = trial.record.as_ref().map(|record| record.millis / 1e3);
    if let Some(time) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        case.set_time(time);
    }
    case
}
