//! Several runs of one suite, split over processes or machines, as one run.
//!
//! A part *judged* the trials whose outcomes its suites recorded: under nextest the worker of a part measures every checkpoint
//! of a spec, but only the trials of its partition are judged there. The merged run proves that exactly one part judged each
//! declared trial. Everything else is a finding.

mod differences;
mod judged;
mod part;
mod specs;
mod suites;

use std::path::{Path, PathBuf};

use crate::run_folder::{MergeFinding, MergedRuns};

use super::run::SuiteData;
use judged::Judged;
pub use part::{PartError, RunPart};

/// How parts become one run folder.
#[derive(Debug)]
pub struct MergePlan {
    /// The suites of the merged run.
    pub suites: Vec<MergedSuite>,
    /// The specs that any part judged, sorted by id.
    pub specs: Vec<MergedSpec>,
    /// The content of `merge.json`.
    pub runs: MergedRuns,
}

/// A suite of a merged run.
#[derive(Debug)]
pub struct MergedSuite {
    /// The name of its folder.
    pub name: String,
    /// Its plan, outcomes and end.
    pub data: SuiteData,
    /// The folder with the result of the smoke test, from the part that ran it.
    pub smoke: Option<PathBuf>,
}

/// A spec of a merged run.
#[derive(Debug)]
pub struct MergedSpec {
    /// The spec's id.
    pub id: String,
    /// The position of the part whose folder stands for the spec.
    pub part: usize,
    /// The position of the part that compared the statistics, if it is another one.
    pub stats: Option<usize>,
}

/// Returns how `parts` become one run, whose folder messages show as `shown`. `findings` are those that are known so far, and
/// `given` the names of all runs, also of those that could not be read.
///
/// Specs are read one by one, so the most memory is that of one spec and its records.
pub fn merge(
    parts: &[RunPart],
    given: &[String],
    mut findings: Vec<MergeFinding>,
    shown: &Path,
) -> MergePlan {
    if let [run] = given {
        findings.push(MergeFinding::OnlyOne { run: run.clone() });
    }
    findings.extend(differences::missing_numbers(given));
    parts.iter().for_each(|part| findings.extend(part.own_findings()));
    findings.extend(differences::between(parts));
    let judged = Judged::of(parts);
    let specs = specs::look(parts, &judged);
    findings.extend(specs.findings);
    let suites = suites::merged(parts, &specs.classes, shown);
    MergePlan { suites, specs: specs.merged, runs: MergedRuns { parts: specs.parts, findings } }
}
