//! The machine: Rust, the C++ compiler, MLX, Python, uv, the device.

use std::path::Path;
use std::process::Command;

use super::DoctorCheck;
use crate::error::CommandError;
use crate::python::Python;
use crate::references::Uv;
use crate::rustc::{is_new_enough, rust_version};
use crate::{Project, setup};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::program;

pub(super) fn checks(project: &Project) -> Vec<DoctorCheck> {
    let mut checks = vec![rust(project.root())];
    if cfg!(target_os = "linux") {
        checks.push(match setup::compiler() {
            Ok(version) => DoctorCheck::ok("C++ compiler", version),
            Err(error) => DoctorCheck::wrong("C++ compiler", error_chain(&error), error.next()),
        });
    }
    checks.push(mlx(project));
    checks.push(device());
    checks.push(match Python::find() {
        Ok(python) => DoctorCheck::ok("Python", format!("{} at {}", python.version(), python.path())),
        Err(error) => DoctorCheck::wrong("Python", error_chain(&error), error.next()),
    });
    checks.extend(project.references_folder().map(|_| uv(project)));
    checks
}

/// Compares the compiler that this checkout gets with the oldest that it builds with.
fn rust(root: &Path) -> DoctorCheck {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("--version")
        .current_dir(root)
        .output();
    let found = match &output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return DoctorCheck::wrong(
                "Rust",
                format!("`rustc --version` failed: {reason}"),
                Some(RUSTUP.into()),
            );
        }
        Err(error) => {
            return DoctorCheck::wrong("Rust", format!("cannot run `rustc`: {error}"), Some(RUSTUP.into()));
        }
    };
    let Some(wanted) = rust_version(root) else { return DoctorCheck::ok("Rust", found) };
    if is_new_enough(&found, &wanted) {
        DoctorCheck::ok("Rust", format!("{found}, {wanted} or newer is needed"))
    } else {
        DoctorCheck::wrong("Rust", format!("{found}, but {wanted} or newer is needed"), Some(RUSTUP.into()))
    }
}

const RUSTUP: &str = "run `rustup update stable` (https://rustup.rs has rustup)";

fn mlx(project: &Project) -> DoctorCheck {
    match setup::state(project) {
        Ok((true, ready)) => DoctorCheck::ok("MLX", ready),
        Ok((false, why)) if project.sets_up() => {
            DoctorCheck::wrong("MLX", why, Some(format!("run `{} setup`", program())))
        }
        Ok((false, _)) => DoctorCheck::ok("MLX", "this repository provides it"),
        Err(error) => DoctorCheck::wrong("MLX", error_chain(&error), error.next()),
    }
}

/// The device that MLX will use, as far as that is known without starting MLX.
fn device() -> DoctorCheck {
    let arch = std::env::consts::ARCH;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    DoctorCheck::ok(
        "device",
        match std::env::consts::OS {
            "macos" => format!(
                "the GPU through Metal by default, or the CPU ({arch}, {cores} cores) where a spec asks for it"
            ),
            _ => format!("the CPU ({arch}, {cores} cores); specs that require a GPU are ignored"),
        },
    )
}

fn uv(project: &Project) -> DoctorCheck {
    if let Some(uv) = Uv::on_path() {
        return DoctorCheck::ok("uv", format!("{} on the path", uv.name()));
    }
    match Uv::fetched(project) {
        Some(uv) => DoctorCheck::ok("uv", format!("{} in .parity", uv.name())),
        None => DoctorCheck::ok(
            "uv",
            format!("not installed; `{} regenerate-fixtures` fetches it from PyPI", program()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_is_too_old_is_wrong() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("Cargo.toml"), "[workspace.package]\nrust-version = \"999.0\"\n")
            .unwrap();
        let check = rust(root.path());
        assert_eq!(check.state, crate::doctor::CheckState::Wrong, "{check:?}");
    }
}
