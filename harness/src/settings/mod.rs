//! What the environment may change about a suite and about the commands. A variable that is set to something else than it
//! may be is an error wherever it is met: a slip never turns into the default.

pub(crate) mod names;

use std::borrow::Cow;

use thiserror::Error;

pub(crate) use crate::ci::says_ci as in_ci;
use crate::near::did_you_mean;
use crate::run::Inject;
use crate::size::{Limits, SizeError};
use crate::spec::Spec;

/// `PARITY_REQUIRE`: what happens to specs whose `requires` are not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Require {
    /// They are ignored, with the reason.
    Declared,
    /// They fail.
    All,
}

/// The settings of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) require: Require,
    /// `PARITY_LEVEL`: the level for every spec, in place of its own.
    pub(crate) level: Option<u8>,
    /// `PARITY_LOCALISE` and `PARITY_INJECT`: names as they are written, `checkpoint` or `spec::checkpoint`.
    pub(crate) inject: Inject,
    /// `PARITY_TIMES`: how often a port runs again to be timed.
    pub(crate) times: u32,
}

/// A variable that is set and must not be, or not to this.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum SettingError {
    #[error("{variable} is `{found}`, expected {allowed}")]
    Value { variable: &'static str, found: String, allowed: String },
    #[error(
        "{name} is set, but nothing reads it{near} Names that begin with PARITY_ are kept for settings: unset it, \
         or give a variable of your own another name"
    )]
    Unknown { name: String, near: String },
    #[error(transparent)]
    Size(#[from] SizeError),
}

impl Settings {
    /// The settings of this process. `specs` gives all specs that can be read; it is called only where a name has to be
    /// held against them.
    pub(crate) fn read<'a>(specs: impl Fn() -> Cow<'a, [Spec]>) -> Result<Self, SettingError> {
        let unknown = names::unknown(std::env::vars_os().map(|(name, _)| name));
        if let Some(name) = unknown.iter().find(|name| !names::is_required(name, &specs())) {
            let near = match names::near_settings(name) {
                near if near.is_empty() => ".".to_owned(),
                near => near,
            };
            return Err(SettingError::Unknown { name: name.clone(), near });
        }
        let settings =
            Self::of(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?;
        Limits::read()?;
        if let Inject::Also(names) = &settings.inject {
            known_checkpoints(names, &specs())?;
        }
        Ok(settings)
    }

    /// The level at which a spec is looked at. Never less than the spec itself asks for: a checkpoint that is not looked at
    /// is not green.
    pub(crate) fn level_of(&self, spec: &Spec) -> u8 {
        self.level.unwrap_or(0).max(spec.level)
    }

    /// What is injected into this spec.
    pub(crate) fn inject_into(&self, spec: &Spec) -> Inject {
        inject_into(spec, &self.inject)
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let wrong = |variable: &'static str, found: &str, allowed: &str| SettingError::Value {
            variable,
            found: found.to_owned(),
            allowed: allowed.to_owned(),
        };
        for folder in ["PARITY_FIXTURES", "PARITY_OUT"] {
            // Joined to the root, an empty path would be the root itself.
            if variable(folder).is_some_and(|path| path.is_empty()) {
                return Err(wrong(folder, "", "a folder; unset it for the project's own"));
            }
        }
        let number = |name: &'static str, most: u32| match variable(name) {
            None => Ok(None),
            Some(text) => match text.parse::<u32>().ok().filter(|number| *number <= most) {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(name, &text, &format!("a number from 0 to {most}"))),
            },
        };
        let require = match variable("PARITY_REQUIRE").as_deref() {
            None | Some("declared") => Require::Declared,
            Some("all") => Require::All,
            Some(found) => return Err(wrong("PARITY_REQUIRE", found, "`declared` or `all`")),
        };
        let level = number("PARITY_LEVEL", u8::MAX.into())?.and_then(|level| u8::try_from(level).ok());
        let times = number("PARITY_TIMES", 1000)?.unwrap_or(0);
        let in_ci = in_ci(&variable);
        let refused = "it not to be set in CI: a run on injected goldens proves nothing";
        let named: Vec<String> = variable("PARITY_INJECT")
            .iter()
            .flat_map(|names| names.split(','))
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        let inject = match variable("PARITY_LOCALISE").as_deref() {
            Some("1") if in_ci => return Err(wrong("PARITY_LOCALISE", "1", refused)),
            Some("1") => Inject::All,
            Some("0") | None if named.is_empty() => Inject::Declared,
            Some("0") | None if in_ci => return Err(wrong("PARITY_INJECT", &named.join(","), refused)),
            Some("0") | None => Inject::Also(named),
            Some(found) => return Err(wrong("PARITY_LOCALISE", found, "`0` or `1`")),
        };
        Ok(Self { require, level, inject, times })
    }
}

