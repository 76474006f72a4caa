//! The checkout: the suite, fixtures, leftovers of stopped commands, and disk space.

use std::path::Path;

use rustix::fs::statvfs;

use super::DoctorCheck;
use crate::error::CommandError;
use crate::regenerate::{leftover_bytes, not_current};
use crate::suite_target::check_suite_target;
use crate::{Project, mlx_rs_versions, regenerate};
use mlx_parity_core::files::size;
use mlx_parity_core::golden::Trust;
use mlx_parity_core::runs::Out;
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::Specs;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::program;

pub(super) fn checks(project: &Project) -> Vec<DoctorCheck> {
    let mut checks = vec![suite(project)];
    checks.extend(mlx_rs(project));
    checks.push(fixtures(project));
    checks.extend(left(project));
    checks.push(size(project));
    checks.push(disk(project.root()));
    checks
}

fn suite(project: &Project) -> DoctorCheck {
    match check_suite_target(project) {
        Ok(_) => DoctorCheck::ok(
            "suite",
            format!("test target `{}`, with `harness = false`", project.suite_target()),
        ),
        Err(error) => DoctorCheck::wrong("suite", error_chain(&error), Some(error.next())),
    }
}

/// A second mlx-rs, if the lock has one.
fn mlx_rs(project: &Project) -> Option<DoctorCheck> {
    let found = mlx_rs_versions::locked(project.root())?;
    Some(DoctorCheck::wrong("mlx-rs", found, Some(mlx_rs_versions::next())))
}

fn fixtures(project: &Project) -> DoctorCheck {
    let (spec_root, fixture_root) = (project.spec_root(), project.fixture_root());
    let found = Specs::load(&spec_root);
    let sets = match regenerate::plan(&found, &spec_root, &fixture_root, &[]) {
        Ok(sets) => sets,
        Err(error) => return DoctorCheck::wrong("fixtures", error_chain(&error), error.next()),
    };
    let wrong = not_current(project, &sets, Trust::Nothing);
    match wrong.first() {
        None => DoctorCheck::ok(
            "fixtures",
            format!("{} current, all checksums match", counted(sets.len(), "set")),
        ),
        Some((set, why)) => DoctorCheck::wrong(
            "fixtures",
            format!("{} of {} not current; `{set}`: {why}", wrong.len(), counted(sets.len(), "set")),
            Some(format!("run `{} regenerate-fixtures`", program())),
        ),
    }
}

/// What stopped commands left behind. Their locks ended with them.
fn left(project: &Project) -> Option<DoctorCheck> {
    let bytes = leftover_bytes(&project.fixture_root())?;
    let found = format!("{} left by an interrupted regenerate-fixtures", size::words(bytes));
    Some(DoctorCheck::warn(
        "leftovers",
        found,
        format!("run `{} regenerate-fixtures`, which removes them", program()),
    ))
}

fn size(project: &Project) -> DoctorCheck {
    let fixtures = size::of_folder(&project.fixture_root());
    let runs = size::of_folder(&Out::of(project.root()).path().join("runs"));
    let found = format!("fixtures {}, runs {}", size::words(fixtures), size::words(runs));
    let next =
        || format!("remove old runs with `{} clean`, remove fixtures, or raise PARITY_SIZE_LIMIT", program());
    match Settings::of_process().map(|settings| settings.sizes) {
        Err(error) => {
            DoctorCheck::wrong("size", error_chain(&error), Some("give it a size, or unset it".into()))
        }
        Ok(limits) if fixtures + runs > limits.stop => {
            let found = format!("{found}: above the limit of {}", size::words(limits.stop));
            DoctorCheck::wrong("size", found, Some(next()))
        }
        Ok(limits) if fixtures + runs > limits.warn => DoctorCheck::warn("size", found, next()),
        Ok(_) => DoctorCheck::ok("size", found),
    }
}

/// A build of the workspace takes about a gigabyte, the largest of the references' environments four.
fn disk(root: &Path) -> DoctorCheck {
    let free = match statvfs(root) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            return DoctorCheck::warn(
                "disk",
                format!("cannot read the free space: {error}"),
                "check the disk with `df`",
            );
        }
    };
    let found = format!("{} free", size::words(free));
    match free {
        0..1_000_000_000 => DoctorCheck::wrong(
            "disk",
            found,
            Some("free some space: `cargo clean`, or remove .parity".into()),
        ),
        1_000_000_000..5_000_000_000 => DoctorCheck::warn(
            "disk",
            found,
            "free some space before references with torch are installed (4 GB)",
        ),
        _ => DoctorCheck::ok("disk", found),
    }
}
