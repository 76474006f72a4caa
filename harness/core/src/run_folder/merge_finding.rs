//! Why a merged run proves less than one whole run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spec::list::counted;
use crate::text::printable::clean;

/// How many names a finding lists; the rest is counted.
const SHOWN: usize = 6;

/// One reason why a merged run proves less than one whole run. Prints itself as one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeFinding {
    /// Only one run was given.
    OnlyOne {
        /// The run.
        run: String,
    },
    /// The names of the runs are numbered, and some numbers are missing.
    Missing {
        /// The names that the missing runs would have.
        runs: Vec<String>,
    },
    /// A run cannot be read.
    Unreadable {
        /// The run.
        run: String,
        /// The cause.
        why: String,
    },
    /// A debug session was given in place of a run.
    Session {
        /// The session.
        run: String,
    },
    /// A merged run was given in place of its parts.
    Nested {
        /// The run.
        run: String,
    },
    /// A run was given twice.
    Twice {
        /// The run.
        run: String,
        /// Its first name.
        first: String,
    },
    /// A run judged no trial.
    Empty {
        /// The run.
        run: String,
        /// Why it judged none, as far as its settings show.
        selected: String,
    },
    /// A process still works in the folder of a run.
    Running {
        /// The run.
        run: String,
    },
    /// A suite of a run did not end: its job was killed.
    Unended {
        /// The run.
        run: String,
        /// The test target.
        target: String,
    },
    /// A suite ran no trial, or found that its own counts do not add up.
    Suite {
        /// The run.
        run: String,
        /// What the suite reported.
        why: String,
    },
    /// The runs differ in a setting, a version or a commit.
    Differs {
        /// What differs.
        what: String,
        /// Each value, with the runs that have it.
        values: Vec<(String, Vec<String>)>,
    },
    /// Files that git tracks differed from the commit.
    Dirty {
        /// The runs.
        runs: Vec<String>,
    },
    /// The runs had different texts of some specs.
    Digest {
        /// The specs.
        specs: Vec<String>,
        /// The runs, grouped by the text that they had.
        runs: Vec<Vec<String>>,
    },
    /// No run judged some trials.
    Hole {
        /// The spec; `None` for the trials that belong to no spec.
        spec: Option<String>,
        /// The trials.
        trials: Vec<String>,
        /// How many trials the spec has.
        of: usize,
        /// The runs that could not run the spec, each with the reason.
        unmet: Vec<(String, String)>,
    },
    /// Several runs judged the same trials.
    Duplicate {
        /// The spec.
        spec: String,
        /// The runs.
        runs: Vec<String>,
        /// The trials.
        trials: Vec<String>,
        /// How many trials the spec has.
        of: usize,
        /// The trials that ended differently.
        differ: Vec<Disagreement>,
    },
    /// A spec ran in several runs, and its checkpoints ended differently.
    Disagree {
        /// The spec.
        spec: String,
        /// The checkpoints.
        trials: Vec<Disagreement>,
    },
}

/// A trial that ended differently in several runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The trial.
    pub trial: String,
    /// Each run, with how the trial ended there.
    pub ended: Vec<(String, String)>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended: Vec<String> =
            self.ended.iter().map(|(run, how)| format!("{how} in `{}`", clean(run))).collect();
        write!(f, "`{}` {}", clean(&self.trial), ended.join(", "))
    }
}

