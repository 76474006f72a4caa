//! The first faulty stage of a port, in words.

use std::fmt::Write as _;

use super::words::multiple;
use crate::diagnose::{Cause, CauseKind, Fact};
use crate::gate::{Class, Phase};
use crate::record::Location;
use crate::results::{
    ADAPTERS, Account, AlsoRed, Closer, Culprit, FIXTURE, Localisation, TrialOutcome, WEIGHTS,
};
use crate::run_folder::Audit;
use crate::spec::{Spec, list::counted};
use crate::text::printable::clean;
use crate::text::program::program;
use crate::text::suggest::did_you_mean;

/// How many names a list shows; it counts the rest.
const SHOWN: usize = 4;

/// The result of a red run in one sentence: the first faulty stage, and how its output differs.
///
/// `None` without a faulty stage or drift. If the spec or its fixtures kept the port from running, the sentence is about them. A
/// failed weight audit and drawn random numbers come first in the sentence, because they make the values meaningless.
pub(super) fn sentence(account: &Account) -> Option<String> {
    if let Some(audit) = account.data.failed_audit() {
        let crash = account.data.crash().unwrap_or_default();
        return Some(format!("the {audit} did not load; see {}::{audit}: {crash}", account.spec.id));
    }
    if let Some(obstacle) = account.data.obstacles.first() {
        return Some(format!("nothing was compared: {}", obstacle.text));
    }
    let text = match account.localisation()? {
        Localisation::Right | Localisation::Unknown(_) => return None,
        Localisation::Drift(growths) => {
            let most =
                growths.first().map(|growth| format!(", most from `{}` to `{}`", growth.after, growth.name));
            format!("no single stage is wrong: the error accumulates{}", most.unwrap_or_default())
        }
        Localisation::Culprit(culprit) if culprit.class == Class::Crash => {
            crash_sentence(culprit, account.on_golden_inputs())
        }
        Localisation::Culprit(culprit) if culprit.class == Class::Unreached => {
            unreached_sentence(culprit) + &explained_later(culprit, account.on_golden_inputs())
        }
        Localisation::Culprit(culprit) => {
            let name = culprit.name.as_str();
            let what = match culprit.causes.first() {
                Some(cause) => format!("its output is {}", cause_text(cause)),
                None if culprit.class.phase() >= Phase::Form && culprit.class != Class::Gradient => {
                    format!("{}, and no known cause explains it", culprit.class.headline())
                }
                None => culprit.class.headline().to_owned(),
            };
            let place = place(account.on_golden_inputs(), name);
            format!("the first faulty stage is `{name}`{place}; {what}")
        }
    };
    Some(look_first(account).map(|first| format!("{first}; ")).unwrap_or_default() + &text)
}

/// Where the port failed: after which tap, and before which.
fn crash_sentence(culprit: &Culprit, local: &Account) -> String {
    let passed = match &culprit.closer {
        Closer::Undeclared(names) | Closer::Level(_, names) => names.last(),
        Closer::Unreached(_) | Closer::Taps => None,
    };
    match (&culprit.after, passed) {
        (None, None) => "the port failed before its first tap".to_owned(),
        (None, Some(passed)) => {
            format!("the port failed after the tap `{passed}`, before its first checkpoint")
        }
        // A tap with too few hits is behind the crash as well as before it.
        (Some(after), _) if culprit.is_reached => {
            format!("the port failed after `{after}`{}", place(local, after))
        }
        (Some(after), _) => {
            format!("the port failed after `{after}`{}, before `{}`", place(local, after), culprit.name)
        }
    }
}

