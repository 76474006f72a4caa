//! The checkout: specs and fixtures, what stopped commands left, and room for more.

use std::path::Path;

use rustix::fs::statvfs;

use super::Check;
use crate::cli::regenerate::{left_behind, not_current};
use crate::cli::suite_target::check_suite_target;
use crate::cli::{Project, regenerate};
use crate::golden::Trust;
use crate::report::error_chain;
use crate::run::Out;
use crate::size::{self, Limits};
use crate::spec::Specs;
use crate::spec::list::counted;

pub(super) fn checks(project: &Project) -> Vec<Check> {
    let mut checks = vec![suite(project), fixtures(project)];
    checks.extend(left(project));
    checks.push(size(project));
    checks.push(disk(project.root()));
    checks
}

fn suite(project: &Project) -> Check {
    match check_suite_target(project) {
        Ok(_) => {
            Check::ok("suite", format!("test target `{}`, with `harness = false`", project.suite_target()))
        }
        Err(error) => Check::wrong("suite", error_chain(&error), Some(error.next())),
    }
}

fn fixtures(project: &Project) -> Check {
    let (spec_root, fixture_root) = (project.spec_root(), project.fixture_root());
    let found = Specs::load(&spec_root);
    let sets = match regenerate::plan(&found, &spec_root, &fixture_root, &[]) {
        Ok(sets) => sets,
        Err(error) => return Check::wrong("fixtures", error_chain(&error), error.next()),
    };
    let wrong = not_current(project, &sets, Trust::Nothing);
    match wrong.first() {
        None => {
            Check::ok("fixtures", format!("{} current, every checksum is right", counted(sets.len(), "set")))
        }
        Some((set, why)) => Check::wrong(
            "fixtures",
            format!("{} of {} not current; `{set}`: {why}", wrong.len(), counted(sets.len(), "set")),
            Some("run `cargo xtask regenerate-fixtures`".into()),
        ),
    }
}

/// What commands that were stopped left behind. Their locks went with them.
fn left(project: &Project) -> Option<Check> {
    let bytes = left_behind(&project.fixture_root())?;
    let found = format!("{} that a stopped regenerate-fixtures left", size::words(bytes));
    Some(Check::warn("leftovers", found, "run `cargo xtask regenerate-fixtures`, which removes them"))
}

fn size(project: &Project) -> Check {
    let fixtures = size::of_folder(&project.fixture_root());
    let runs = size::of_folder(&Out::of(project.root()).path().join("runs"));
    let found = format!("fixtures {}, runs {}", size::words(fixtures), size::words(runs));
    let next = || "remove runs in target/parity/runs or fixtures that nobody needs, or set PARITY_SIZE_LIMIT";
    match Limits::read() {
        Err(error) => Check::wrong("size", error_chain(&error), Some("give it a size, or unset it".into())),
        Ok(limits) if fixtures + runs > limits.stop => {
            let found = format!("{found}: above the limit of {}", size::words(limits.stop));
            Check::wrong("size", found, Some(next().into()))
        }
        Ok(limits) if fixtures + runs > limits.warn => Check::warn("size", found, next()),
        Ok(_) => Check::ok("size", found),
    }
}

/// A build of the workspace takes about a gigabyte, the largest of the references' environments four.
fn disk(root: &Path) -> Check {
    let free = match statvfs(root) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            return Check::warn("disk", format!("free space is not known: {error}"), "look at `df`");
        }
    };
    let found = format!("{} free", size::words(free));
    match free {
        0..1_000_000_000 => {
            Check::wrong("disk", found, Some("free some space: `cargo clean`, or remove .parity".into()))
        }
        1_000_000_000..5_000_000_000 => {
            Check::warn("disk", found, "free some space before references with torch are installed (4 GB)")
        }
        _ => Check::ok("disk", found),
    }
}
