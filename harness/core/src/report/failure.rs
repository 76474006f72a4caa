//! The text of a failing test: which tensor, by how much, how widespread, what next.

use std::fmt::Write as _;

use super::by_eye::by_eye_text;
use super::columns::percent;
use super::localisation::{cause_text, fact_text, next_of, sentence};
use super::red_spec::{place_rows, source_rows};
use super::rerun::rerun;
use super::words::multiple;
use crate::compare::{Difference, Stats, Worst};
use crate::gate::Class;
use crate::record::{Image, Record, Slots};
use crate::results::{ADAPTERS, Account, Localisation, TrialOutcome, TrialResult, WEIGHTS};
use crate::spec::list::counted;
use crate::text::printable::{clean, indented};
use crate::text::program::program;

/// Returns the text that a failing or pending trial prints as a test, and an empty text for any other trial.
///
/// The first divergence prints the whole text of the first faulty stage, with its cause. The other checkpoints are consequences
/// and print one line. A trial about the spec as a whole prints [`trial_text`], unless it only repeats that the port is wrong.
pub fn test_text(account: &Account, trial: &TrialResult, target: &str) -> String {
    let is_checkpoint = account.spec.checkpoint(&trial.name).is_some();
    let same = |other: Option<&TrialResult>| other.is_some_and(|other| other.name == trial.name);
    let (class, has_output) = match &trial.outcome {
        TrialOutcome::Failed { class, more, .. } => (Some(*class), more.is_some()),
        TrialOutcome::Pending(_) => (None, false),
        _ => return String::new(),
    };
    if !is_checkpoint {
        let repeats = match class {
            // The statistics of a wrong port are wrong, too.
            Some(Class::Stats) => account.is_wrong(),
            Some(Class::Crash) => !has_output,
            _ => false,
        };
        return match repeats {
            true => short_text(account, trial),
            false => block(account, trial, target, SCREEN_LINES, Causes::Left),
        };
    }
    let main = account.main_failure();
    match (same(account.first_red()), main) {
        (true, Some(main)) if !same(Some(main)) => format!(
            "{}\n{}",
            short_text(account, trial),
            block(account, main, target, SCREEN_LINES, Causes::Printed)
        ),
        (true, _) => block(account, trial, target, SCREEN_LINES, Causes::Printed),
        // The output of a crash is printed nowhere else.
        (false, _) if has_output && !same(main) => block(account, trial, target, SCREEN_LINES, Causes::Left),
        (false, _) => short_text(account, trial),
    }
}

/// Whether the text of a trial has the cause of the first faulty stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Causes {
    Printed,
    /// Another test prints it.
    Left,
}

/// What to look at if no gradient reaches a parameter.
const LOST_GRADIENT: &str = "frozen parameters, `stop_gradient`, values that go through the host or through integers, and \
                             the name that the port gives the parameter";

/// A share of a gate in words.
fn share_of_gate(used: f64) -> String {
    let share = percent(used);
    format!("{share}{} its gate", if share.ends_with('x') { "" } else { " of" })
}

