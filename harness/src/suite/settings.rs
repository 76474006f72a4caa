//! What the environment may change about a suite.

use thiserror::Error;

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
}

/// A variable that is set to something else than it may be.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{variable} is `{found}`, expected {allowed}")]
pub(super) struct SettingError {
    variable: &'static str,
    found: String,
    allowed: &'static str,
}

impl Settings {
    pub(super) fn from_env() -> Result<Self, SettingError> {
        Self::from(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let require = match variable("PARITY_REQUIRE").as_deref() {
            None | Some("declared") => Require::Declared,
            Some("all") => Require::All,
            Some(found) => {
                let allowed = "`declared` or `all`";
                return Err(SettingError { variable: "PARITY_REQUIRE", found: found.to_owned(), allowed });
            }
        };
        let level = match variable("PARITY_LEVEL") {
            None => None,
            Some(text) => match text.parse() {
                Ok(level) => Some(level),
                Err(_) => {
                    let allowed = "a number from 0 to 255";
                    return Err(SettingError { variable: "PARITY_LEVEL", found: text, allowed });
                }
            },
        };
        Ok(Self { require, level })
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

    #[test]
    fn a_setting_with_fixed_values_takes_no_other() {
        check(&[], Ok(Settings { require: Require::Declared, level: None }));
        check(
            &[("PARITY_REQUIRE", "all"), ("PARITY_LEVEL", "2")],
            Ok(Settings { require: Require::All, level: Some(2) }),
        );
        check(&[("PARITY_REQUIRE", "1")], Err("PARITY_REQUIRE is `1`, expected `declared` or `all`"));
        check(&[("PARITY_LEVEL", "deep")], Err("PARITY_LEVEL is `deep`, expected a number from 0 to 255"));
    }
}