/// Holds the names of `PARITY_INJECT` against the specs: a slip would inject nothing, and nobody would know.
fn known_checkpoints(names: &[String], specs: &[Spec]) -> Result<(), SettingError> {
    for name in names {
        let takes = |spec: &Spec| inject_into(spec, &Inject::Also(vec![name.clone()])) != Inject::Declared;
        if !specs.iter().any(takes) {
            let all = specs.iter().flat_map(|spec| spec.checkpoints.iter().map(|c| c.name.as_str()));
            let near = did_you_mean(name, all);
            let allowed = format!("checkpoints that have goldens, as `name` or `spec::name`{near}");
            return Err(SettingError::Value { variable: "PARITY_INJECT", found: name.clone(), allowed });
        }
    }
    Ok(())
}

fn inject_into(spec: &Spec, settings: &Inject) -> Inject {
    let Inject::Also(names) = settings else { return settings.clone() };
    let short = |name: &String| match name.split_once("::") {
        Some((id, name)) => (id == spec.id).then(|| name.to_owned()),
        None => Some(name.clone()),
    };
    let own = names.iter().filter_map(short);
    let own: Vec<String> =
        own.filter(|name| spec.checkpoint(name).is_some_and(|c| c.needs_golden())).collect();
    if own.is_empty() { Inject::Declared } else { Inject::Also(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(set: &[(&str, &str)], expected: Result<Settings, &str>) {
        let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        assert_eq!(
            Settings::of(variable).map_err(|error| error.to_string()),
            expected.map_err(str::to_owned)
        );
    }

    const PLAIN: Settings =
        Settings { require: Require::Declared, level: None, inject: Inject::Declared, times: 0 };

    #[test]
    fn a_setting_with_fixed_values_takes_no_other() {
        check(&[], Ok(PLAIN));
        check(
            &[("PARITY_REQUIRE", "all"), ("PARITY_LEVEL", "2"), ("PARITY_TIMES", "5")],
            Ok(Settings { require: Require::All, level: Some(2), times: 5, ..PLAIN }),
        );
        check(&[("PARITY_REQUIRE", "1")], Err("PARITY_REQUIRE is `1`, expected `declared` or `all`"));
        check(&[("PARITY_LEVEL", "deep")], Err("PARITY_LEVEL is `deep`, expected a number from 0 to 255"));
        check(&[("PARITY_LEVEL", "256")], Err("PARITY_LEVEL is `256`, expected a number from 0 to 255"));
        check(&[("PARITY_LEVEL", "")], Err("PARITY_LEVEL is ``, expected a number from 0 to 255"));
        check(&[("PARITY_TIMES", "many")], Err("PARITY_TIMES is `many`, expected a number from 0 to 1000"));
        check(
            &[("PARITY_OUT", "")],
            Err("PARITY_OUT is ``, expected a folder; unset it for the project's own"),
        );
        check(&[("PARITY_LOCALISE", "yes")], Err("PARITY_LOCALISE is `yes`, expected `0` or `1`"));
    }

    #[test]
    fn what_is_injected_is_refused_in_ci() {
        check(&[("PARITY_LOCALISE", "1"), ("CI", "false")], Ok(Settings { inject: Inject::All, ..PLAIN }));
        let named = Inject::Also(vec!["norm".into(), "a/b::out".into()]);
        check(&[("PARITY_INJECT", "norm, a/b::out,")], Ok(Settings { inject: named, ..PLAIN }));
        check(&[("PARITY_INJECT", ""), ("CI", "true")], Ok(PLAIN));
        let refused = "expected it not to be set in CI: a run on injected goldens proves nothing";
        check(
            &[("PARITY_LOCALISE", "1"), ("CI", "true")],
            Err(&format!("PARITY_LOCALISE is `1`, {refused}")),
        );
        check(&[("PARITY_INJECT", "x"), ("CI", "1")], Err(&format!("PARITY_INJECT is `x`, {refused}")));
    }
}
