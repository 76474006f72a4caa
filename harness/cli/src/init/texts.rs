//! The texts of files that the command writes anew.

use std::path::Path;

use mlx_parity_core::text::program::program;

/// The project of the reference environments, and its lock. uv made the lock from exactly this project.
pub(super) const PYPROJECT: &str = include_str!("environment/pyproject.toml");
pub(super) const UV_LOCK: &str = include_str!("environment/uv.lock");

/// Returns the named tolerances.
pub(super) fn policies() -> String {
    let ours = "# README.md in this folder explains how to choose a policy, and `bounds`.";
    let theirs = format!(
        "# {}/blob/main/parity-specs/README.md explains how to choose a policy, and `bounds`.",
        env!("CARGO_PKG_REPOSITORY")
    );
    include_str!("policies.yaml").replace(ours, &theirs)
}

/// Returns the suite, for a package that is `root` away from the project's root.
pub(super) fn suite(root: &Path, specs: &str, fixtures: &str) -> String {
    let root = root.to_string_lossy().replace('\\', "/");
    format!(
        "//! The parity suite: one test per checkpoint of the specs in `{specs}/`.\n\n\
         use std::process::ExitCode;\n\n\
         use mlx_parity::Suite;\n\n\
         fn main() -> ExitCode {{\n    \
             Suite::new({root:?}, {specs:?}, {fixtures:?})\n        \
                 // `{} new-spec` prints the call of `.port(…)` that belongs here, one per spec.\n        \
                 .main()\n\
         }}\n",
        program()
    )
}

/// Returns the configuration that makes the compiler print advice before MLX is set up on Linux.
pub(super) fn mlx_missing() -> String {
    let advice = format!(
        "rustc-env = {{ OUT_DIR = \"/MLX is not set up on this Linux machine: run `{} setup` once, then try again\" }}\n",
        program()
    );
    format!(
        "# Before set-up on Linux, the compiler prints that it cannot read `<OUT_DIR>/bindings.rs`, so OUT_DIR holds the \
         advice. Apple\n# targets are unaffected.\n[target.x86_64-unknown-linux-gnu.mlx]\n{advice}\n\
         [target.aarch64-unknown-linux-gnu.mlx]\n{advice}"
    )
}

/// Returns a `.gitignore` with the lines that are missing: builds, what set-up makes, and snapshots to review.
pub(super) fn gitignore(old: Option<&str>) -> String {
    let mut text = old.unwrap_or_default().to_owned();
    for wanted in ["/target", "/.parity", "*.snap.new"] {
        let bare = |line: &str| line.trim().trim_start_matches("**/").trim_matches('/').to_owned();
        if !text.lines().any(|line| bare(line) == bare(wanted)) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text += wanted;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlx_rs_versions::WANTED;

    #[test]
    fn lines_of_gitignore_are_added_once() {
        let all = gitignore(None);
        assert_eq!(all, "/target\n/.parity\n*.snap.new\n");
        assert_eq!(gitignore(Some(&all)), all);
        assert_eq!(gitignore(Some("# mine\ntarget/\nx")), "# mine\ntarget/\nx\n/.parity\n*.snap.new\n");
    }

    /// The same advice as in this repository, whose program is `cargo xtask`.
    #[test]
    fn the_advice_for_linux_is_that_of_this_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        assert_eq!(mlx_missing(), std::fs::read_to_string(root.join(".cargo/mlx-missing.toml")).unwrap());
        assert!(
            policies().contains("https://github.com/mlx-parity/mlx-parity/blob/main/parity-specs/README.md")
        );
        assert!(!WANTED.is_empty());
    }

    #[test]
    fn the_lock_belongs_to_the_environments() {
        let project: toml::Table = toml::from_str(PYPROJECT).unwrap();
        let lock: toml::Table = toml::from_str(UV_LOCK).unwrap();
        let packages = lock["package"].as_array().unwrap();
        let is_locked = |name: &str, version: &str| {
            let is = |key: &str, one: &toml::Value, text: &str| one[key].as_str() == Some(text);
            packages.iter().any(|one| is("name", one, name) && is("version", one, version))
        };
        for group in ["numpy", "torch"] {
            for requirement in project["dependency-groups"][group].as_array().unwrap() {
                let Some((name, version)) = requirement.as_str().and_then(|text| text.split_once("=="))
                else {
                    continue;
                };
                assert!(is_locked(name, version), "{name}");
            }
        }
        assert!(
            !UV_LOCK.contains("parity-export"),
            "the exporter comes with the program, never from an index"
        );
    }
}
