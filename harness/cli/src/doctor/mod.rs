//! `cargo xtask doctor`: checks this machine and checkout, and prints one line per check with the command that fixes it.

mod checkout;
mod machine;
mod packages;
mod variables;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::{CliError, Project, say};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::{clean, json, paint};
use mlx_parity_core::text::program::{program, with_program};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask doctor            one line per check, and what to do about it\n  \
    cargo xtask doctor --json     the same for programs\n\n\
    Doctor changes nothing and downloads nothing.\n\
    Exits with 1 when something is wrong, and with 0 otherwise; warnings do not count.")]
pub(crate) struct Arguments {
    /// Print one JSON object: `checks`, each with `subject`, `state`, `found` and `next`
    #[arg(long)]
    json: bool,
}

/// Whether a check passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    Ok,
    /// It works, but may surprise somebody.
    Warn,
    /// Something will not work.
    Wrong,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorCheck {
    subject: String,
    state: CheckState,
    found: String,
    /// How to fix it.
    next: Option<String>,
}

impl DoctorCheck {
    fn ok(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: CheckState::Ok, found: found.into(), next: None }
    }

    fn warn(subject: impl Into<String>, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { state: CheckState::Warn, next: Some(next.into()), ..Self::ok(subject, found) }
    }

    fn wrong(subject: impl Into<String>, found: impl Into<String>, next: Option<String>) -> Self {
        Self { state: CheckState::Wrong, next, ..Self::ok(subject, found) }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut checks = machine::checks(project);
    checks.extend(packages::checks(project));
    checks.extend(checkout::checks(project));
    checks.extend(variables::blocking_setting(project));
    checks.extend(variables::checks(project, std::env::vars_os()));
    for next in checks.iter_mut().filter_map(|check| check.next.as_mut()) {
        // Advice of other commands names `cargo xtask`.
        *next = with_program(next, program());
    }
    if arguments.json {
        say(&json(&format!("{}\n", serde_json::json!({"version": 1, "checks": checks}))));
    } else {
        say(&text(&checks, true));
    }
    let wrong = checks.iter().any(|check| check.state == CheckState::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(checks: &[DoctorCheck], colour: bool) -> String {
    let width = checks.iter().map(|check| check.subject.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, code) = match check.state {
            CheckState::Ok => ("ok", "32"),
            CheckState::Warn => ("warn", "33"),
            CheckState::Wrong => ("wrong", "1;31"),
        };
        let word = paint(colour, code, &format!("{word:<5}"));
        let _ = writeln!(text, "{word}  {:<width$}  {}", clean(&check.subject), clean(&check.found));
        if let Some(next) = &check.next {
            let _ = writeln!(text, "       {:<width$}  to do: {}", "", clean(next));
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (warned, wrong) = (count(CheckState::Warn), count(CheckState::Wrong));
    let _ =
        writeln!(text, "{}, {}, {wrong} wrong", counted(checks.len(), "check"), counted(warned, "warning"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_what_to_do_another() {
        let checks = [
            DoctorCheck::ok("Rust", "1.95.0"),
            DoctorCheck::warn("disk", "1.0 GB are free", "free some space"),
            DoctorCheck::wrong("fixtures", "1 of 2 sets is stale", Some("run it".into())),
        ];
        let expected = "\
ok     Rust      1.95.0
warn   disk      1.0 GB are free
                 to do: free some space
wrong  fixtures  1 of 2 sets is stale
                 to do: run it
3 checks, 1 warning, 1 wrong
";
        assert_eq!(text(&checks, false), expected);
    }
}
