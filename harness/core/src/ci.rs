//! Detecting CI, where no cached checksum is trusted.

/// Whether this process runs in CI.
pub fn in_ci() -> bool {
    is_ci(|name| std::env::var(name).ok())
}

/// Whether the variables are those of CI: `CI`, or `TF_BUILD` on Azure, has a value other than empty, `0` or `false`.
pub fn is_ci(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    set("CI") || set("TF_BUILD")
}
