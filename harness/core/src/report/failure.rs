//! The text of a failing test: which tensor, by how much, how widespread, what next.

use std::fmt::Write as _;

use super::localisation::{cause_text, fact_text, sentence};
use super::words::{headline, multiple};
use crate::compare::{Difference, Stats, Worst};
use crate::gate::Class;
use crate::record::{Image, Record};
use crate::results::{Account, Localisation, TrialOutcome, TrialResult, WEIGHTS};
use crate::text::printable::{clean, indented};

/// Returns the text of a failing or pending trial, and an empty text for any other trial.
///
/// `target` is the test target of the suite; the `rerun` row names it.
pub fn trial_text(account: &Account, trial: &TrialResult, target: &str) -> String {
    let spec = &account.spec;
    let full = format!("{}::{}", spec.id, trial.name);
    let (class, line, more) = match &trial.outcome {
        TrialOutcome::Failed { class, line, more } => (class, line, more),
        TrialOutcome::Pending(line) => {
            let rerun = format!("cargo test --test {target} -- --exact {full}");
            return format!("{full}: pending\n  {:<9}{}\n  {:<9}{rerun}\n", "what", clean(line), "rerun");
        }
        TrialOutcome::Passed | TrialOutcome::NotGated(_) => return String::new(),
    };
    let mut text = format!("{full}: {}\n", headline(*class));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    if let Some(sentence) = sentence(account).filter(|_| spec.checkpoint(&trial.name).is_some()) {
        row("cause", &sentence);
    }
    if let Some(Localisation::Culprit(culprit)) = account.localisation() {
        for cause in culprit.causes.iter().skip(1) {
            row("or", &format!("its output is {}", cause_text(cause)));
        }
        for fact in &culprit.facts {
            row("fact", &format!("`{}`: {}", culprit.name, fact_text(fact)));
        }
        let next = culprit.causes.first().map(|cause| cause.kind.next());
        if let Some(next) = next.or_else(|| culprit.facts.first().map(|fact| fact.kind.next())) {
            row("look at", next);
        }
        // A later stage can be wrong too.
        let own = account.on_golden_inputs().trial(&trial.name).and_then(|trial| trial.record.as_ref());
        for cause in own.iter().flat_map(|record| &record.causes).filter(|_| trial.name != culprit.name) {
            row("here", &format!("on golden inputs, its output is {}", cause_text(cause)));
        }
    }
    match &trial.record {
        Some(record) => tensor_rows(record, *class, line, &mut row),
        None => row("what", line),
    }
    if trial.audit_failed && matches!(class, Class::Finite | Class::Value | Class::Systematic | Class::Range)
    {
        row("weights", &format!("the audit failed: see {}::{WEIGHTS}", spec.id));
    }
    if let Some(path) = &trial.actual {
        row("actual", &path.display().to_string());
    }
    if let Some(path) = &trial.pictures {
        row("pictures", &path.display().to_string());
    }
    if let Some(why) = spec.checkpoint(&trial.name).and_then(|checkpoint| checkpoint.why.as_deref()) {
        row("why", why);
    }
    let inner =
        spec.checkpoint(&trial.name).map(|checkpoint| checkpoint.level).filter(|&level| level > spec.level);
    let level = inner.map(|level| format!("PARITY_LEVEL={level} ")).unwrap_or_default();
    // With one checkpoint selected, the port stops after the last declared hit. Extra hits show only in a full run.
    let what = match class {
        Class::Hits => format!("{}::", spec.id),
        _ => format!("--exact {full}"),
    };
    row("rerun", &format!("{level}cargo test --test {target} -- {what}"));
    if let Some(more) = more {
        let _ = writeln!(text, "\n  {}", indented(more, 2));
    }
    text
}

/// Writes the rows for the tensor of a record: shape, worst element, count outside the gate, and the tap's place.
pub(super) fn tensor_rows(record: &Record, class: Class, line: &str, row: &mut impl FnMut(&str, &str)) {
    if let Some(actual) = &record.actual {
        row("tensor", &format!("{} {:?}", actual.dtype, actual.shape));
    }
    let measured = record.metrics.as_ref().and_then(|metrics| Some((metrics, metrics.difference.as_ref()?)));
    // The value is inside its gate, and the failure is that it does not differ enough.
    let too_near = |difference: &Difference| {
        class == Class::Value
            && difference.mismatched == Some(0)
            && difference.used.is_some_and(|used| used <= 1.0)
    };
    let has_difference = |(_, difference): &(_, &Difference)| {
        matches!(class, Class::Value | Class::Finite) && !too_near(difference)
    };
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
    if let Some(image) = &record.image {
        row("image", &pixels(image));
    }
    if let Some(place) = &record.location {
        row("tap", &format!("{}:{}", place.file, place.line));
    }
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
