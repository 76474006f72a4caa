//! What a failing test says: which tensor, by how much, how widespread, what next.

use std::fmt::Write as _;

use super::finding::{cause_text, fact_text, sentence};
use crate::Class;
use crate::compare::{Difference, Gate, Stats, Worst};
use crate::printable::{clean, clean_lines};
use crate::record::{Image, Record};
use crate::run::{Account, Ending, Finding, Verdict, WEIGHTS};
use crate::spec::Spec;

/// The text of a failing trial of `spec`, of which `account` tells and whose suite is the test target `target`; empty for
/// one that did not fail and is not pending.
pub(crate) fn trial_text(spec: &Spec, account: &Account, ending: &Ending, target: &str) -> String {
    let full = format!("{}::{}", spec.id, ending.name);
    let (class, line, more) = match &ending.verdict {
        Verdict::Failed { class, line, more } => (class, line, more),
        Verdict::Pending(line) => {
            let rerun = format!("cargo test --test {target} -- --exact {full}");
            return format!("{full}: pending\n  {:<9}{}\n  {:<9}{rerun}\n", "what", clean(line), "rerun");
        }
        Verdict::Passed | Verdict::NotGated(_) => return String::new(),
    };
    let mut text = format!("{full}: {}\n", headline(*class));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    if let Some(sentence) = sentence(spec, account).filter(|_| spec.checkpoint(&ending.name).is_some()) {
        row("cause", &sentence);
    }
    if let Some(Finding::Culprit(culprit)) = account.finding(spec) {
        for cause in culprit.causes.iter().skip(1) {
            row("or", &format!("its output is {}", cause_text(cause)));
        }
        for fact in &culprit.facts {
            row("fact", &format!("of `{}`: {}", culprit.name, fact_text(fact)));
        }
        let next = culprit.causes.first().map(|cause| cause.kind.next());
        if let Some(next) = next.or_else(|| culprit.facts.first().map(|fact| fact.kind.next())) {
            row("look at", next);
        }
        // A later stage may be faulty, too.
        let own = account.on_golden_inputs().ending(&ending.name).and_then(|ending| ending.record.as_ref());
        for cause in own.iter().flat_map(|record| &record.causes).filter(|_| ending.name != culprit.name) {
            row("here", &format!("on golden inputs it is {}", cause_text(cause)));
        }
    }
    match &ending.record {
        Some(record) => tensor_rows(record, *class, line, &mut row),
        None => row("what", line),
    }
    if ending.audit_failed && matches!(class, Class::Finite | Class::Value | Class::Range) {
        row("weights", &format!("the audit failed: see {}::{WEIGHTS}", spec.id));
    }
    if let Some(path) = &ending.actual {
        row("actual", &path.display().to_string());
    }
    if let Some(path) = &ending.pictures {
        row("pictures", &path.display().to_string());
    }
    if let Some(why) = spec.checkpoint(&ending.name).and_then(|checkpoint| checkpoint.why.as_deref()) {
        row("why", why);
    }
    let inner =
        spec.checkpoint(&ending.name).map(|checkpoint| checkpoint.level).filter(|&level| level > spec.level);
    let level = inner.map(|level| format!("PARITY_LEVEL={level} ")).unwrap_or_default();
    // Alone, a checkpoint is left after its last declared hit: further ones show only when the port runs on.
    let what = match class {
        Class::Hits => format!("{}::", spec.id),
        _ => format!("--exact {full}"),
    };
    row("rerun", &format!("{level}cargo test --test {target} -- {what}"));
    if let Some(more) = more {
        let _ = writeln!(text, "\n{}", clean_lines(more));
    }
    text
}

/// A failure's class in a few words.
pub(super) fn headline(class: Class) -> &'static str {
    match class {
        Class::Spec => "the spec cannot be used",
        Class::Missing => "the golden is missing",
        Class::Stale => "the golden is stale",
        Class::Corrupt => "the fixtures cannot be trusted",
        Class::Crash => "crash",
        Class::Unreached => "never reached",
        Class::Hits => "wrong number of hits",
        Class::Shape => "shape differs",
        Class::Dtype => "dtype differs",
        Class::Finite => "NaN or infinity differs",
        Class::Untestable => "untestable",
        Class::Value => "value differs",
        Class::Range => "out of range",
        Class::Unused => "an input is never used",
        Class::Random => "drawn at random",
        Class::Weights => "weights differ",
        Class::Stats => "statistics are not as accepted",
    }
}

/// What a record says of its tensor, a labelled row at a time.
pub(super) fn tensor_rows(record: &Record, class: Class, line: &str, row: &mut impl FnMut(&str, &str)) {
    if let Some(actual) = &record.actual {
        row("tensor", &format!("{} {:?}", actual.dtype, actual.shape));
    }
    let measured = record.metrics.as_ref().and_then(|metrics| Some((metrics, metrics.difference.as_ref()?)));
    // Inside its gate and red all the same: it had to differ.
    let too_near = |difference: &Difference| {
        class == Class::Value
            && difference.mismatched == Some(0)
            && difference.used.is_some_and(|used| used <= 1.0)
    };
    let told = |(_, difference): &(_, &Difference)| {
        matches!(class, Class::Value | Class::Finite) && !too_near(difference)
    };
    match measured.filter(told) {
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
        None => row("what", line),
    }
    if let Some(image) = &record.image {
        row("image", &pixels(image));
    }
    if let Some(place) = &record.location {
        row("tap", &format!("{}:{}", place.file, place.line));
    }
}

/// One of the worst elements, with its distance where there is one.
fn element(worst: &Worst) -> String {
    let mut text = format!("{:?}: expected {}, actual {}", worst.index, worst.expected, worst.actual);
    if worst.distance.is_finite() {
        let times = worst.used.map(|used| format!(" ({} the bound)", multiple(used))).unwrap_or_default();
        let _ = write!(text, ", off by {:.2e}{times}", worst.distance);
    }
    text
}

/// How far pixels are apart.
pub(super) fn pixels(image: &Image) -> String {
    format!("PSNR {:.1} dB, {} of {} pixels differ", image.psnr_db, image.mismatched_pixels, image.pixels)
}

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

/// The gate as the spec has it.
fn gate(record: &Record) -> String {
    record.gate.as_ref().map(|gate| format!("; {}", gate_text(gate))).unwrap_or_default()
}

/// A gate with its numbers: ``policy `fp32` (atol 1e-5, rtol 1e-5)``, `atol 1e-6, rtol 0e0`, `noise 8`.
pub(crate) fn gate_text(gate: &Gate) -> String {
    match gate {
        Gate::Tolerance { rtol, atol, policy: Some(policy) } => {
            format!("policy `{policy}` (atol {atol:e}, rtol {rtol:e})")
        }
        Gate::Tolerance { rtol, atol, policy: None } => format!("atol {atol:e}, rtol {rtol:e}"),
        Gate::Noise { k } => format!("noise {k}"),
    }
}

/// A multiple that stays short whether it is 0.02 or 400000.
pub(crate) fn multiple(value: f64) -> String {
    match value {
        value if !value.is_finite() => format!("{value}x"),
        value if value >= 9999.5 => format!("{value:.1e}x"),
        value if value >= 99.95 => format!("{value:.0}x"),
        value if value >= 9.995 => format!("{value:.1}x"),
        value => format!("{value:.2}x"),
    }
}
