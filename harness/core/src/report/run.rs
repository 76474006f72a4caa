//! A whole run as text: every ladder, and the problems that belong to no spec.

use super::{ladder, localisation_text, trial_text};
use crate::preflight::DISCOVERY;
use crate::results::{Fate, RunResults};
use crate::spec::Inject;
use crate::text::printable::{clean, indented};

/// Returns the problems that belong to no spec, then every ladder, or with `only_red` those of red specs.
pub fn ladders(run: &RunResults, only_red: bool, colour: bool) -> String {
    let mut text = String::new();
    for problem in run.discovery.iter().flatten() {
        text.push_str(&format!("{DISCOVERY}  {}\n\n", indented(problem, 2)));
    }
    for broken in &run.broken {
        text.push_str(&format!("  {}\n\n", indented(&broken.text, 2)));
    }
    for other in &run.others {
        text.push_str(&format!("{}\n\n", indented(other, 2)));
    }
    for spec in &run.specs {
        let id = clean(&spec.id);
        match &spec.fate {
            Fate::Ran(account) => {
                let localised = account.data.inject() == Inject::All;
                if only_red && !account.is_red() && !localised {
                    continue;
                }
                text.push_str(&ladder(account, colour));
                if let Some(found) = account.localisation() {
                    text.push_str(&localisation_text(found, account.on_golden_inputs()));
                }
            }
            Fate::Ignored(reason) => text.push_str(&format!("{id}  ignored: it {}\n", clean(reason))),
            Fate::Failed(problem) => text.push_str(&format!("{id}  {}\n", indented(problem, 2))),
            Fate::NotRun => text.push_str(&format!("{id}  was not run\n")),
            Fate::NotAsked => continue,
        }
        text.push('\n');
    }
    for target in &run.unended {
        text.push_str(&format!(
            "the suite `{}` has not ended: it is still running or was killed\n\n",
            clean(target)
        ));
    }
    text
}

/// Returns the text of every failing or pending trial, one after the other.
pub fn failures(run: &RunResults) -> String {
    let mut text = String::new();
    for account in run.accounts() {
        for trial in &account.trials {
            let failure = trial_text(account, trial, &run.target);
            if !failure.is_empty() {
                text.push_str(&format!(
                    "---- {}::{} ----\n{failure}\n",
                    clean(&account.spec.id),
                    clean(&trial.name)
                ));
            }
        }
    }
    text
}

/// Returns one line per distinct environment that the specs ran in.
pub fn environments(run: &RunResults) -> Vec<String> {
    let environments = run.accounts().filter_map(|account| account.data.environment());
    let mut lines: Vec<String> =
        environments.map(|environment| clean(&environment.to_string()).into_owned()).collect();
    lines.sort();
    lines.dedup();
    lines
}
