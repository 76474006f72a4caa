//! Where a port goes wrong by its own doing, in words.

use std::fmt::Write as _;

use super::failure::{headline, multiple};
use crate::run::{Account, Closer, Culprit, Finding};
use crate::spec::{Spec, list::counted};

/// How many names are written out before the rest is counted.
const SHOWN: usize = 4;

/// What was found of `spec`, `local` being the run with everything injected.
pub(crate) fn finding(spec: &Spec, found: &Finding, local: &Account) -> String {
    match found {
        Finding::Right => {
            "no stage is wrong on golden inputs; if the port is red without them, `cargo xtask bisect` tells more\n"
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
    let place = |name: &str| {
        let location = local.ending(name).and_then(|ending| ending.record.as_ref()?.location.as_ref());
        location.map(|place| format!(" ({}:{})", place.file, place.line)).unwrap_or_default()
    };
    let name = culprit.name.as_str();
    let mut text = format!(
        "culprit: `{name}` is the first stage that is wrong on golden inputs: {}\n",
        headline(culprit.class)
    );
    let from = match &culprit.after {
        Some(after) => format!("`{after}`{}", place(after)),
        None => "the inputs".to_owned(),
    };
    let _ = writeln!(text, "  between  {from} and `{name}`{}", place(name));
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
    let _ = writeln!(text, "  closer   {closer}");
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
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "other")),
    }
}
