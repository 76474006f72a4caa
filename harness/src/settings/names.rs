//! The names of environment variables that begin with `PARITY_`: every one that somebody reads.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::near::did_you_mean;
use crate::spec::{Requirement, Spec};

/// What each setting does when it is set.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("PARITY_LEVEL", "how deep the suite looks"),
    ("PARITY_REQUIRE", "what becomes of specs that cannot run here"),
    ("PARITY_FIXTURES", "where fixtures are"),
    ("PARITY_OUT", "where runs are kept"),
    ("PARITY_PYTHON", "which Python is used"),
    ("PARITY_LOCALISE", "injects every golden: verdicts are those of single stages"),
    ("PARITY_INJECT", "injects goldens: verdicts after them are not the port's own"),
    ("PARITY_TIMES", "runs ports again for their times"),
    ("PARITY_RUN", "what the run's folder is called"),
    ("PARITY_SIZE_WARN", "when the size of fixtures and runs is warned of"),
    ("PARITY_SIZE_LIMIT", "when the size of fixtures and runs is refused"),
];

/// Makes the test binary a worker: the path of its job.
pub(crate) const WORKER: &str = "PARITY_WORKER";
/// Makes it compare one snapshot: the folder of the run.
pub(crate) const SNAPSHOT: &str = "PARITY_SNAPSHOT";
/// Names the spec root of a fault bench to its suite.
pub(crate) const BENCH_SPECS: &str = "PARITY_BENCH_SPECS";
/// Makes it plant faults in a spec: the spec's id.
pub(crate) const MUTATE: &str = "PARITY_MUTATE";

/// Variables by which one process asks a suite for something else than its tests. Left over in a shell, each would
/// replace the tests, so a suite takes them only from a process that is still there (`run::asked`).
pub(crate) const REQUESTS: &[&str] = &[WORKER, SNAPSHOT, BENCH_SPECS, MUTATE];

/// Variables that one of our processes sets for another, and that change no verdict.
pub(crate) const INTERNAL: &[&str] = &[
    crate::run::ASKED,
    crate::run::INVOCATION,
    "PARITY_EXPECT",
    "PARITY_LINT",
    "PARITY_NEW_INPUTS",
    "PARITY_REFERENCE",
    "PARITY_REPORT",
    "PARITY_REUSE",
    "PARITY_ROOT",
    "PARITY_SPREAD",
    "PARITY_VARIANT",
];

/// The names that begin with `PARITY_` and mean nothing to anybody, by name.
pub(crate) fn unknown(names: impl IntoIterator<Item = OsString>) -> BTreeSet<String> {
    let names = names.into_iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("PARITY_") && !is_known(name)).collect()
}

/// Whether a spec has that variable in its `requires`, which gives it a meaning.
pub(crate) fn is_required(name: &str, specs: &[Spec]) -> bool {
    let of = |requirement: &Requirement| matches!(requirement, Requirement::Env(other) if other == name);
    specs.iter().any(|spec| spec.requires.iter().any(of))
}

/// The end of a message about an unknown name: the settings that were perhaps meant.
pub(crate) fn near_settings(name: &str) -> String {
    did_you_mean(name, SETTINGS.iter().map(|(known, _)| *known))
}

fn is_known(name: &str) -> bool {
    SETTINGS.iter().any(|(known, _)| *known == name) || REQUESTS.contains(&name) || INTERNAL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_reads_are_unknown() {
        let names = ["PARITY_LEVL", "PARITY_LEVEL", "PARITY_WORKER", "PARITY_REUSE", "HOME", "PARITY_A"];
        let found = unknown(names.map(OsString::from));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["PARITY_A", "PARITY_LEVL"]);
        assert_eq!(near_settings("PARITY_LEVL"), ", did you mean `PARITY_LEVEL`?");
    }
}
