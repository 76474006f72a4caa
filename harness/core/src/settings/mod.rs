//! Settings of suites and commands, read from environment variables.
//!
//! A process reads its settings once. An invalid value is always an error and never falls back to the default.

pub mod names;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::ci::is_ci as in_ci;
use crate::files::size::SizeLimits;
use crate::spec::{Devices, Inject, Spec};
use crate::text::suggest::did_you_mean;

pub use table::{SETTINGS, Setting, Values, help};

/// `PARITY_REQUIRE`: the result of specs whose `requires` are not met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Require {
    /// They are ignored, with the reason.
    #[default]
    Declared,
    /// They fail.
    All,
}

/// `PARITY_KEEP`: the actuals that a run folder keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Those of failing hits.
    #[default]
    Failing,
    /// All of them.
    All,
}

/// The settings of one process. A run folder keeps the settings of its run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `PARITY_REQUIRE`.
    pub require: Require,
    /// `PARITY_LEVEL`: the level at which every spec is checked.
    pub level: Option<u8>,
    /// `PARITY_LOCALISE` and `PARITY_INJECT`: the goldens to inject, named `checkpoint` or `spec::checkpoint`.
    pub inject: Inject,
    /// `PARITY_PEEK`: patterns of the taps whose tensors are described.
    #[serde(default)]
    pub peek: Vec<String>,
    /// `PARITY_DEVICE`: where specs run that name no device.
    #[serde(default)]
    pub devices: Devices,
    /// `PARITY_TIMES`: how often a port runs again to be timed.
    pub times: u32,
    /// `PARITY_KEEP`: the actuals that are kept.
    #[serde(default)]
    pub keep: Keep,
    /// `PARITY_FIXTURES`: the fixture root, relative to the project's root.
    pub fixtures: Option<String>,
    /// `PARITY_OUT`: the output folder, relative to the project's root.
    pub out: Option<String>,
    /// `PARITY_RUN`: the name of the run.
    pub run: Option<String>,
    /// `PARITY_PYTHON`: the Python program.
    pub python: Option<String>,
    /// `PARITY_SIZE_WARN`, `PARITY_SIZE_LIMIT` and `PARITY_KEEP_LIMIT`: the sizes at which a command warns or stops, and at which a
    /// run keeps no more actuals.
    pub sizes: SizeLimits,
}

/// A variable with an invalid value or an unknown name.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingError {
    /// The value is invalid.
    #[error("{variable} is `{found}`, expected {allowed}")]
    Value {
        /// The variable.
        variable: &'static str,
        /// Its value.
        found: String,
        /// The valid values.
        allowed: String,
    },
    /// The name begins with `PARITY_` and is not a setting.
    #[error(
        "{name} is set, but nothing reads it{near} Names that begin with PARITY_ are reserved for settings: unset it, or \
         rename your own variable"
    )]
    Unknown {
        /// The variable.
        name: String,
        /// A suggestion of similar settings, or a full stop.
        near: String,
    },
}

/// Every variable of this process whose name begins with `PARITY_`, as of the first read.
static ENVIRONMENT: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let all = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    all.filter(|(name, _)| name.starts_with("PARITY_")).collect()
});

/// Returns the value of a `PARITY_` variable; `None` when it is not set.
pub fn variable(name: &str) -> Option<&'static str> {
    ENVIRONMENT.get(name).map(String::as_str)
}

