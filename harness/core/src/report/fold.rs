//! Folds the rows of a ladder: the rows around the first divergence stay, long runs of others become one row each.

use std::collections::BTreeMap;

use super::columns::percent;
use crate::results::{TrialOutcome, TrialResult};
use crate::spec::list::counted;
use crate::text::printable::clean;

/// A ladder with at most this many checkpoints is not folded.
const SHORT: usize = 12;
/// How many rows stay before and after the first divergence.
const AROUND: usize = 2;
/// A run of this many rows or fewer stays as it is.
const FEW: usize = 2;
/// A stretch with more runs than this becomes a single row.
const MOST_RUNS: usize = 6;

/// One row of a folded ladder.
pub(super) enum Row<'t> {
    /// A checkpoint.
    Trial(&'t TrialResult),
    /// Several checkpoints in a row.
    Folded(&'t [&'t TrialResult]),
}

/// Returns the rows of a ladder, folded. `marks` are the positions of the rows that stay, with the rows around them.
pub(super) fn folded<'t>(trials: &'t [&'t TrialResult], marks: &[usize]) -> Vec<Row<'t>> {
    if trials.len() <= SHORT {
        return trials.iter().map(|trial| Row::Trial(trial)).collect();
    }
    let stays = |at: usize| marks.iter().any(|&mark| at + AROUND >= mark && at <= mark + AROUND);
    let mut rows = Vec::new();
    let mut at = 0;
    while at < trials.len() {
        let end = (at..trials.len()).find(|&end| stays(end) != stays(at)).unwrap_or(trials.len());
        match stays(at) {
            true => rows.extend(trials[at..end].iter().map(|trial| Row::Trial(trial))),
            false => fold(&trials[at..end], &mut rows),
        }
        at = end;
    }
    rows
}

/// Folds a stretch without marked rows.
fn fold<'t>(stretch: &'t [&'t TrialResult], rows: &mut Vec<Row<'t>>) {
    let runs: Vec<&[&TrialResult]> = stretch.chunk_by(|a, b| a.is_red() == b.is_red()).collect();
    if runs.len() > MOST_RUNS {
        rows.push(Row::Folded(stretch));
        return;
    }
    for run in runs {
        match run.len() <= FEW {
            true => rows.extend(run.iter().map(|trial| Row::Trial(trial))),
            false => rows.push(Row::Folded(run)),
        }
    }
}

/// The words of a folded row: the word in the first column, and the rest.
pub(super) fn folded_words(trials: &[&TrialResult]) -> (&'static str, String) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials {
        *counts.entry(outcome_word(&trial.outcome)).or_default() += 1;
    }
    let (first, last) =
        (trials.first().map(|trial| clean(&trial.name)), trials.last().map(|trial| clean(&trial.name)));
    let mut text = format!(
        "{}, `{}` to `{}`",
        counted(trials.len(), "checkpoint"),
        first.unwrap_or_default(),
        last.unwrap_or_default()
    );
    let only = counts.keys().next().copied().filter(|_| counts.len() == 1);
    if only.is_none() {
        let each: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        text += &format!(": {}", each.join(", "));
    }
    if !trials.iter().any(|trial| trial.is_red())
        && let Some(most) = most_used(trials.iter().copied())
    {
        text += &format!("; {most}");
    }
    (only.unwrap_or("…"), text)
}

/// The largest share of a gate that any of these trials used, and where.
pub(super) fn most_used<'t>(trials: impl Iterator<Item = &'t TrialResult>) -> Option<String> {
    let used = trials.filter_map(|trial| {
        let used = trial.record.as_ref()?.metrics.as_ref()?.difference.as_ref()?.used?;
        Some((used, &trial.name)).filter(|(used, _)| used.is_finite())
    });
    let (used, name) = used.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("at most {} of a gate used, by `{}`", percent(used), clean(name)))
}

/// The outcome of a trial in one word, as the first column of a ladder has it.
pub(super) fn outcome_word(outcome: &TrialOutcome) -> &'static str {
    match outcome {
        TrialOutcome::Passed => "ok",
        TrialOutcome::NotGated(_) => "not gated",
        TrialOutcome::Approved(_) => "by eye",
        TrialOutcome::New(_) => "new",
        TrialOutcome::Failed { class, .. } => class.name(),
        TrialOutcome::Pending(_) => "pending",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Class;

    fn trials(outcomes: &str) -> Vec<TrialResult> {
        let outcome = |c| match c {
            '.' => TrialOutcome::Passed,
            'x' => TrialOutcome::Failed { class: Class::Value, line: String::new(), more: None },
            _ => TrialOutcome::NotGated(None),
        };
        let trial = |(at, c)| TrialResult::without_record(&format!("t{at}"), outcome(c));
        outcomes.chars().enumerate().map(trial).collect()
    }

    /// One character per row of the folded ladder: a digit counts the folded checkpoints, `.`, `x` and `o` are single rows.
    #[track_caller]
    fn check(outcomes: &str, marks: &[usize], expected: &[&str]) {
        let trials = trials(outcomes);
        let trials: Vec<&TrialResult> = trials.iter().collect();
        let rows = folded(&trials, marks);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| match row {
                Row::Trial(trial) => trial.name.clone(),
                Row::Folded(trials) => format!("{:?}", folded_words(trials)),
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_rows_around_the_divergence_stay_and_runs_become_one_row() {
        check(
            &(".".repeat(20) + &"x".repeat(30)),
            &[20],
            &[
                r#"("ok", "18 checkpoints, `t0` to `t17`")"#,
                "t18",
                "t19",
                "t20",
                "t21",
                "t22",
                r#"("value", "27 checkpoints, `t23` to `t49`")"#,
            ],
        );
    }

    #[test]
    fn short_ladders_and_short_runs_stay() {
        check("..x", &[2], &["t0", "t1", "t2"]);
        check(
            "....x.............",
            &[4],
            &["t0", "t1", "t2", "t3", "t4", "t5", "t6", r#"("ok", "11 checkpoints, `t7` to `t17`")"#],
        );
    }

    #[test]
    fn a_stretch_of_many_short_runs_becomes_one_row() {
        check(
            &("x".to_owned() + &".x".repeat(10)),
            &[0],
            &["t0", "t1", "t2", r#"("…", "18 checkpoints, `t3` to `t20`: 9 ok, 9 value")"#],
        );
    }

    #[test]
    fn without_a_divergence_everything_is_folded() {
        check(&".".repeat(40), &[], &[r#"("ok", "40 checkpoints, `t0` to `t39`")"#]);
    }
}
