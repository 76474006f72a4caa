//! The table of all settings: name, valid values, default and effect.
//!
//! The parser, `doctor`, the help of the commands and the table in `docs/src/settings.md` use it.

use std::fmt;

use super::Settings;
use crate::files::size;
use crate::spec::{Device, Devices, Inject};

/// One environment variable that users set.
pub struct Setting {
    /// The variable's name.
    pub name: &'static str,
    /// An example, as `--help` shows it.
    pub example: &'static str,
    /// The value when the variable is not set.
    pub default: &'static str,
    /// The effect, as a sentence fragment that follows the name.
    pub help: &'static str,
    /// The valid values.
    pub values: Values,
}

/// The valid values of a setting, and where a value is stored.
pub enum Values {
    /// A whole number from 0 to `most`.
    Number {
        /// The largest number.
        most: u32,
        /// Stores the number.
        store: fn(&mut Settings, u32),
    },
    /// One of these words, each with the function that stores it.
    Words(&'static [Word]),
    /// Names, separated by commas.
    Names(fn(&mut Settings, Vec<String>)),
    /// A folder. An empty value is an error, because an empty path would be the project's root.
    Folder(fn(&mut Settings, String)),
    /// Any text.
    Text(fn(&mut Settings, String)),
    /// A number of bytes with or without a unit.
    Size(fn(&mut Settings, u64)),
}

/// A word that a setting may hold, and what it stores.
type Word = (&'static str, fn(&mut Settings));

/// All settings, in the order in which documents list them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "PARITY_LEVEL",
        example: "PARITY_LEVEL=2",
        default: "the spec's own level",
        help: "checks the checkpoints up to this level in every spec; CI refuses a level below a spec's own",
        values: Values::Number {
            most: 255,
            store: |settings, level| settings.level = u8::try_from(level).ok(),
        },
    },
    Setting {
        name: "PARITY_LOCALISE",
        example: "PARITY_LOCALISE=1",
        default: "0",
        help: "injects every golden, so that each stage is judged on golden inputs; refused in CI",
        values: Values::Words(&[("0", |_| ()), ("1", |settings| settings.inject = Inject::All)]),
    },
    Setting {
        name: "PARITY_INJECT",
        example: "PARITY_INJECT=norm,a/b::out",
        default: "what a spec's own `inject` names",
        help: "injects the goldens of these checkpoints too; refused in CI",
        values: Values::Names(|settings, names| {
            if settings.inject == Inject::Declared && !names.is_empty() {
                settings.inject = Inject::Also(names);
            }
        }),
    },
    Setting {
        name: "PARITY_PEEK",
        example: "PARITY_PEEK='blocks.*.q'",
        default: "no tap",
        help: "prints shape, dtype, min, max, mean, std and first values of the taps with these names, declared or not",
        values: Values::Names(|settings, patterns| settings.peek = patterns),
    },
    Setting {
        name: "PARITY_TIMES",
        example: "PARITY_TIMES=10",
        default: "0",
        help: "runs each port this many more times and shows the median time of each stage; then times as many runs without checks",
        values: Values::Number { most: 1000, store: |settings, times| settings.times = times },
    },
    Setting {
        name: "PARITY_DEVICE",
        example: "PARITY_DEVICE=cpu,gpu",
        default: "declared",
        help: "runs specs that name no `device` on this one; with two devices, runs them on both and compares the second run with the first",
        values: Values::Words(&[
            ("declared", |_| ()),
            ("cpu", |settings| settings.devices = Devices::One(Device::Cpu)),
            ("gpu", |settings| settings.devices = Devices::One(Device::Gpu)),
            ("cpu,gpu", |settings| settings.devices = Devices::Two(Device::Cpu, Device::Gpu)),
            ("cpu,cpu", |settings| settings.devices = Devices::Two(Device::Cpu, Device::Cpu)),
        ]),
    },
    Setting {
        name: "PARITY_REQUIRE",
        example: "PARITY_REQUIRE=all",
        default: "declared",
        help: "`all` fails specs that this machine cannot run, instead of ignoring them",
        values: Values::Words(&[
            ("declared", |_| ()),
            ("all", |settings| settings.require = super::Require::All),
        ]),
    },
    Setting {
        name: "PARITY_KEEP",
        example: "PARITY_KEEP=all",
        default: "failing",
        help: "`all` keeps the actuals of green checkpoints in the run folder too, for `show`",
        values: Values::Words(&[("failing", |_| ()), ("all", |settings| settings.keep = super::Keep::All)]),
    },
    Setting {
        name: "PARITY_KEEP_LIMIT",
        example: "PARITY_KEEP_LIMIT=5GB",
        default: "1 GB",
        help: "sets the size of a run above which it keeps no more actuals",
        values: Values::Size(|settings, bytes| settings.sizes.keep = bytes),
    },
    Setting {
        name: "PARITY_FIXTURES",
        example: "PARITY_FIXTURES=dir",
        default: "the project's own",
        help: "sets the fixture root, for sets that are too large for git",
        values: Values::Folder(|settings, folder| settings.fixtures = Some(folder)),
    },
    Setting {
        name: "PARITY_RUN",
        example: "PARITY_RUN=name",
        default: "the time and the process id",
        help: "names the run's folder, which is kept until the name is used again",
        values: Values::Text(|settings, name| settings.run = Some(name).filter(|name| !name.is_empty())),
    },
    Setting {
        name: "PARITY_OUT",
        example: "PARITY_OUT=dir",
        default: "`target/parity`",
        help: "sets the folder for runs",
        values: Values::Folder(|settings, folder| settings.out = Some(folder)),
    },
    Setting {
        name: "PARITY_PYTHON",
        example: "PARITY_PYTHON=python3.12",
        default: "`python3`",
        help: "sets the Python for set-up and for references",
        values: Values::Text(|settings, python| settings.python = Some(python)),
    },
    Setting {
        name: "PARITY_SIZE_WARN",
        example: "PARITY_SIZE_WARN=20GB",
        default: "1 GB",
        help: "sets the size of fixtures and runs above which commands and runs warn",
        values: Values::Size(|settings, bytes| settings.sizes.warn = bytes),
    },
    Setting {
        name: "PARITY_SIZE_LIMIT",
        example: "PARITY_SIZE_LIMIT=20GB",
        default: "10 GB",
        help: "sets the size of fixtures and runs above which `regenerate-fixtures` stops, and runs keep no actuals",
        values: Values::Size(|settings, bytes| settings.sizes.stop = bytes),
    },
];