impl Settings {
    /// Returns the settings of this process. `specs` returns all readable specs, and is called only to look up a name.
    ///
    /// # Errors
    /// When a variable has an invalid value, or a name that begins with `PARITY_` is unknown.
    pub fn read<'a>(specs: impl Fn() -> Cow<'a, [Spec]>) -> Result<Self, SettingError> {
        let unknown = names::unknown(ENVIRONMENT.keys());
        if let Some(name) = unknown.iter().find(|name| !names::is_required(name, &specs())) {
            let near = match names::near_settings(name) {
                near if near.is_empty() => ".".to_owned(),
                near => near,
            };
            return Err(SettingError::Unknown { name: (*name).clone(), near });
        }
        let settings =
            Self::parse(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?;
        if let Inject::Also(names) = &settings.inject {
            check_names(names, &specs())?;
        }
        if let Some(level) = settings.level.filter(|_| in_ci(|name| std::env::var(name).ok())) {
            check_level(level, &specs())?;
        }
        Ok(settings)
    }

    /// Returns the settings of this process without looking up the names of checkpoints.
    ///
    /// # Errors
    /// When a variable has an invalid value.
    pub fn of_process() -> Result<Self, SettingError> {
        Self::parse(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Returns the level at which a spec is checked: the setting, or else the spec's own level.
    ///
    /// A level below the spec's own leaves declared checkpoints out. Every summary says so, and CI refuses it.
    pub fn level_of(&self, spec: &Spec) -> u8 {
        self.level.unwrap_or(spec.level)
    }

    /// Returns which goldens are injected into this spec.
    pub fn inject_into(&self, spec: &Spec) -> Inject {
        inject_into(spec, &self.inject)
    }

    fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for setting in SETTINGS {
            let Some(found) = variable(setting.name) else { continue };
            let wrong = |allowed: String| SettingError::Value {
                variable: setting.name,
                found: found.clone(),
                allowed,
            };
            let before = settings.inject.clone();
            setting.store(&mut settings, &found).ok_or_else(|| wrong(setting.values.to_string()))?;
            if settings.inject != before && in_ci(&variable) {
                return Err(wrong(
                    "it to be unset in CI: a run on injected goldens proves nothing".to_owned(),
                ));
            }
        }
        Ok(settings)
    }
}

/// Checks that every name of `PARITY_INJECT` exists in a spec. A misspelt name would inject nothing without a warning.
fn check_names(names: &[String], specs: &[Spec]) -> Result<(), SettingError> {
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

/// Checks that the level leaves out no checkpoint that a spec checks by its own level.
fn check_level(level: u8, specs: &[Spec]) -> Result<(), SettingError> {
    match specs.iter().max_by_key(|spec| spec.level).filter(|spec| level < spec.level) {
        Some(spec) => Err(SettingError::Value {
            variable: "PARITY_LEVEL",
            found: level.to_string(),
            allowed: format!(
                "at least {} in CI: a lower level leaves out checkpoints of `{}`",
                spec.level, spec.id
            ),
        }),
        None => Ok(()),
    }
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
            Settings::parse(variable).map_err(|error| error.to_string()),
            expected.map_err(str::to_owned)
        );
    }

    fn plain() -> Settings {
        Settings::default()
    }

    #[test]
    fn a_setting_with_fixed_values_takes_no_other() {
        check(&[], Ok(plain()));
        check(
            &[("PARITY_REQUIRE", "all"), ("PARITY_LEVEL", "2"), ("PARITY_TIMES", "5")],
            Ok(Settings { require: Require::All, level: Some(2), times: 5, ..plain() }),
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
        check(
            &[("PARITY_SIZE_WARN", "much")],
            Err("PARITY_SIZE_WARN is `much`, expected a size such as `500 MB`, `10 GB` or a number of bytes"),
        );
    }

    #[test]
    fn injection_is_refused_in_ci() {
        check(&[("PARITY_LOCALISE", "1"), ("CI", "false")], Ok(Settings { inject: Inject::All, ..plain() }));
        check(
            &[("PARITY_LOCALISE", "1"), ("PARITY_INJECT", "norm")],
            Ok(Settings { inject: Inject::All, ..plain() }),
        );
        let named = Inject::Also(vec!["norm".into(), "a/b::out".into()]);
        check(&[("PARITY_INJECT", "norm, a/b::out,")], Ok(Settings { inject: named, ..plain() }));
        check(&[("PARITY_INJECT", ""), ("CI", "true")], Ok(plain()));
        let refused = "expected it to be unset in CI: a run on injected goldens proves nothing";
        check(
            &[("PARITY_LOCALISE", "1"), ("CI", "true")],
            Err(&format!("PARITY_LOCALISE is `1`, {refused}")),
        );
        check(&[("PARITY_INJECT", "x"), ("CI", "1")], Err(&format!("PARITY_INJECT is `x`, {refused}")));
    }

    #[test]
    fn devices_are_words() {
        use crate::spec::Device::{Cpu, Gpu};
        check(&[("PARITY_DEVICE", "gpu")], Ok(Settings { devices: Devices::One(Gpu), ..plain() }));
        check(&[("PARITY_DEVICE", "cpu,gpu")], Ok(Settings { devices: Devices::Two(Cpu, Gpu), ..plain() }));
        check(
            &[("PARITY_DEVICE", "metal")],
            Err("PARITY_DEVICE is `metal`, expected `declared`, `cpu`, `gpu`, `cpu,gpu` or `cpu,cpu`"),
        );
    }

    #[test]
    fn patterns_of_taps_are_a_list() {
        let peek = vec!["blocks.*.q".to_owned(), "out".to_owned()];
        check(&[("PARITY_PEEK", "blocks.*.q, out")], Ok(Settings { peek, ..plain() }));
    }

    #[test]
    fn a_level_that_leaves_checkpoints_out_is_refused_in_ci() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        let text = "version: 1\nport: p\nlevel: 2\ncheckpoints: [{name: x, shape: [1]}, {name: y, shape: [1], level: 2}]\n";
        std::fs::write(root.path().join("a/b.yaml"), text).unwrap();
        let specs = crate::spec::Specs::load(root.path()).specs;
        assert_eq!(specs.len(), 1);
        assert_eq!((check_level(2, &specs), check_level(3, &specs)), (Ok(()), Ok(())));
        assert_eq!(
            check_level(1, &specs).unwrap_err().to_string(),
            "PARITY_LEVEL is `1`, expected at least 2 in CI: a lower level leaves out checkpoints of `a/b`"
        );
        for (level, expected) in [(None, 2), (Some(0), 0), (Some(5), 5)] {
            assert_eq!(Settings { level, ..plain() }.level_of(&specs[0]), expected);
        }
    }

    #[test]
    fn settings_survive_their_run_folder() {
        let settings = Settings { level: Some(3), inject: Inject::Also(vec!["a".into()]), ..plain() };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }
}