/// The trials to look at before any cause: with wrong weights or random numbers the values mean little.
fn look_first(account: &Account) -> Option<String> {
    let failed = |name: &str| {
        account.trial(name).is_some_and(|trial| matches!(trial.outcome, TrialOutcome::Failed { .. }))
    };
    // A port that ends early has not come to some of its weights.
    let ends_early = matches!(account.localisation(), Some(Localisation::Culprit(culprit))
        if culprit.class == Class::Unreached && culprit.before.is_none());
    let is_wrong = |audit: &Audit| !(audit.is_clean() || ends_early && audit.is_incomplete());
    let audited = account.data.audit().is_some_and(is_wrong) && failed(WEIGHTS);
    let adapted = account.data.adapter_audit().is_some_and(is_wrong) && failed(ADAPTERS);
    let drew = account.data.drew() && failed(FIXTURE);
    let why = [
        (audited, WEIGHTS, "the weight audit failed"),
        (adapted, ADAPTERS, "the audit of the adapters failed"),
        (drew, FIXTURE, "the port drew random numbers"),
    ];
    let why: Vec<String> = why
        .into_iter()
        .filter(|(holds, ..)| *holds)
        .map(|(_, trial, why)| format!("see {}::{trial} first: {why}", account.spec.id))
        .collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// The first stage with a cause after one that was never reached: its mistake may be the one to mend.
fn explained_later(culprit: &Culprit, local: &Account) -> String {
    let stage = culprit.also.iter().find_map(|also| Some((also.name.as_str(), also.cause.as_ref()?)));
    let text =
        |(name, cause)| format!("; the output of `{name}`{} is {}", place(local, name), cause_text(cause));
    stage.map(text).unwrap_or_default()
}

/// States that the port never reached a tap, where the spec declares it, and which tap may be meant.
fn unreached_sentence(culprit: &Culprit) -> String {
    if let (Some(after), None) = (&culprit.after, &culprit.before)
        && near_tap(culprit).is_none()
    {
        return format!("the port ends after `{after}`: it never reaches the next tap, `{}`", culprit.name);
    }
    let place = match (&culprit.after, &culprit.before) {
        (Some(after), Some(before)) => format!("between `{after}` and `{before}`"),
        (Some(after), None) => format!("after `{after}`"),
        (None, Some(before)) => format!("before `{before}`"),
        (None, None) => "first".to_owned(),
    };
    let near = near_tap(culprit).map(|near| format!(", but taps `{near}` there")).unwrap_or_default();
    format!("the port never reaches the tap `{}`, which is declared {place}{near}", culprit.name)
}

/// The undeclared tap in place of one that was never reached, if its name is similar.
fn near_tap(culprit: &Culprit) -> Option<&str> {
    let Closer::Undeclared(names) = &culprit.closer else { return None };
    let is_near = |tap: &&String| !did_you_mean(&culprit.name, [tap.as_str()]).is_empty();
    names.iter().find(is_near).filter(|_| culprit.class == Class::Unreached).map(String::as_str)
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
    if let Some(next) = next_of(causes, facts) {
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
    if culprit.class == Class::Crash {
        return crash_text(spec, culprit, local);
    }
    let mut text = match culprit.class {
        Class::Unreached => format!("{}\n", clean(&unreached_sentence(culprit))),
        class => format!("first faulty stage: `{name}` is wrong on golden inputs: {}\n", class.headline()),
    };
    let _ = writeln!(text, "  between  {}", clean(&between_text(culprit, local)));
    cause_rows(&culprit.causes, &culprit.facts, "its output is ", &mut |label, value| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    });
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<8} {}", clean(value));
    };
    if let Some(closer) = closer_text(spec, culprit) {
        row("closer", &closer);
    }
    also_red(culprit, local, &mut row);
    text
}

/// Where the port failed, and with which error.
fn crash_text(spec: &Spec, culprit: &Culprit, local: &Account) -> String {
    let mut text = format!("{}\n", clean(&crash_sentence(culprit, local)));
    if let Some(TrialOutcome::Failed { line, .. }) = local.trial(&culprit.name).map(|trial| &trial.outcome) {
        let _ = writeln!(text, "  what     {}", clean(line));
    }
    if let Some(closer) = closer_text(spec, culprit) {
        let _ = writeln!(text, "  closer   {}", clean(&closer));
    }
    text
}