/// A failing or pending checkpoint in one line, which names the failure that explains it.
fn short_text(account: &Account, trial: &TrialResult) -> String {
    let id = &account.spec.id;
    let what = match &trial.outcome {
        // The text names the trial that reports why nothing ran.
        TrialOutcome::Failed { class, line, .. } if !account.data.obstacles.is_empty() => {
            return clean(&format!("{id}::{}: {}, {line}", trial.name, class.headline())).into_owned();
        }
        TrialOutcome::Failed { class, line, .. } => {
            let metrics = trial.record.as_ref().and_then(|record| record.metrics.as_ref());
            let used = metrics.and_then(|metrics| metrics.difference.as_ref()?.used);
            let used = used.filter(|_| *class == Class::Value);
            let detail = match used {
                Some(used) => share_of_gate(used),
                None if account.has_changed_stats(trial) => "a consequence".to_owned(),
                None => account.whole_line(line),
            };
            format!("{}, {detail}", class.headline())
        }
        TrialOutcome::Pending(line) => format!("pending, {line}"),
        _ => return String::new(),
    };
    let own = account.local.as_ref().and_then(|local| local.trial(&trial.name));
    let own = own.filter(|own| own.record.is_some());
    let is_crash = matches!(&trial.outcome, TrialOutcome::Failed { class: Class::Crash, .. });
    let is_main = account.main_failure().is_some_and(|main| main.name == trial.name);
    let own = if own.is_some_and(TrialResult::is_failed) && !is_crash && !is_main {
        "; it is wrong on golden inputs, too"
    } else {
        ""
    };
    let see = match (account.main_failure(), account.localisation()) {
        // The text of a crash names the test that reports it.
        _ if is_crash => String::new(),
        (Some(_), Some(Localisation::Culprit(culprit))) if is_main && culprit.name == trial.name => {
            "; this is the first faulty stage".to_owned()
        }
        (Some(main), Some(Localisation::Culprit(culprit))) if culprit.name == main.name => {
            match culprit.class {
                Class::Crash => format!("; the port failed before `{}`", main.name),
                _ => format!("; the first faulty stage is `{}`", main.name),
            }
        }
        (Some(main), _) => format!("; the first divergence is `{}`", main.name),
        (None, _) => String::new(),
    };
    let stale = trial.record.as_ref().and_then(|record| record.by_eye.as_ref()?.stale.as_deref());
    let stale = stale.map(|why| format!("; its approval by eye does not hold: {why}")).unwrap_or_default();
    let line = format!("{id}::{}: {what}{stale}{own}{see}: run `{} diagnose {id}`", trial.name, program());
    clean(&line).into_owned()
}

/// Returns the whole text of a failing or pending trial, and an empty text for any other trial.
///
/// `target` is the test target of the suite; the `rerun` row names it.
pub fn trial_text(account: &Account, trial: &TrialResult, target: &str) -> String {
    block(account, trial, target, usize::MAX, Causes::Printed)
}

/// How many further lines a test prints: a port that changed has a line per statistic.
const SCREEN_LINES: usize = 24;

/// The text of a trial with at most `most` further lines.
fn block(account: &Account, trial: &TrialResult, target: &str, most: usize, causes: Causes) -> String {
    let spec = &account.spec;
    let full = format!("{}::{}", spec.id, trial.name);
    let (class, line, more) = match &trial.outcome {
        TrialOutcome::Failed { class, line, more } => (class, line, more),
        TrialOutcome::Pending(line) => {
            let mut text = format!("{full}: pending\n  {:<9}{}\n", "what", clean(line));
            if let Some(log) = account.data.log() {
                let _ = writeln!(text, "  {:<9}{}", "log", clean(&log.display().to_string()));
            }
            let _ = writeln!(text, "  {:<9}cargo test --test {target} -- --exact {full}", "rerun");
            return text;
        }
        TrialOutcome::Passed
        | TrialOutcome::NotGated(_)
        | TrialOutcome::Approved(_)
        | TrialOutcome::New(_) => return String::new(),
    };
    let mut text = format!("{full}: {}\n", class.headline());
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    };
    let is_checkpoint = spec.checkpoint(&trial.name).is_some();
    let has_causes = is_checkpoint && causes == Causes::Printed;
    if let Some(sentence) = sentence(account).filter(|_| has_causes) {
        row(if *class == Class::Crash { "where" } else { "cause" }, &sentence);
    }
    if let Some(Localisation::Culprit(culprit)) = account.localisation().filter(|_| has_causes) {
        for cause in culprit.causes.iter().skip(1) {
            row("or", &format!("its output is {}", cause_text(cause)));
        }
        for fact in &culprit.facts {
            row("fact", &format!("`{}`: {}", culprit.name, fact_text(fact)));
        }
        if let Some(next) = next_of(&culprit.causes, &culprit.facts) {
            row("look at", next);
        }
        source_rows(account, &mut row);
        place_rows(account, culprit, &mut row);
        // A later stage can be wrong too.
        let own = account.on_golden_inputs().trial(&trial.name).and_then(|trial| trial.record.as_ref());
        for cause in own.iter().flat_map(|record| &record.causes).filter(|_| trial.name != culprit.name) {
            row("here", &format!("on golden inputs, its output is {}", cause_text(cause)));
        }
    }
    match &trial.record {
        Some(record) => tensor_rows(record, *class, line, &mut row),
        None => row("what", &account.whole_line(line)),
    }
    if *class == Class::Gradient {
        row("look at", LOST_GRADIENT);
    }
    if trial.audit_failed && matches!(class, Class::Finite | Class::Value | Class::Systematic | Class::Range)
    {
        let of_weights = account.data.audit().is_some_and(|audit| !audit.is_clean());
        let audit = if of_weights { WEIGHTS } else { ADAPTERS };
        row(audit, &format!("the audit failed: see {}::{audit}", spec.id));
    }
    if let Some(path) = &trial.actual {
        row("actual", &path.display().to_string());
    }
    if let Some(why) = trial.record.as_ref().and_then(|record| record.not_kept.as_deref()) {
        row("actual", &format!("not kept: {why}"));
    }
    if let Some(path) = &trial.pictures {
        row("pictures", &path.display().to_string());
    }
    if let Some(text) = by_eye_text(account, trial) {
        row("by eye", &text);
    }
    if let Some(why) = spec.checkpoint(&trial.name).and_then(|checkpoint| checkpoint.why.as_deref()) {
        row("why", why);
    }
    if let Some(log) = account.data.log() {
        row("log", &log.display().to_string());
    }
    row("rerun", &rerun(account, trial, target));
    // Where nothing was compared, the cause names what to do.
    if is_checkpoint && account.data.obstacles.is_empty() {
        let program = program();
        row("next", &format!("{program} diagnose {}, or {program} report for the whole run", spec.id));
    }
    if let Some(more) = more {
        let lines: Vec<&str> = more.lines().collect();
        let shown = lines.len().min(most);
        let _ = writeln!(text, "\n  {}", indented(&lines[..shown].join("\n"), 2));
        if shown < lines.len() {
            let others = counted(lines.len() - shown, "other line");
            let _ = writeln!(text, "  … and {others}: `{} report --failures` prints them", program());
        }
    }
    text
}

