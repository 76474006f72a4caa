//! Where a port goes wrong by its own doing, in words.

use std::fmt::Write as _;

use super::failure::{headline, multiple};
use crate::Class;
use crate::diagnose::Cause;
use crate::printable::clean;
use crate::run::{Account, Closer, Culprit, Finding};
use crate::spec::{Spec, list::counted};

/// How many names are written out before the rest is counted.
const SHOWN: usize = 4;

/// What a red run comes to in one sentence, if a run on golden inputs can tell: the first stage that is wrong by its own
/// doing, and what its output is.
pub(crate) fn sentence(spec: &Spec, account: &Account) -> Option<String> {
    match account.brief_finding(spec)? {
        Finding::Right | Finding::Unknown(_) => None,
        Finding::Drift(growths) => {
            let most =
                growths.first().map(|growth| format!(", most from `{}` to `{}`", growth.after, growth.name));
            Some(format!(
                "no single stage is wrong by its own doing: the error adds up{}",
                most.unwrap_or_default()
            ))
        }
        Finding::Culprit(culprit) => {
            let name = culprit.name.as_str();
            let what = match culprit.causes.first() {
                Some(cause) => format!("its output is {}", told_cause(cause)),
                None if culprit.class >= Class::Shape => {
                    format!("{}, and no known cause explains it", headline(culprit.class))
                }
                None => headline(culprit.class).to_owned(),
            };
            let place = place(account.on_golden_inputs(), name);
            Some(format!("the first stage that is wrong by its own doing is `{name}`{place}; {what}"))
        }
    }
}

/// A cause, with what it leaves of the error and how much of the tensor was looked at.
pub(super) fn told_cause(cause: &Cause) -> String {
    let mut text = cause.text.clone();
    if cause.residual.part < 1.0 {
        let _ = write!(text, " (undone, {} of the error is left)", part(cause.residual.part));
    }
    if let Some(sampled) = cause.sampled {
        let _ = write!(text, ", as far as {sampled} elements tell");
    }
    text
}

/// The causes of one tensor as rows, and what to look at next.
pub(super) fn cause_rows(causes: &[Cause], what: &str, row: &mut impl FnMut(&str, &str)) {
    let mut label = "cause";
    for cause in causes {
        row(label, &format!("{what}{}", told_cause(cause)));
        label = "or";
    }
    if let Some(cause) = causes.first() {
        row("look at", cause.kind.next());
    }
}

/// A part of a whole in per cent.
fn part(part: f64) -> String {
    match 100.0 * part {
        0.0 => "nothing".to_owned(),
        percent if percent < 0.01 => "less than 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
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
    let from = match &culprit.after {
        Some(after) => format!("`{after}`{}", place(after)),
        None => "the inputs".to_owned(),
    };
    let _ = writeln!(text, "  between  {}", clean(&format!("{from} and `{name}`{}", place(name))));
    cause_rows(&culprit.causes, "it is ", &mut |label, value| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    });
    let id = &spec.id;
    let closer = match &culprit.closer {
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