impl fmt::Display for MergeFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("merge: ")?;
        match self {
            Self::OnlyOne { run } => {
                write!(f, "only one run was given, `{}`; give every part of the suite", clean(run))
            }
            Self::Missing { runs } => {
                let noun = if runs.len() == 1 { "is" } else { "are" };
                write!(
                    f,
                    "by the names of the runs, {} {noun} missing; see whether its job ran",
                    list(runs, "other")
                )
            }
            Self::Unreadable { run, why } => write!(f, "`{}` cannot be read: {}", clean(run), clean(why)),
            Self::Session { run } => {
                write!(f, "`{}` is a debug session, which judges nothing; give a run instead", clean(run))
            }
            Self::Nested { run } => {
                write!(f, "`{}` is a merged run; give the runs that it was made from", clean(run))
            }
            Self::Twice { run, first } => {
                write!(f, "`{}` is the same run as `{}`; it counts once", clean(run), clean(first))
            }
            Self::Empty { run, selected } => {
                write!(f, "`{}` judged no trial ({})", clean(run), clean(selected))
            }
            Self::Running { run } => {
                write!(f, "`{}` is still running; merge it after its end", clean(run))
            }
            Self::Unended { run, target } => write!(
                f,
                "`{}` did not end: its suite `{}` was killed; run this job again",
                clean(run),
                clean(target)
            ),
            Self::Suite { run, why } => write!(f, "`{}` cannot be trusted: {}", clean(run), clean(why)),
            Self::Differs { what, values } => {
                let values: Vec<String> = values
                    .iter()
                    .map(|(value, runs)| format!("{} in {}", clean(value), list(runs, "other run")))
                    .collect();
                write!(f, "{} differs: {}", clean(what), values.join("; "))
            }
            Self::Dirty { runs } => write!(
                f,
                "tracked files differed from the commit in {}, so the runs may not have tested the same code",
                list(runs, "other run")
            ),
            Self::Digest { specs, runs } => {
                let runs: Vec<String> = runs.iter().map(|runs| list(runs, "other run")).collect();
                let verb = if specs.len() == 1 { "is" } else { "are" };
                write!(f, "{} {verb} not the same in {}", list(specs, "other spec"), runs.join(" and in "))
            }
            Self::Hole { spec, trials, of, unmet } => hole(f, spec.as_deref(), trials, *of, unmet),
            Self::Duplicate { spec, runs, trials, of, differ } => {
                write!(f, "{} judged {}", list(runs, "other run"), part(spec, trials, *of))?;
                match differ.is_empty() {
                    true => f.write_str("; they agree, but each trial belongs to one run"),
                    false => write!(f, "; they disagree: {}", disagreements(differ)),
                }
            }
            Self::Disagree { spec, trials } => {
                write!(f, "the runs of `{}` disagree: {}", clean(spec), disagreements(trials))
            }
        }
    }
}

fn hole(
    f: &mut fmt::Formatter<'_>,
    spec: Option<&str>,
    trials: &[String],
    of: usize,
    unmet: &[(String, String)],
) -> fmt::Result {
    match spec {
        None => {
            write!(f, "no run judged {}; give one job the filter `parity::`", list(trials, "other trial"))?
        }
        Some(spec) => write!(f, "no run judged {}", part(spec, trials, of))?,
    }
    for (run, reason) in unmet {
        write!(f, "; `{}` ignored the spec, because it {}", clean(run), clean(reason))?;
    }
    Ok(())
}

/// Prints `` `a/b` (12 trials) ``, or `` 2 of 12 trials of `a/b` (`norm`, `out`) ``.
fn part(spec: &str, trials: &[String], of: usize) -> String {
    let spec = clean(spec);
    match trials.len() == of {
        true => format!("`{spec}` ({})", counted(of, "trial")),
        false => {
            format!("{} of {} of `{spec}` ({})", trials.len(), counted(of, "trial"), list(trials, "other"))
        }
    }
}

fn disagreements(differ: &[Disagreement]) -> String {
    let shown: Vec<String> = differ.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = differ.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!("; and {}", counted(more, "other trial")) };
    shown.join("; ") + &more
}

/// Prints `` `a`, `b` and 2 others ``.
fn list(names: &[String], noun: &str) -> String {
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", clean(name))).collect();
    let last = match names.len() - shown.len() {
        0 => shown.pop().unwrap_or_default(),
        more => counted(more, noun),
    };
    match shown.is_empty() {
        true => last,
        false => format!("{} and {last}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("t{at}")).collect()
    }

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(list(&names(1), "other"), "`t0`");
        assert_eq!(list(&names(3), "other"), "`t0`, `t1` and `t2`");
        assert_eq!(list(&names(8), "other"), "`t0`, `t1`, `t2`, `t3`, `t4`, `t5` and 2 others");
    }

    #[test]
    fn a_missing_spec_is_one_line_and_a_part_names_its_trials() {
        let hole = |trials: usize| MergeFinding::Hole {
            spec: Some("a/b".into()),
            trials: names(trials),
            of: 9,
            unmet: Vec::new(),
        };
        assert_eq!(hole(9).to_string(), "merge: no run judged `a/b` (9 trials)");
        assert_eq!(hole(2).to_string(), "merge: no run judged 2 of 9 trials of `a/b` (`t0` and `t1`)");
    }
}
