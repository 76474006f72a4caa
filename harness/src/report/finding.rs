//! The first faulty stage of a port, in words.

use std::fmt::Write as _;

use super::failure::{headline, multiple};
use crate::Class;
use crate::diagnose::{Cause, Fact};
use crate::printable::clean;
use crate::run::{Account, Closer, Culprit, FIXTURE, Finding, Verdict, WEIGHTS};
use crate::spec::{Spec, list::counted};

/// How many names are written out before the rest is counted.
const SHOWN: usize = 4;

/// What a red run comes to in one sentence, if a run on golden inputs can tell: the first faulty stage, and what its output
/// is. What makes values mean little is named first.
pub(crate) fn sentence(spec: &Spec, account: &Account) -> Option<String> {
    let text = match account.finding(spec)? {
        Finding::Right | Finding::Unknown(_) => return None,
        Finding::Drift(growths) => {
            let most =
                growths.first().map(|growth| format!(", most from `{}` to `{}`", growth.after, growth.name));
            format!("no single stage is faulty: the error adds up{}", most.unwrap_or_default())
        }
        Finding::Culprit(culprit) => {
            let name = culprit.name.as_str();
            let what = match culprit.causes.first() {
                Some(cause) => format!("its output is {}", cause_text(cause)),
                None if culprit.class == Class::Unreached => {
                    never_reached(culprit, |name| format!("`{name}`"))
                }
                None if culprit.class >= Class::Shape => {
                    format!("{}, and no known cause explains it", headline(culprit.class))
                }
                None => headline(culprit.class).to_owned(),
            };
            let place = place(account.on_golden_inputs(), name);
            format!("the first faulty stage is `{name}`{place}; {what}")
        }
    };
    Some(look_first(spec, account).map(|first| format!("{first}; ")).unwrap_or_default() + &text)
}

/// The trials to look at before any cause: weights that are not what they should be, or numbers that were drawn, make
/// values mean little.
fn look_first(spec: &Spec, account: &Account) -> Option<String> {
    let failed = |name: &str| {
        account.ending(name).is_some_and(|ending| matches!(ending.verdict, Verdict::Failed { .. }))
    };
    let audited = account.story.audit().is_some_and(|audit| !audit.is_clean()) && failed(WEIGHTS);
    let drew = account.story.drew() && failed(FIXTURE);
    let why =
        [(audited, WEIGHTS, "the weight audit failed"), (drew, FIXTURE, "the port drew random numbers")];
    let why: Vec<String> = why
        .into_iter()
        .filter(|(holds, ..)| *holds)
        .map(|(_, trial, why)| format!("see {}::{trial} first, {why}", spec.id))
        .collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// That a stage was never reached, and between which taps it should have been.
fn never_reached(culprit: &Culprit, shown: impl Fn(&str) -> String) -> String {
    match (&culprit.after, &culprit.before) {
        (Some(after), Some(before)) => {
            format!("it is declared between {} and {} and was never reached", shown(after), shown(before))
        }
        (None, Some(before)) => format!("it is declared before {} and was never reached", shown(before)),
        _ => "never reached".to_owned(),
    }
}

/// A cause, with what it leaves of the error and how much of the tensor was looked at.
pub(super) fn cause_text(cause: &Cause) -> String {
    let mut text = cause.text.clone();
    let _ = write!(text, " (reversing this removes {} of the error)", removed(cause.residual.part));
    if let Some(sampled) = cause.sampled {
        let _ = write!(text, ", as far as {sampled} elements show");
    }
    text
}

/// A fact, with how much of the tensor was looked at.
pub(super) fn fact_text(fact: &Fact) -> String {
    let sampled = fact.sampled.map(|sampled| format!(", as far as {sampled} elements show"));
    fact.text.clone() + &sampled.unwrap_or_default()
}

/// The causes of one tensor as rows, or the facts that are known of it, and what to look at next.
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

/// What is gone of the error when this part of it is left.
fn removed(left: f64) -> String {
    match 100.0 * left {
        0.0 => "all".to_owned(),
        percent if percent < 0.01 => "more than 99.99 %".to_owned(),
        percent => format!("{:.2} %", 100.0 - percent),
    }
}

/// Where a tap is in the port's source, in brackets.
fn place(account: &Account, name: &str) -> String {
    let location = account.ending(name).and_then(|ending| ending.record.as_ref()?.location.as_ref());
    location.map(|place| format!(" ({}:{})", place.file, place.line)).unwrap_or_default()
}

/// What was found of `spec`, `local` being the run with everything injected.
pub(crate) fn finding(spec: &Spec, found: &Finding, local: &Account) -> String {
    match found {
        Finding::Right => {
            "no stage is wrong on golden inputs; if the port is red without them, `cargo xtask parity` tells more\n"
                .to_owned()
        }
        Finding::Unknown(trial) => {
            format!("nothing can be said of single stages: `{}::{trial}` says why\n", spec.id)
        }
        Finding::Drift(growths) => {
            let mut text = "drift: no stage is wrong on golden inputs, the error only adds up\n".to_owned();
            for growth in growths {
                let factor = multiple(growth.factor);
                let _ = writeln!(text, "  grows    {factor} from `{}` to `{}`", growth.after, growth.name);
            }
            text
        }
        Finding::Culprit(culprit) => told(spec, culprit, local),
    }
}

fn told(spec: &Spec, culprit: &Culprit, local: &Account) -> String {
    let place = |name: &str| place(local, name);
    let name = culprit.name.as_str();
    let mut text = format!(
        "culprit: `{name}` is the first stage that is wrong on golden inputs: {}\n",
        headline(culprit.class)
    );
    let shown = |name: &str| format!("`{name}`{}", place(name));
    let from = culprit.after.as_deref().map_or("the inputs".to_owned(), shown);
    // A stage that was never reached stands between two that were.
    let to = culprit.before.as_deref().unwrap_or(name);
    let _ = writeln!(text, "  between  {}", clean(&format!("{from} and {}", shown(to))));
    if culprit.before.is_some() && culprit.class == Class::Unreached {
        let _ = writeln!(text, "  cause    `{}` is declared between them and was never reached", clean(name));
    }
    cause_rows(&culprit.causes, &culprit.facts, "it is ", &mut |label, value| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    });
    let id = &spec.id;
    let closer = match &culprit.closer {
        Closer::Unreached(names) => {
            let (are, were) = if names.len() == 1 { ("is", "was") } else { ("are", "were") };
            format!("{} {are} declared between them and {were} never reached: look there first", some(names))
        }
        Closer::Level(level, names) => format!(
            "the spec has {} there at level {level}: PARITY_LEVEL={level} cargo xtask bisect {id}",
            some(names)
        ),
        Closer::Undeclared(names) => {
            format!("the port taps {} there: export goldens for them, and declare them", some(names))
        }
        Closer::Taps => "nothing else is tapped there: for a closer look, tap what lies between".to_owned(),
    };
    let _ = writeln!(text, "  closer   {}", clean(&closer));
    if !culprit.also.is_empty() {
        let _ = writeln!(
            text,
            "  also red {}; look there once the culprit is mended, since caches and branches without taps go around \
             the injection",
            some(&culprit.also)
        );
    }
    text
}

/// The first names, and how many more there are.
fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", clean(name))).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "other")),
    }
}
