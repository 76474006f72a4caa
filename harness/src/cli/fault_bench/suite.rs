//! The suite with the faulty ports: how it is built, and how it is run.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use thiserror::Error;

use crate::cli::Project;
use crate::cli::cargo::cargo;
use crate::cli::project::Bench;
use crate::run::Asked;
use crate::settings::names::BENCH_SPECS;

/// Why the suite could not be run.
#[derive(Debug, Error)]
pub(crate) enum SuiteError {
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
    #[error("the binary `{binary}` of `{package}` could not be built")]
    Build { binary: String, package: String },
    #[error("Cargo built no binary `{binary}` of a package `{package}`")]
    NoBinary { binary: String, package: String },
    #[error("the suite of faults did not come to its end:\n{said}")]
    Ended { said: String },
}

/// What Cargo says of something that it built, as far as it matters here.
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
    /// The folder of its package, from which it finds the project: we start it in Cargo's place.
    package: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the suite, with what Cargo says on stderr, and finds it.
pub(super) fn build(project: &Project, bench: &Bench, release: bool) -> Result<Program, SuiteError> {
    let Bench { package, binary, .. } = bench;
    let mut command = cargo(project.root());
    // The whole workspace, as `cargo xtask test` has it: one package alone would be built with other features, anew.
    command.args(["build", "--workspace", "--bin", binary, "--message-format=json-render-diagnostics"]);
    command.args(release.then_some("--release"));
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| SuiteError::Start { program, source })?;
    if !output.status.success() {
        return Err(SuiteError::Build { binary: binary.clone(), package: package.clone() });
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let built = said.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
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

/// Whether that is the id of a package of that name: `path+file:///…#name@1.0.0`, or `path+file:///…/name#1.0.0`.
fn is_of(id: &str, package: &str) -> bool {
    let Some((path, rest)) = id.rsplit_once('#') else { return false };
    let name = rest.split_once('@').map_or_else(|| path.rsplit('/').next().unwrap_or(path), |(name, _)| name);
    name == package
}

/// One run of the suite.
pub(super) struct SuiteRun<'a> {
    pub(super) program: &'a Program,
    pub(super) specs: &'a Path,
    pub(super) fixtures: PathBuf,
    /// Where runs are kept, and what this one is called.
    pub(super) out: &'a Path,
    pub(super) key: &'a str,
    pub(super) variables: &'a [(&'a str, &'a str)],
    /// How many trials there are.
    pub(super) trials: u64,
    pub(super) label: &'a str,
}

impl SuiteRun<'_> {
    /// Runs it to its end. That trials fail is what it is for.
    pub(super) fn run(&self) -> Result<(), SuiteError> {
        let start = |source| SuiteError::Start { program: self.program.path.display().to_string(), source };
        let asked = Asked::new(self.out, BENCH_SPECS, self.specs).map_err(start)?;
        let mut command = Command::new(&self.program.path);
        for (name, _) in std::env::vars_os() {
            // What this command was started under is not what the bench is about.
            if ["NEXTEST", "PARITY_", "INSTA_"].iter().any(|p| name.to_string_lossy().starts_with(p)) {
                command.env_remove(name);
            }
        }
        // Nobody has accepted the statistics of faulty ports.
        command.args(["--skip", "::stats"]).env("INSTA_UPDATE", "no").env("PARITY_LEVEL", "255");
        command.envs(asked.variables()).env("PARITY_FIXTURES", &self.fixtures);
        command.env("CARGO_MANIFEST_DIR", &self.program.package);
        command.env("PARITY_OUT", self.out).env("PARITY_RUN", self.key).envs(self.variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(start)?;
        let progress = ProgressBar::new(self.trials).with_message(self.label.to_owned());
        if let Ok(style) = ProgressStyle::with_template("  {msg}  {wide_bar} {percent} %  {elapsed}") {
            progress.set_style(style);
        }
        let (mut ended, mut last) = (false, Vec::new());
        for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n')) {
            let line = String::from_utf8_lossy(&line.map_err(start)?).into_owned();
            if line.starts_with("test ") {
                progress.inc(1);
                ended |= line.starts_with("test result: ");
            } else if last.len() < LAST {
                last.push(line);
            }
        }
        progress.finish_and_clear();
        child.wait().map_err(start)?;
        if ended { Ok(()) } else { Err(SuiteError::Ended { said: last.join("\n").trim().to_owned() }) }
    }
}

/// How many lines of a suite that did not come to its end are shown.
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