impl Setting {
    /// Stores the value in `settings`; `None` when the value is invalid.
    pub(super) fn store(&self, settings: &mut Settings, value: &str) -> Option<()> {
        match &self.values {
            Values::Number { most, store } => {
                store(settings, value.parse().ok().filter(|number| number <= most)?);
            }
            Values::Words(words) => words.iter().find(|(word, _)| *word == value)?.1(settings),
            Values::Names(store) => {
                let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                store(settings, names.map(str::to_owned).collect());
            }
            Values::Folder(_) if value.is_empty() => return None,
            Values::Folder(store) | Values::Text(store) => store(settings, value.to_owned()),
            Values::Size(store) => store(settings, size::parse(value)?),
        }
        Some(())
    }
}

/// The valid values, as an error message lists them.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { most, .. } => write!(f, "a number from 0 to {most}"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                match words.split_last() {
                    Some((last, others)) if !others.is_empty() => {
                        write!(f, "{} or {last}", others.join(", "))
                    }
                    _ => f.write_str(&words.concat()),
                }
            }
            Self::Names(_) => f.write_str("names, separated by commas"),
            Self::Folder(_) => f.write_str("a folder; unset it for the project's own"),
            Self::Text(_) => f.write_str("a text"),
            Self::Size(_) => f.write_str("a size such as `500 MB`, `10 GB` or a number of bytes"),
        }
    }
}

/// Returns the table as the help of the commands shows it: an example per setting, and below it what the setting does.
pub fn help() -> String {
    SETTINGS.iter().map(|setting| format!("  {}\n      {}\n", setting.example, setting.help)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_this_table() {
        let page = include_str!("../../../../docs/src/settings.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `PARITY_")).collect();
        let expected: Vec<String> = SETTINGS
            .iter()
            .map(|setting| format!("| `{}` | {} | {} |", setting.example, setting.default, setting.help))
            .collect();
        assert_eq!(rows, expected, "paste these rows into docs/src/settings.md:\n{}", expected.join("\n"));
    }

    #[test]
    fn every_default_is_what_an_unset_variable_means() {
        for setting in SETTINGS {
            if let Values::Words(words) = &setting.values {
                assert!(words.iter().any(|(word, _)| *word == setting.default), "{}", setting.name);
            }
            assert!(setting.example.starts_with(setting.name) && !setting.help.ends_with('.'));
        }
    }
}
