//! The names of all environment variables that begin with `PARITY_`.

use std::collections::BTreeSet;

use super::SETTINGS;
use crate::spec::{Requirement, Spec};
use crate::text::suggest::did_you_mean;

/// The beginning of all names.
const PREFIX: &str = "PARITY_";

/// Names the file of a request.
pub const ASKED: &str = "PARITY_ASKED";
/// The owner of a run, which a command sets for the suites that it starts.
pub const INVOCATION: &str = "PARITY_INVOCATION";
/// Turns the test binary into a worker; holds the path of its job.
pub const WORKER: &str = "PARITY_WORKER";
/// Turns the test binary into a comparison of one snapshot; holds the run folder.
pub const SNAPSHOT: &str = "PARITY_SNAPSHOT";
/// Turns the test binary into a check that MLX computes; holds the folder for its result.
pub const SMOKE: &str = "PARITY_SMOKE";
/// The spec root of a fault bench, set for its suite.
pub const BENCH_SPECS: &str = "PARITY_BENCH_SPECS";
/// Turns the test binary into a run of mutations; holds the id of the spec.
pub const MUTATE: &str = "PARITY_MUTATE";
/// Turns the test binary into a pass over shapes; holds the id of the spec.
pub const SHAPES: &str = "PARITY_SHAPES";
/// Turns the test binary into the suite of a debug session; holds the folder of the session.
pub const DEBUG: &str = "PARITY_DEBUG";

/// Variables that request a task from a suite instead of its tests. A leftover one in a shell would replace the tests, so
/// a suite accepts them only from a running process (see [`request`](fn@crate::runs::request)).
pub const REQUESTS: &[&str] = &[WORKER, SNAPSHOT, SMOKE, BENCH_SPECS, MUTATE, SHAPES, DEBUG];

/// Variables that one of our processes sets for another. They change no verdict.
pub const INTERNAL: &[&str] = &[
    ASKED,
    INVOCATION,
    "PARITY_EXPECT",
    "PARITY_EXTERNAL",
    "PARITY_LINT",
    "PARITY_NEW_INPUTS",
    "PARITY_REFERENCE",
    "PARITY_REPORT",
    "PARITY_REUSE",
    "PARITY_ROOT",
    "PARITY_SPREAD",
    "PARITY_VARIANT",
];

/// Returns the names that begin with `PARITY_` and have no meaning, sorted.
pub fn unknown<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a String> {
    names.into_iter().filter(|name| name.starts_with("PARITY_") && !is_known(name)).collect()
}

/// Returns whether a spec lists the variable in its `requires`, or finds external weights by it.
pub fn is_required(name: &str, specs: &[Spec]) -> bool {
    let of = |requirement: &Requirement| matches!(requirement, Requirement::Env(other) if other == name);
    let finds = |spec: &Spec| spec.external().is_some_and(|external| external.path.names_variable(name));
    specs.iter().any(|spec| spec.requires.iter().any(of) || finds(spec))
}

/// Returns a suggestion of similar settings for an unknown name, as the end of a message.
pub fn near_settings(name: &str) -> String {
    // The common beginning would make short names alike.
    let short = |name: &'static str| name.strip_prefix(PREFIX).unwrap_or(name);
    let own = name.strip_prefix(PREFIX).unwrap_or(name);
    let is_near = |other: &&'static str| *other != name && !did_you_mean(own, [short(other)]).is_empty();
    did_you_mean(name, SETTINGS.iter().map(|setting| setting.name).filter(is_near))
}

fn is_known(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name == name)
        || REQUESTS.contains(&name)
        || INTERNAL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_without_a_meaning_are_unknown() {
        let names = ["PARITY_LEVL", "PARITY_LEVEL", "PARITY_WORKER", "PARITY_REUSE", "HOME", "PARITY_A"];
        let names = names.map(str::to_owned);
        let found = unknown(&names);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["PARITY_A", "PARITY_LEVL"]);
        assert_eq!(near_settings("PARITY_LEVL"), ", did you mean `PARITY_LEVEL`?");
    }
}
