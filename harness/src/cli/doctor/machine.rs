//! The machine: Rust, the C++ compiler, MLX, Python, uv, the device.

use std::path::Path;
use std::process::Command;

use super::Check;
use crate::cli::python::Python;
use crate::cli::references::Uv;
use crate::cli::{Project, setup};
use crate::regular;
use crate::report::error_chain;

pub(super) fn checks(project: &Project) -> Vec<Check> {
    let mut checks = vec![rust(project.root())];
    if cfg!(target_os = "linux") {
        checks.push(match setup::compiler() {
            Ok(version) => Check::ok("C++ compiler", version),
            Err(error) => Check::wrong("C++ compiler", error_chain(&error), error.next()),
        });
    }
    checks.push(mlx(project));
    checks.push(device());
    checks.push(match Python::find() {
        Ok(python) => Check::ok("Python", format!("{} at {}", python.version(), python.place())),
        Err(error) => Check::wrong("Python", error_chain(&error), error.next()),
    });
    checks.extend(project.references_folder().map(|_| uv(project)));
    checks
}

/// The compiler that this checkout gets against the oldest that it builds with.
fn rust(root: &Path) -> Check {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("--version")
        .current_dir(root)
        .output();
    let found = match &output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Check::wrong("Rust", format!("`rustc --version` failed: {said}"), Some(RUSTUP.into()));
        }
        Err(error) => {
            return Check::wrong("Rust", format!("cannot run `rustc`: {error}"), Some(RUSTUP.into()));
        }
    };
    let Some(wanted) = rust_version(root) else { return Check::ok("Rust", found) };
    let version = found.split_whitespace().nth(1).unwrap_or_default();
    if numbers(version) >= numbers(&wanted) {
        Check::ok("Rust", format!("{found}, {wanted} or newer is needed"))
    } else {
        Check::wrong("Rust", format!("{found}, but {wanted} or newer is needed"), Some(RUSTUP.into()))
    }
}

const RUSTUP: &str = "run `rustup update stable` (https://rustup.rs has rustup)";

/// `rust-version` of the workspace, or of the package, in the root.
fn rust_version(root: &Path) -> Option<String> {
    let manifest: toml::Table =
        toml::from_str(&regular::read_text(&root.join("Cargo.toml"), regular::TEXT).ok()?).ok()?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let package = package.or_else(|| manifest.get("package"))?;
    Some(package.get("rust-version")?.as_str()?.to_owned())
}

/// The parts of a version, without what follows a dash.
fn numbers(version: &str) -> Vec<u32> {
    let plain = version.split('-').next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn mlx(project: &Project) -> Check {
    match setup::state(project) {
        Ok((true, ready)) => Check::ok("MLX", ready),
        Ok((false, why)) if project.sets_up() => {
            Check::wrong("MLX", why, Some("run `cargo xtask setup`".into()))
        }
        Ok((false, _)) => Check::ok("MLX", "left to this repository"),
        Err(error) => Check::wrong("MLX", error_chain(&error), error.next()),
    }
}

/// What MLX will take, as far as that is known without starting it.
fn device() -> Check {
    let arch = std::env::consts::ARCH;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Check::ok(
        "device",
        match std::env::consts::OS {
            "macos" => format!(
                "the GPU through Metal by default, or the CPU ({arch}, {cores} cores) where a spec says so"
            ),
            _ => format!("the CPU ({arch}, {cores} cores); specs that require a GPU are ignored"),
        },
    )
}

fn uv(project: &Project) -> Check {
    if let Some(uv) = Uv::on_path() {
        return Check::ok("uv", format!("{} on the path", uv.name()));
    }
    match Uv::fetched(project) {
        Some(uv) => Check::ok("uv", format!("{} in .parity", uv.name())),
        None => Check::ok("uv", "not here; `cargo xtask regenerate-fixtures` fetches it from PyPI"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert!(numbers("1.100.0") > numbers("1.94"));
        assert!(numbers("1.94.0-nightly") >= numbers("1.94"));
        assert!(numbers("1.93.1") < numbers("1.94"));
    }

    #[test]
    fn the_oldest_rust_is_read_from_the_manifest() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(rust_version(root.path()), None);
        let path = root.path().join("Cargo.toml");
        std::fs::write(&path, "[package]\nrust-version = \"1.90\"\n").unwrap();
        assert_eq!(rust_version(root.path()).as_deref(), Some("1.90"));
        std::fs::write(&path, "[workspace.package]\nrust-version = \"999.0\"\n").unwrap();
        assert_eq!(rust_version(root.path()).as_deref(), Some("999.0"));
        let check = rust(root.path());
        assert_eq!(check.state, crate::cli::doctor::State::Wrong, "{check:?}");
    }
}
