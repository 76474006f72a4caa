//! Conditions under which a spec runs. They are known when trials are listed.

use std::ffi::OsString;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::decode::{Decode, Reader};
use super::problem::quoted;
use super::yaml::{Node, YamlValue};
use crate::text::suggest::did_you_mean;

const WORDS: [&str; 4] = ["gpu", "macos", "linux", "fixtures"];

/// One entry of `requires`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Requirement {
    /// `gpu`: MLX has a GPU to run on.
    Gpu,
    /// `macos`: the tests run on macOS.
    Macos,
    /// `linux`: the tests run on Linux.
    Linux,
    /// `fixtures`: the fixture set exists. Without this requirement, a missing set is a failure.
    Fixtures,
    /// `env:NAME`: the environment variable is set and not empty.
    Env(String),
}

/// The facts that decide whether a [`Requirement`] is met.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The operating system, as `std::env::consts::OS` names it.
    pub os: &'a str,
    /// Whether MLX has a GPU to run on.
    pub gpu: bool,
    /// Whether the fixture set of the spec exists.
    pub fixtures: bool,
    /// Whether an environment variable is set and not empty.
    pub env: &'a dyn Fn(&str) -> bool,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Host<'static> {
    /// This machine, with the fixture set in `folder` of `fixture_root`.
    pub fn here(fixture_root: &std::path::Path, folder: &str) -> Self {
        Self {
            os: std::env::consts::OS,
            // Metal is the only GPU backend of mlx-rs. Asking MLX itself would start it.
            gpu: std::env::consts::OS == "macos",
            fixtures: fixture_root.join(folder).is_dir(),
            env: &|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()),
            variable: &|name| std::env::var_os(name),
        }
    }
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        match (text, text.strip_prefix("env:")) {
            ("gpu", _) => Some(Self::Gpu),
            ("macos", _) => Some(Self::Macos),
            ("linux", _) => Some(Self::Linux),
            ("fixtures", _) => Some(Self::Fixtures),
            (_, Some(name)) if is_variable(name) => Some(Self::Env(name.to_owned())),
            _ => None,
        }
    }

    /// Why the host does not meet it; `None` when it does.
    pub fn unmet(&self, host: &Host<'_>) -> Option<String> {
        let (met, reason) = match self {
            Self::Gpu => (host.gpu, "needs a GPU that MLX can use".to_owned()),
            Self::Macos => (host.os == "macos", format!("needs macOS, but this is {}", host.os)),
            Self::Linux => (host.os == "linux", format!("needs Linux, but this is {}", host.os)),
            Self::Fixtures => (host.fixtures, "needs its fixture set, which does not exist".to_owned()),
            Self::Env(name) => {
                ((host.env)(name), format!("needs the environment variable {name}, which is not set"))
            }
        };
        (!met).then_some(reason)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu => f.write_str("gpu"),
            Self::Macos => f.write_str("macos"),
            Self::Linux => f.write_str("linux"),
            Self::Fixtures => f.write_str("fixtures"),
            Self::Env(name) => write!(f, "env:{name}"),
        }
    }
}

impl Serialize for Requirement {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Requirement {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("unknown requirement `{text}`")))
    }
}

impl Decode for Requirement {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let YamlValue::Text(text) = &node.value else {
            reader.wanted(node, "one of `gpu`, `macos`, `linux`, `fixtures`, `env:NAME`");
            return None;
        };
        let found = Self::parse(text);
        if found.is_none() {
            let message = format!("unknown requirement {}{}", quoted(text), did_you_mean(text, WORDS));
            let allowed = "expected one of `gpu`, `macos`, `linux`, `fixtures`, `env:NAME`";
            reader.problem(&node.place, message, allowed);
        }
        found
    }
}

fn is_variable(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl JsonSchema for Requirement {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Requirement".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A condition that is known when trials are listed; if it is not met, the spec's trials are ignored with the reason.",
            "anyOf": [
                { "enum": WORDS },
                { "type": "string", "pattern": "^env:[A-Za-z_][A-Za-z0-9_]{0,99}$" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requirement_says_why_it_is_not_met() {
        let bare = Host { os: "linux", gpu: false, fixtures: false, env: &|_| false, variable: &|_| None };
        let full =
            Host { os: "macos", gpu: true, fixtures: true, env: &|name| name == "BIG", variable: &|_| None };
        let unmet = |requirement: &Requirement| requirement.unmet(&bare).unwrap();
        assert_eq!(unmet(&Requirement::Gpu), "needs a GPU that MLX can use");
        assert_eq!(unmet(&Requirement::Macos), "needs macOS, but this is linux");
        assert_eq!(unmet(&Requirement::Fixtures), "needs its fixture set, which does not exist");
        assert_eq!(
            unmet(&Requirement::Env("BIG".into())),
            "needs the environment variable BIG, which is not set"
        );
        assert_eq!(Requirement::Linux.unmet(&bare), None);
        assert_eq!(Requirement::Linux.unmet(&full).unwrap(), "needs Linux, but this is macos");
        for met in
            [Requirement::Gpu, Requirement::Macos, Requirement::Fixtures, Requirement::Env("BIG".into())]
        {
            assert_eq!(met.unmet(&full), None, "{met}");
        }
    }
}