/// Writes the rows for the tensor of a record: shape, worst element, count outside the gate, and the tap's place.
pub(super) fn tensor_rows(record: &Record, class: Class, line: &str, row: &mut impl FnMut(&str, &str)) {
    if let Some(actual) = &record.actual {
        row("tensor", &format!("{} {:?}", actual.dtype, actual.shape));
    }
    if let Some(slots) = &record.slots {
        row("slots", &slots_text(slots));
    }
    let measured = record.metrics.as_ref().and_then(|metrics| Some((metrics, metrics.difference.as_ref()?)));
    // The value is inside its gate, and the failure is that it does not differ enough.
    let too_near = |difference: &Difference| {
        class == Class::Value
            && difference.mismatched == Some(0)
            && difference.used.is_some_and(|used| used <= 1.0)
    };
    let has_difference = |(_, difference): &(_, &Difference)| {
        matches!(class, Class::Value | Class::Finite) && !too_near(difference) && !record.is_of_ids()
    };
    let choices = record.metrics.as_ref().and_then(|metrics| metrics.choices.as_ref());
    if let (Some(_), Class::Value) = (choices, class) {
        row("what", line);
    }
    match measured.filter(has_difference) {
        Some((metrics, difference)) => {
            if let Some(worst) = difference.worst.first() {
                row("worst", &element(worst));
            }
            let outside = difference.mismatched.unwrap_or(difference.nonfinite_mismatched);
            row("outside", &format!("{outside} of {} elements{}", metrics.elements, gate(record)));
            if class == Class::Finite {
                let golden = metrics.expected.as_ref().map_or_else(|| "nothing".to_owned(), nonfinite);
                row("finite", &format!("actual has {}, golden {golden}", nonfinite(&metrics.actual)));
            } else {
                row("overall", &overall(difference));
                if let Some(times) = &difference.times_floor {
                    let (rms, max) = (multiple(times.rms), multiple(times.max));
                    row("floor", &format!("rms {rms}, max {max} the reference's own distance from float64"));
                    if let Some(block) = &record.floor_block {
                        row("local", &local_floor(block, record.injected));
                    }
                }
            }
        }
        None => {
            row("what", line);
            if let (Class::Systematic, Some((_, difference))) = (class, measured) {
                row("overall", &overall(difference));
            }
        }
    }
    for other in choices.iter().flat_map(|choices| &choices.other) {
        row("row", &other.text());
    }
    if let Some(image) = &record.image {
        row("image", &pixels(image));
    }
    if let Some(place) = &record.location {
        row("tap", &format!("{}:{}", place.file, place.line));
    }
}

