//! JUnit's XML, which CI systems read: a suite a spec, a case a trial.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::collect::{Collected, Fate};
use super::failure::trial_text;
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
                let mut suite = TestSuite::new(spec.id.as_str());
                suite
                    .add_test_cases(account.endings.iter().map(|ending| case(spec, account, ending, target)));
                report.add_test_suite(suite);
            }
            Fate::Ignored(reason) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(reason.as_str());
                report.add_test_suite(single(&spec.id, status));
            }
            Fate::Failed(problem) => {
                report.add_test_suite(single(&spec.id, failure("crash", problem)));
            }
            Fate::NotRun => {}
        }
    }
    report.to_string()
}

fn single(id: &str, status: TestCaseStatus) -> TestSuite {
    let mut suite = TestSuite::new(id);
    suite.add_test_case(TestCase::new("spec", status));
    suite
}

fn failure(class: &str, text: &str) -> TestCaseStatus {
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
    };
    let mut case = TestCase::new(ending.name.as_str(), status);
    case.set_classname(spec.id.as_str());
    if let Some(record) = &ending.record {
        case.set_time(std::time::Duration::from_secs_f64(record.millis.max(0.0) / 1e3));
    }
    case
}
