//! The environment variables that a reference's script sees.
//!
//! A user's environment has tokens and passwords that no reference needs, and settings that change numbers. A script gets
//! the few variables that programs need to run at all, and those that its spec names.

use std::ffi::OsString;

/// Passed on to every script. The exporter's README lists them.
const PASSED: &[&str] = &[
    // Who runs it, and where its programs and files are.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    // Locale and time zone; `LC_` is a prefix.
    "LANG",
    "LANGUAGE",
    "TZ",
    // How the network is reached.
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // Where models that were downloaded are.
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_CACHE",
    "TRANSFORMERS_OFFLINE",
    "TORCH_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Passed on where nothing is locked: they choose the machine's Python.
const MACHINE: &[&str] = &["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE"];

/// Those of `all` that a script sees: the usual ones, and `named`.
pub(super) fn passed(
    all: impl Iterator<Item = (OsString, OsString)>,
    locked: bool,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &str| {
        PASSED.contains(&name)
            || name.starts_with("LC_")
            || (!locked && MACHINE.contains(&name))
            || named.iter().any(|one| one == name)
    };
    all.filter(|(name, _)| name.to_str().is_some_and(is_passed)).collect()
}

/// A variable that a failed script may have lacked: its message names the variable, which was set but not passed on.
pub(super) fn withheld<'a>(
    reason: &str,
    all: impl Iterator<Item = &'a str>,
    passed: &[(OsString, OsString)],
) -> Option<&'a str> {
    let words: Vec<&str> = reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    // Short names without an underscore may be ordinary words.
    let is_name = |name: &str| name.len() > 3 && name.contains('_') && !name.starts_with("PARITY_");
    let mut all = all.filter(|name| is_name(name) && words.contains(name));
    all.find(|name| !passed.iter().any(|(known, _)| known == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] =
        &["PATH", "LC_ALL", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MARK", "VIRTUAL_ENV", "OMP_NUM_THREADS"];

    fn names(locked: bool, named: &[&str]) -> Vec<String> {
        let all = ALL.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        passed(all, locked, &named).into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn secrets_and_settings_stay_with_the_command() {
        assert_eq!(names(true, &[]), ["PATH", "LC_ALL"]);
        assert_eq!(names(false, &[]), ["PATH", "LC_ALL", "VIRTUAL_ENV"]);
        assert_eq!(names(true, &["HF_TOKEN", "ABSENT"]), ["PATH", "LC_ALL", "HF_TOKEN"]);
    }

    #[test]
    fn a_variable_that_a_failed_script_speaks_of_is_named() {
        let passed = [(OsString::from("PATH"), OsString::new())];
        let found = |reason: &str| withheld(reason, ALL.iter().copied(), &passed);
        assert_eq!(found("KeyError: 'HF_TOKEN'"), Some("HF_TOKEN"));
        assert_eq!(found("set $AWS_SECRET_ACCESS_KEY first"), Some("AWS_SECRET_ACCESS_KEY"));
        assert_eq!(found("MARK is missing; see PATH, HF_TOKENS"), None);
    }
}