/// What a floor of one block leaves out, and what to do where this may be the whole difference.
fn local_floor(block: &str, is_injected: bool) -> String {
    let block = clean(block);
    let what = format!("this floor is of block `{block}` alone: errors of earlier blocks are not in it");
    if is_injected {
        return what;
    }
    format!("{what}; judge it on golden inputs: inject the checkpoints before `{block}`")
}

/// How the slots of a cache were matched, and where the worst element is.
fn slots_text(slots: &Slots) -> String {
    let worst = match (slots.worst_position, slots.worst_slot) {
        (Some(position), Some(slot)) => {
            format!("; the worst element is of position {position}, in slot {slot}")
        }
        _ => String::new(),
    };
    format!("axis {} is in the golden's order, by `{}`{worst}", slots.axis, slots.positions)
}

/// One of the worst elements, with its distance if that is finite.
fn element(worst: &Worst) -> String {
    let mut text = format!("{:?}: expected {}, actual {}", worst.index, worst.expected, worst.actual);
    if worst.distance.is_finite() {
        let times = worst.used.map(|used| format!(" ({} the bound)", multiple(used))).unwrap_or_default();
        let _ = write!(text, ", off by {:.2e}{times}", worst.distance);
    }
    text
}

/// The distance between two images: PSNR and the number of differing pixels.
pub(super) fn pixels(image: &Image) -> String {
    format!("PSNR {:.1} dB, {} of {} pixels differ", image.psnr_db, image.mismatched_pixels, image.pixels)
}

/// The difference over all elements.
fn overall(difference: &Difference) -> String {
    format!(
        "rms {:.2e}, mean {:.2e}, cosine {:.6}, range x{:.3}, exact {:.1} %",
        difference.rms,
        difference.mean_abs,
        difference.cosine,
        difference.range_ratio,
        100.0 * difference.exact_fraction
    )
}

/// The numbers of elements that are not finite, e.g. `3 NaN, 1 -inf`.
fn nonfinite(stats: &Stats) -> String {
    let counts = [(stats.nan, "NaN"), (stats.positive_infinity, "inf"), (stats.negative_infinity, "-inf")];
    let found: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

/// The gate as the end of a row; empty without a gate.
fn gate(record: &Record) -> String {
    record.gate.as_ref().map(|gate| format!("; {}", gate.text())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Comparison;
    use crate::gate::{Floor, Gate, Rule};
    use crate::tensor::{Dtype, TensorView};

    fn rows(floor_block: Option<&str>, injected: bool) -> (String, Option<String>) {
        let bytes =
            |off: f32| -> Vec<u8> { [1f32, 2., 3.].iter().flat_map(|x| (x + off).to_le_bytes()).collect() };
        let (expected, actual) = (bytes(0.0), bytes(1e-3));
        let view = |bytes| TensorView::new(Dtype::Float32, &[3], bytes).unwrap();
        let floor = Some(Floor { max: 1e-6, rms: 1e-6 });
        let is_local = floor_block.is_some();
        let rule = Rule { gate: Some(Gate::Noise { k: 8.0 }), floor, is_local, ..Rule::default() };
        let comparison = Comparison::of(&view(&expected), &view(&actual), &rule);
        let detail = comparison.detail.clone();
        let floor_block = floor_block.map(str::to_owned);
        let record = Record { floor_block, injected, ..Record::new("a/b", "x", comparison, true) };
        let mut found = None;
        tensor_rows(&record, Class::Value, &detail, &mut |label: &str, text: &str| {
            if label == "local" {
                found = Some(text.to_owned());
            }
        });
        (detail, found)
    }

    #[test]
    fn a_local_floor_is_named_with_what_to_do_in_a_free_run() {
        let (detail, row) = rows(None, false);
        assert!(detail.contains("x the floor, largest 1") && row.is_none(), "{detail} {row:?}");
        let (detail, row) = rows(Some("layers.3"), false);
        assert!(detail.contains("x the local floor, largest 1"), "{detail}");
        let free = "this floor is of block `layers.3` alone: errors of earlier blocks are not in it; judge it on golden \
                    inputs: inject the checkpoints before `layers.3`";
        assert_eq!(row.as_deref(), Some(free));
        let (_, row) = rows(Some("layers.3"), true);
        assert_eq!(row.as_deref(), free.split_once("; judge").map(|(what, _)| what));
    }
}