/// What the first faulty stage starts from, and its tap, each with its place; `local` is the run with every golden injected.
///
/// It starts from the tensors that the reference made its golden from. If these are unknown, it starts from the tap before it.
pub(super) fn between_text(culprit: &Culprit, local: &Account) -> String {
    let shown = |name: &str| format!("`{name}`{}", place(local, name));
    let known = culprit.made_from.as_ref().filter(|_| culprit.is_reached && culprit.before.is_none());
    let mut from: Vec<String> = known.iter().flat_map(|from| &from.goldens).map(|name| shown(name)).collect();
    from.extend(known.iter().flat_map(|from| &from.inputs).map(|name| format!("the input `{name}`")));
    if let Some(more @ 1..) = from.len().checked_sub(SHOWN) {
        from.truncate(SHOWN);
        from.push(counted(more, "other"));
    }
    if from.is_empty() {
        from.push(culprit.after.as_deref().map_or("the inputs".to_owned(), shown));
    }
    // A stage that was never reached lies between two that were.
    format!("{} and {}", from.join(", "), shown(culprit.before.as_deref().unwrap_or(&culprit.name)))
}

/// A cause that leaves at most this part of the error needs no narrower place.
const EXPLAINED: f64 = 0.02;

/// How to narrow down the place between the first faulty stage and the tap before it; `None` if there is no need, or if it would
/// not help.
pub(super) fn closer_text(spec: &Spec, culprit: &Culprit) -> Option<String> {
    let id = &spec.id;
    let is_crash = culprit.class == Class::Crash;
    let is_unreached = culprit.class == Class::Unreached;
    let is_explained = culprit.causes.first().is_some_and(|cause| cause.residual.part <= EXPLAINED);
    Some(match &culprit.closer {
        Closer::Unreached(names) => {
            let (are, were) = if names.len() == 1 { ("is", "was") } else { ("are", "were") };
            format!("{} {are} declared between them and {were} never reached: look there first", some(names))
        }
        _ if is_explained => return None,
        Closer::Level(level, names) => format!(
            "the spec declares {} there at level {level}: PARITY_LEVEL={level} {} bisect {id}",
            some(names),
            program()
        ),
        Closer::Undeclared(names) if is_crash => {
            format!("the port also passed {} before it failed", some(names))
        }
        Closer::Undeclared(names) => match near_tap(culprit) {
            Some(near) => format!(
                "if `{near}` is meant to be `{}`, use one name in the port and in the spec",
                culprit.name
            ),
            None => format!("the port taps {} there: export goldens for them, and declare them", some(names)),
        },
        // A port that ends too early needs its next part.
        Closer::Taps if is_crash || is_unreached && culprit.before.is_none() => return None,
        Closer::Taps if is_unreached => format!(
            "add the tap there; if the port computes `{}` inside one operation with others, such as fused attention, remove its \
             line from the spec",
            culprit.name
        ),
        Closer::Taps => "no tap lies between them: add taps there to narrow it down".to_owned(),
    })
}

