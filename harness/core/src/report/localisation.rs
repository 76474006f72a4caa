//! The first faulty stage of a port, in words.

use std::fmt::Write as _;

use super::words::{headline, multiple};
use crate::diagnose::{Cause, Fact};
use crate::gate::{Class, Phase};
use crate::results::{Account, Closer, Culprit, FIXTURE, Localisation, TrialOutcome, WEIGHTS};
use crate::spec::{Spec, list::counted};
use crate::text::printable::clean;
use crate::text::program::program;

/// How many names a list shows; it counts the rest.
const SHOWN: usize = 4;

/// The result of a red run in one sentence: the first faulty stage, and how its output differs.
///
/// `None` without a faulty stage or drift. A failed weight audit and drawn random numbers come first in the sentence, because
/// they make the values meaningless.
pub(super) fn sentence(account: &Account) -> Option<String> {
    let text = match account.localisation()? {
        Localisation::Right | Localisation::Unknown(_) => return None,
        Localisation::Drift(growths) => {
            let most =
                growths.first().map(|growth| format!(", most from `{}` to `{}`", growth.after, growth.name));
            format!("no single stage is wrong: the error accumulates{}", most.unwrap_or_default())
        }
        Localisation::Culprit(culprit) => {
            let name = culprit.name.as_str();
            let what = match culprit.causes.first() {
                Some(cause) => format!("its output is {}", cause_text(cause)),
                None if culprit.class == Class::Unreached => {
                    never_reached(culprit, |name| format!("`{name}`"))
                }
                None if culprit.class.phase() >= Phase::Form => {
                    format!("{}, and no known cause explains it", headline(culprit.class))
                }
                None => headline(culprit.class).to_owned(),
            };
            let place = place(account.on_golden_inputs(), name);
            format!("the first faulty stage is `{name}`{place}; {what}")
        }
    };
    Some(look_first(account).map(|first| format!("{first}; ")).unwrap_or_default() + &text)
}

/// The trials to look at before any cause: with wrong weights or random numbers the values mean little.
fn look_first(account: &Account) -> Option<String> {
    let failed = |name: &str| {
        account.trial(name).is_some_and(|trial| matches!(trial.outcome, TrialOutcome::Failed { .. }))
    };
    let audited = account.data.audit().is_some_and(|audit| !audit.is_clean()) && failed(WEIGHTS);
    let drew = account.data.drew() && failed(FIXTURE);
    let why =
        [(audited, WEIGHTS, "the weight audit failed"), (drew, FIXTURE, "the port drew random numbers")];
    let why: Vec<String> = why
        .into_iter()
        .filter(|(holds, ..)| *holds)
        .map(|(_, trial, why)| format!("see {}::{trial} first: {why}", account.spec.id))
        .collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// States that a stage was never reached, and between which taps the spec declares it.
fn never_reached(culprit: &Culprit, shown: impl Fn(&str) -> String) -> String {
    match (&culprit.after, &culprit.before) {
        (Some(after), Some(before)) => {
            format!("it is declared between {} and {} and was never reached", shown(after), shown(before))
        }
        (None, Some(before)) => format!("it is declared before {} and was never reached", shown(before)),
        _ => "never reached".to_owned(),
    }
}

/// A cause, the line of the reference that it is about, the share of the error that reversing it removes, and the sample
/// size if only a sample was measured.
pub(super) fn cause_text(cause: &Cause) -> String {
    let mut text = cause.words();
    let _ = write!(text, " (reversing this removes {} of the error)", removed(cause.residual.part));
    if let Some(sampled) = cause.sampled {
        let _ = write!(text, ", measured on {sampled} elements");
    }
    text
}

/// A fact, with the sample size if only a sample was measured.
pub(super) fn fact_text(fact: &Fact) -> String {
    let sampled = fact.sampled.map(|sampled| format!(", measured on {sampled} elements"));
    fact.text.clone() + &sampled.unwrap_or_default()
}

/// Writes the causes and facts of one tensor as rows, then where to look next. `what` begins each cause.
pub(super) fn cause_rows(causes: &[Cause], facts: &[Fact], what: &str, row: &mut impl FnMut(&str, &str)) {
    let mut label = "cause";
    for cause in causes {
        row(label, &format!("{what}{}", cause_text(cause)));
        label = "or";
    }
    for fact in facts {
        row("fact", &fact_text(fact));
    }
    let next = causes.first().map(|cause| cause.kind.next());
    if let Some(next) = next.or_else(|| facts.first().map(|fact| fact.kind.next())) {
        row("look at", next);
    }
}

/// The share of the error that is removed when the share `left` remains.
fn removed(left: f64) -> String {
    match 100.0 * left {
        0.0 => "all".to_owned(),
        percent if percent < 0.01 => "more than 99.99 %".to_owned(),
        percent => format!("{:.2} %", 100.0 - percent),
    }
}

/// The place of a tap in the port's source, in brackets.
fn place(account: &Account, name: &str) -> String {
    let location = account.trial(name).and_then(|trial| trial.record.as_ref()?.location.as_ref());
    location.map(|place| format!(" ({}:{})", place.file, place.line)).unwrap_or_default()
}

/// Returns the first faulty stage as text, or why none is known; `local` is the run with every golden injected.
pub fn localisation_text(found: &Localisation, local: &Account) -> String {
    let spec = &local.spec;
    match found {
        Localisation::Right => {
            let program = program();
            format!(
                "every stage is right on golden inputs; to check the port without injection, run `{program} parity`\n"
            )
        }
        Localisation::Unknown(trial) => {
            format!("no stage could be judged on golden inputs; see `{}::{trial}`\n", spec.id)
        }
        Localisation::Drift(growths) => {
            let mut text = "drift: no stage is wrong on golden inputs; the error accumulates\n".to_owned();
            for growth in growths {
                let factor = multiple(growth.factor);
                let _ = writeln!(text, "  grows    {factor} from `{}` to `{}`", growth.after, growth.name);
            }
            text
        }
        Localisation::Culprit(culprit) => culprit_text(spec, culprit, local),
    }
}

fn culprit_text(spec: &Spec, culprit: &Culprit, local: &Account) -> String {
    let name = culprit.name.as_str();
    let mut text =
        format!("first faulty stage: `{name}` is wrong on golden inputs: {}\n", headline(culprit.class));
    let _ = writeln!(text, "  between  {}", clean(&between_text(culprit, local)));
    if culprit.before.is_some() && culprit.class == Class::Unreached {
        let _ = writeln!(text, "  cause    `{}` is declared between them and was never reached", clean(name));
    }
    cause_rows(&culprit.causes, &culprit.facts, "its output is ", &mut |label, value| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    });
    let _ = writeln!(text, "  closer   {}", clean(&closer_text(spec, culprit)));
    if let Some(also) = also_red(culprit) {
        let _ = writeln!(text, "  also red {}", clean(&also));
    }
    text
}

