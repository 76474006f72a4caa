//! What the environment may change about a suite.

use thiserror::Error;

pub(super) use crate::ci::says_ci as in_ci;
use crate::run::Inject;

/// `PARITY_REQUIRE`: what happens to specs whose `requires` are not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Require {
    /// They are ignored, with the reason.
    Declared,
    /// They fail.
    All,
}

/// The settings of one suite run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) require: Require,
    /// `PARITY_LEVEL`: the level for every spec, in place of its own.
    pub(super) level: Option<u8>,
    /// `PARITY_LOCALISE` and `PARITY_INJECT`: names as they are written, `checkpoint` or `spec::checkpoint`.
    pub(super) inject: Inject,
    /// `PARITY_TIMES`: how often a port runs again to be timed.
    pub(super) times: u32,
}

/// A variable that is set to something else than it may be.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{variable} is `{found}`, expected {allowed}")]
pub(super) struct SettingError {
    pub(super) variable: &'static str,
    pub(super) found: String,
    pub(super) allowed: String,
}

impl Settings {
    pub(super) fn from_env() -> Result<Self, SettingError> {
        Self::from(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let wrong = |variable: &'static str, found: &str, allowed: &str| SettingError {
            variable,
            found: found.to_owned(),
            allowed: allowed.to_owned(),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(set: &[(&str, &str)], expected: Result<Settings, &str>) {
        let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        assert_eq!(
            Settings::from(variable).map_err(|error| error.to_string()),
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
