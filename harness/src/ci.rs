//! Whether this is CI, where nothing is taken on trust.

/// Whether this process runs in CI.
pub(crate) fn in_ci() -> bool {
    says_ci(|name| std::env::var(name).ok())
}

/// Whether these variables are those of CI: `CI`, or Azure's own `TF_BUILD`, is set to something that is not a no.
pub(crate) fn says_ci(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    set("CI") || set("TF_BUILD")
}