/// The taps before and at the first faulty stage, each with its place; `local` is the run with every golden injected.
pub(super) fn between_text(culprit: &Culprit, local: &Account) -> String {
    let shown = |name: &str| format!("`{name}`{}", place(local, name));
    let from = culprit.after.as_deref().map_or("the inputs".to_owned(), shown);
    // A stage that was never reached lies between two that were.
    format!("{from} and {}", shown(culprit.before.as_deref().unwrap_or(&culprit.name)))
}

/// How to narrow down the place between the first faulty stage and the tap before it.
pub(super) fn closer_text(spec: &Spec, culprit: &Culprit) -> String {
    let id = &spec.id;
    match &culprit.closer {
        Closer::Unreached(names) => {
            let (are, were) = if names.len() == 1 { ("is", "was") } else { ("are", "were") };
            format!("{} {are} declared between them and {were} never reached: look there first", some(names))
        }
        Closer::Level(level, names) => format!(
            "the spec declares {} there at level {level}: PARITY_LEVEL={level} {} bisect {id}",
            some(names),
            program()
        ),
        Closer::Undeclared(names) => {
            format!("the port taps {} there: export goldens for them, and declare them", some(names))
        }
        Closer::Taps => "no tap lies between them: add taps there to narrow it down".to_owned(),
    }
}

/// The later stages that are also red on golden inputs; `None` if there are none.
pub(super) fn also_red(culprit: &Culprit) -> Option<String> {
    (!culprit.also.is_empty()).then(|| {
        format!(
            "{}; fix `{}` first: its error can reach these through caches and branches without taps",
            some(&culprit.also),
            culprit.name
        )
    })
}

/// What to look at, by the kind of the first cause or fact.
pub(super) fn next_of(culprit: &Culprit) -> Option<&'static str> {
    let cause = culprit.causes.first().map(|cause| cause.kind.next());
    cause.or_else(|| culprit.facts.first().map(|fact| fact.kind.next()))
}

/// The first names, and the number of others.
fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", clean(name))).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "other")),
    }
}
