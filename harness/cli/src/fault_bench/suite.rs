//! Builds and runs the suite whose ports have faults.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use thiserror::Error;

use crate::Project;
use crate::cargo::cargo;
use crate::project::Bench;
use mlx_parity_core::results::SuiteData;
use mlx_parity_core::runs::Asked;
use mlx_parity_core::settings::names::BENCH_SPECS;
use mlx_parity_core::text::printable::clean;

/// Why the suite could not be run.
#[derive(Debug, Error)]
pub(crate) enum SuiteError {
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
    #[error("the binary `{binary}` of `{package}` could not be built")]
    Build { binary: String, package: String },
    #[error("Cargo built no binary `{binary}` of a package `{package}`")]
    NoBinary { binary: String, package: String },
    #[error("the suite of faults did not finish; its last lines:\n{last}")]
    Ended { last: String },
}

/// The fields used from Cargo's message about an artifact.
#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    target: Target,
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
}

/// A suite that was built.
pub(super) struct Program {
    path: PathBuf,
    /// The folder of its package. The suite finds the project from it, as under Cargo.
    package: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the suite with Cargo's messages on stderr, and returns its executable.
pub(super) fn build(project: &Project, bench: &Bench, release: bool) -> Result<Program, SuiteError> {
    let Bench { package, binary, .. } = bench;
    let mut command = cargo(project.root());
    // `cargo xtask test` also builds the whole workspace. One package alone has other features and would be rebuilt.
    command.args(["build", "--workspace", "--bin", binary, "--message-format=json-render-diagnostics"]);
    command.args(release.then_some("--release"));
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| SuiteError::Start { program, source })?;
    if !output.status.success() {
        return Err(SuiteError::Build { binary: binary.clone(), package: package.clone() });
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let mut ours = built.filter(|artifact| {
        artifact.target.name == *binary
            && artifact.target.kind.iter().any(|kind| kind == "bin")
            && is_of(&artifact.package_id, package)
    });
    let program = |artifact: Artifact| {
        let package = artifact.manifest_path.parent()?.to_owned();
        Some(Program { path: artifact.executable?, package })
    };
    ours.find_map(program)
        .ok_or_else(|| SuiteError::NoBinary { binary: binary.clone(), package: package.clone() })
}

/// Whether `id` belongs to the package with this name: `path+file:///…#name@1.0.0`, or `path+file:///…/name#1.0.0`.
fn is_of(id: &str, package: &str) -> bool {
    let Some((path, rest)) = id.rsplit_once('#') else { return false };
    let name = rest.split_once('@').map_or_else(|| path.rsplit('/').next().unwrap_or(path), |(name, _)| name);
    name == package
}

/// One run of the suite.
pub(super) struct SuiteRun<'a> {
    /// The suite.
    pub(super) program: &'a Program,
    /// The spec root.
    pub(super) specs: &'a Path,
    /// The fixture root.
    pub(super) fixtures: PathBuf,
    /// The folder for runs.
    pub(super) out: &'a Path,
    /// The name of the run.
    pub(super) key: &'a str,
    /// Settings for the suite.
    pub(super) variables: &'a [(&'a str, &'a str)],
    /// The text beside the progress.
    pub(super) label: &'a str,
}

impl SuiteRun<'_> {
    /// Runs the suite and waits for it. Failing trials are expected.
    pub(super) fn run(&self) -> Result<(), SuiteError> {
        let start = |source| SuiteError::Start { program: self.program.path.display().to_string(), source };
        let asked = Asked::new(self.out, BENCH_SPECS, self.specs).map_err(start)?;
        let mut command = Command::new(&self.program.path);
        for (name, _) in std::env::vars_os() {
            // Settings of this command must not change the bench.
            if ["NEXTEST", "PARITY_", "INSTA_"].iter().any(|p| name.to_string_lossy().starts_with(p)) {
                command.env_remove(name);
            }
        }
        // Ports with faults have no accepted statistics.
        command.args(["--skip", "::stats"]).env("INSTA_UPDATE", "no").env("PARITY_LEVEL", "255");
        command.envs(asked.variables()).env("PARITY_FIXTURES", &self.fixtures);
        command.env("CARGO_MANIFEST_DIR", &self.program.package);
        command.env("PARITY_OUT", self.out).env("PARITY_RUN", self.key).envs(self.variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(start)?;
        let progress = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {prefix}  {elapsed}  {wide_msg}") {
            progress.set_style(style);
        }
        progress.set_prefix(self.label.to_owned());
        progress.enable_steady_tick(Duration::from_millis(100));
        let mut last = VecDeque::new();
        for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n')) {
            let line = String::from_utf8_lossy(&line.map_err(start)?).into_owned();
            progress.set_message(clean(&line).into_owned());
            last.push_back(line);
            if last.len() > LAST {
                last.pop_front();
            }
        }
        progress.finish_and_clear();
        child.wait().map_err(start)?;
        let suites = SuiteData::read_all(&self.out.join("runs").join(self.key)).unwrap_or_default();
        match suites.iter().any(|suite| suite.end.is_some()) {
            true => Ok(()),
            false => Err(SuiteError::Ended { last: Vec::from(last).join("\n").trim().to_owned() }),
        }
    }
}

/// How many lines of an unfinished suite are shown.
const LAST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_id() {
        assert!(is_of("path+file:///home/tests#parity-tests@0.1.0", "parity-tests"));
        assert!(is_of("path+file:///home/xtask#0.0.0", "xtask"));
        assert!(!is_of("path+file:///home/xtask#0.0.0", "task"));
        assert!(!is_of("path+file:///home/tests#other@0.1.0", "tests"));
    }
}