/// Writes the later stages that are also red on golden inputs: those with the same mistake, those with a mistake of their own,
/// and those that nothing explains.
pub(super) fn also_red(culprit: &Culprit, local: &Account, row: &mut impl FnMut(&str, &str)) {
    let main = culprit.causes.first();
    let are_same = |a: &Cause, b: &Cause| {
        let text = |cause: &Cause| without_checkpoints(&cause.text, &local.spec);
        a.kind == b.kind && (text(a) == text(b) || a.place.is_some() && a.place == b.place)
    };
    let is_same = |cause: &Cause| main.is_some_and(|main| are_same(main, cause));
    let (lost, reached): (Vec<&AlsoRed>, Vec<&AlsoRed>) =
        culprit.also.iter().partition(|also| also.class == Class::Unreached);
    // The same tap in another round of a loop belongs to code that all rounds share.
    let tap = |name: &str| {
        let location = local.trial(name)?.record.as_ref()?.location.clone()?;
        Some((location, without_numbers(name)))
    };
    let mut taps: Vec<(Location, String)> = tap(&culprit.name).into_iter().collect();
    let has_same_cause = |also: &&&AlsoRed| also.cause.as_ref().is_some_and(is_same);
    taps.extend(reached.iter().filter(has_same_cause).filter_map(|also| tap(&also.name)));
    let may_be_same = |cause: &Cause| main.is_some_and(|main| main.kind == cause.kind);
    let (mut same, mut alike, mut others, mut open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for also in reached {
        let is_alike = tap(&also.name).is_some_and(|tap| taps.contains(&tap))
            && also.cause.as_ref().is_none_or(may_be_same);
        match &also.cause {
            Some(cause) if is_same(cause) => same.push(also.name.clone()),
            _ if is_alike => alike.push(also.name.clone()),
            Some(cause) => others.push((also.name.as_str(), cause)),
            None => open.push(also.name.clone()),
        }
    }
    if !same.is_empty() {
        row("also red", &format!("{}, by the same mistake", some(&same)));
    }
    if !alike.is_empty() {
        let what = "tapped in the same line of the port, so most likely by the same mistake";
        row("also red", &format!("{}, {what}", some(&alike)));
    }
    let mut mistakes: Vec<(&str, &Cause, Vec<String>)> = Vec::new();
    for (name, cause) in others {
        match mistakes.iter_mut().find(|(_, known, _)| are_same(known, cause)) {
            Some((.., again)) => again.push(name.to_owned()),
            None => mistakes.push((name, cause, Vec::new())),
        }
    }
    for (name, cause, again) in mistakes.iter().take(SHOWN) {
        let place = place(local, name);
        row("another", &format!("faulty stage is `{name}`{place}; its output is {}", cause_text(cause)));
        if !again.is_empty() {
            row("", &format!("{}, by the same mistake", some(again)));
        }
    }
    if let Some(more @ 1..) = mistakes.len().checked_sub(SHOWN) {
        row("", &format!("and {}", counted(more, "other mistake")));
    }
    if !lost.is_empty() {
        let names: Vec<String> = lost.iter().map(|also| also.name.clone()).collect();
        row("also", &format!("never reached: {}", some(&names)));
    }
    if !open.is_empty() {
        let are = if open.len() == 1 { "is" } else { "are" };
        row(
            "also red",
            &format!(
                "{} {are} wrong on golden inputs, too: by code that is shared with `{name}`, by its error through a cache or a \
                 branch without taps, or by another mistake; mend `{name}` first",
                some(&open),
                name = culprit.name
            ),
        );
    }
}

/// The text of a cause without the names of the spec's checkpoints: the same mistake in two stages starts from different tensors.
fn without_checkpoints(text: &str, spec: &Spec) -> String {
    let is_checkpoint = |(at, part): (usize, &str)| at % 2 == 1 && spec.checkpoint(part).is_some();
    let parts = text.split('`').enumerate().map(|part| if is_checkpoint(part) { "" } else { part.1 });
    parts.collect::<Vec<_>>().join("`")
}

/// The name of a tap with `#` for each number.
fn without_numbers(name: &str) -> String {
    let parts = name.split('.').map(|part| if part.parse::<usize>().is_ok() { "#" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// What to look at, by the kind of the first cause or fact. `None` if that is only the line that the cause names.
pub(super) fn next_of(causes: &[Cause], facts: &[Fact]) -> Option<&'static str> {
    match causes.first() {
        Some(cause) if cause.kind == CauseKind::LeftOut && cause.place.is_some() => None,
        Some(cause) => Some(cause.kind.next()),
        None => facts.first().map(|fact| fact.kind.next()),
    }
}

/// The first names, and the number of others.
fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", clean(name))).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "other")),
    }
}
