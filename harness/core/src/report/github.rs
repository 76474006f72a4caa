//! A run as GitHub Actions shows it: annotations at lines of source, and a summary of the step in Markdown.

use std::fmt::Write as _;

use super::by_eye::approved_words;
use super::localisation::sentence;
use super::{Rows, environments, ladder, localisation_text, summary_line};
use crate::results::{Account, Localisation, RunResults, TrialOutcome, TrialResult};
use crate::text::printable::{clean, clean_lines, indented};

/// How many annotations are printed. GitHub shows ten errors per step.
const MOST: usize = 10;
/// The largest summary in bytes. GitHub refuses a summary above 1 MiB.
const MOST_BYTES: usize = 900 << 10;

/// Returns one line per annotation: of each red spec the first faulty stage, or else the first failure, at the line of its
/// tap; then trials without a tap, and problems that belong to no spec.
///
/// `file` turns the file of a tap into a path from the top of the repository, or into nothing if the file is not inside.
pub fn annotations(run: &RunResults, file: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for account in run.accounts().filter(|account| account.is_red()) {
        let Some(trial) = first_to_look_at(account) else { continue };
        let message = sentence(account).unwrap_or_else(|| match &trial.outcome {
            TrialOutcome::Failed { line, .. } | TrialOutcome::Pending(line) => line.clone(),
            _ => String::new(),
        });
        let what = match &trial.outcome {
            TrialOutcome::Failed { class, .. } => class.headline(),
            _ => "pending",
        };
        let title = format!("{}::{}: {what}", account.spec.id, trial.name);
        let place = trial.record.as_ref().and_then(|record| record.location.as_ref());
        let place = place.and_then(|place| Some((file(&place.file)?, place.line)));
        found.push(error(place, &title, &message));
    }
    for broken in &run.broken {
        found.push(error(None, &format!("spec {}", broken.id), &broken.text));
    }
    for other in run.discovery.iter().flatten().chain(&run.others) {
        found.push(error(None, "parity", other));
    }
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(format!(
            "::notice title=parity::{more} more problems are in the summary and in report.html"
        ));
    }
    found
}

/// What an injected run does not prove, with the specs that it is about unless these are all.
fn injected(run: &RunResults) -> String {
    let (with, without): (Vec<_>, Vec<_>) =
        run.accounts().partition(|account| account.data.inject().any(&account.spec));
    if without.is_empty() {
        return "ports continued with goldens, so this run proves nothing about whole ports.".to_owned();
    }
    let ids: Vec<String> =
        with.iter().map(|account| format!("<code>{}</code>", escaped(&clean(&account.spec.id)))).collect();
    format!(
        "in {}, the port continued with goldens, so there only the single stages are proven.",
        ids.join(", ")
    )
}

/// The trial that explains a red spec best: the first faulty stage, the first failure, or the first trial that is pending.
fn first_to_look_at(account: &Account) -> Option<&TrialResult> {
    let failed = |trial: &&TrialResult| trial.is_failed();
    let pending = |trial: &&TrialResult| matches!(trial.outcome, TrialOutcome::Pending(_));
    let faulty = match account.localisation() {
        Some(Localisation::Culprit(culprit)) => account.trial(&culprit.name),
        _ => None,
    };
    faulty.or_else(|| account.selected().find(failed)).or_else(|| account.selected().find(pending))
}

fn error(place: Option<(String, u32)>, title: &str, message: &str) -> String {
    let place =
        place.map(|(file, line)| format!("file={},line={line},", property(&file))).unwrap_or_default();
    format!("::error {place}title={}::{}", property(&clean(title)), data(&clean_lines(message)))
}

/// The text of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the run as Markdown: the verdict, the causes, and every ladder in a folded section.
pub fn step_summary(run: &RunResults) -> String {
    let summary = run.summary();
    let mark = match summary.failed {
        0 if summary.pending + summary.not_run == 0 => "✅",
        0 => "⏳",
        _ => "❌",
    };
    let mut text = format!("### {mark} parity: {}\n\n", escaped(&summary_line(&summary)));
    if summary.injected {
        let _ = writeln!(text, "> **INJECTED**: {}\n", injected(run));
    }
    for account in run.accounts() {
        if let Some(sentence) = sentence(account) {
            let _ = writeln!(
                text,
                "- <code>{}</code>: {}",
                escaped(&clean(&account.spec.id)),
                escaped(&clean(&sentence))
            );
        }
    }
    for account in run.accounts() {
        for trial in account.selected() {
            if let TrialOutcome::Approved(by_eye) = &trial.outcome {
                let name = format!("{}::{}", account.spec.id, trial.name);
                let _ = writeln!(
                    text,
                    "- 👁 <code>{}</code>: {}",
                    escaped(&clean(&name)),
                    escaped(&clean(&approved_words(by_eye)))
                );
            }
        }
    }
    for problem in
        run.discovery.iter().flatten().chain(run.broken.iter().map(|broken| &broken.text)).chain(&run.others)
    {
        let _ = writeln!(text, "\n<pre>{}</pre>", escaped(&indented(problem, 2)));
    }
    for line in environments(run) {
        let _ = writeln!(text, "\n{}", escaped(&line));
    }
    text.push('\n');
    let mut left_out = 0;
    // Red ladders come first, so that a long green one cannot displace them.
    let (red, green): (Vec<_>, Vec<_>) = run.accounts().partition(|account| account.is_red());
    for account in red.into_iter().chain(green) {
        let section = section(account);
        if text.len() + section.len() > MOST_BYTES {
            left_out += 1;
        } else {
            text.push_str(&section);
        }
    }
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} ladders do not fit; see report.html.");
    }
    text
}

fn section(account: &Account) -> String {
    let failed = account.selected().filter(|trial| trial.is_failed()).count();
    let count = account.selected().count();
    let (mark, counts) = match failed {
        0 if !account.is_red() => ("✅", format!("{count} trials")),
        0 => ("⏳", format!("{count} trials, some pending")),
        _ => ("❌", format!("{failed} of {count} trials failed")),
    };
    let mut ladder = ladder(account, Rows::All, false);
    if let Some(found) = account.localisation() {
        ladder.push_str(&localisation_text(found, account.on_golden_inputs()));
    }
    format!(
        "<details><summary>{mark} <code>{}</code>: {counts}</summary>\n\n<pre>{}</pre>\n\n</details>\n",
        escaped(&account.spec.id),
        escaped(&ladder)
    )
}

/// `text` as HTML text, which Markdown does not interpret either.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in clean_lines(text).chars() {
        match c {
            '&' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '|' | '#' | '~' | '@' => {
                let _ = write!(escaped, "&#{};", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_can_end_a_command_or_start_another() {
        let line = error(Some(("a,b:c.rs".into(), 3)), "x::y", "50 %\n::error::forged");
        assert_eq!(line, "::error file=a%2Cb%3Ac.rs,line=3,title=x%3A%3Ay::50 %25%0A::error::forged");
    }

    #[test]
    fn a_text_is_neither_markdown_nor_html() {
        assert_eq!(escaped("</pre>*a*#"), "&#60;/pre&#62;&#42;a&#42;&#35;");
    }
}
