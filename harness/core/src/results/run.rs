//! A whole run: the result of every spec that its suites planned.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::account::Account;
use super::run_data::RunData;
use super::summary::Summary;
use crate::preflight::DISCOVERY;
use crate::run_folder::{
    BrokenSpec, Checkout, Folder, FolderError, MergedRuns, Plan, PlannedSpec, SuiteEnd, SuiteFolder,
    TrialLine, TrialStatus,
};
use crate::runs::is_debug_session;
use crate::settings::Require;
use crate::text::error_chain;

/// The name of the trial that checks that MLX computes on this machine.
pub const SMOKE: &str = "parity::smoke";

/// The result of one spec.
#[derive(Debug, Clone)]
pub enum Fate {
    /// The spec ran or still runs. Each of its trials ended or is pending.
    Ran(Arc<Account>),
    /// This machine does not meet its requirements; holds the reason.
    Ignored(String),
    /// Its trials did not run or cannot be read; holds the reason.
    Failed(String),
    /// The spec was not run, although one of its trials was selected.
    NotRun,
    /// None of its trials was selected.
    NotAsked,
}

/// One spec of a run.
#[derive(Debug, Clone)]
pub struct SpecResult {
    /// The spec's id.
    pub id: String,
    /// The names of its trials at the run's level.
    pub trials: Vec<String>,
    /// The result.
    pub fate: Fate,
}

/// The results of a run, read only from its run folder.
#[derive(Debug, Clone, Default)]
pub struct RunResults {
    /// The specs, sorted by id.
    pub specs: Vec<SpecResult>,
    /// Whether specs and checkpoints are listed from the last to the first.
    pub is_backwards: bool,
    /// Selected spec files that cannot be used.
    pub broken: Vec<BrokenSpec>,
    /// Problems with the specs and fixtures as a whole; `None` if they were not checked.
    pub discovery: Option<Vec<String>>,
    /// Whether MLX computes here, by the trial [`SMOKE`]; `None` if it did not run. Its failure is in `others`.
    pub smoke: Option<bool>,
    /// How many trials a filter left out.
    pub not_selected: usize,
    /// Failures of trials that belong to no spec, and of the suites.
    pub others: Vec<String>,
    /// The test target of the suite, for the commands that rerun a trial.
    pub target: String,
    /// Suites that have not ended: they are still running or were killed.
    pub unended: Vec<String>,
    /// The run folder as messages show it.
    pub folder: PathBuf,
    /// When the first suite started, in UTC.
    pub started: String,
    /// The commit that was checked out, if it is known.
    pub checkout: Option<Checkout>,
    /// For a merged run: its parts. Its findings are in `others`, too.
    pub merged: Option<MergedRuns>,
}

/// The files of one suite in the run folder.
#[derive(Debug, Clone)]
pub struct SuiteData {
    /// The plan.
    pub plan: Plan,
    /// How the trials ended.
    pub trials: Vec<TrialLine>,
    /// How the suite ended, if it did.
    pub end: Option<SuiteEnd>,
}

impl SuiteData {
    /// Reads every suite of the run in `folder` that wrote a plan.
    ///
    /// # Errors
    /// When a file is damaged or has another format version, or when the folder belongs to a debug session.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, FolderError> {
        if is_debug_session(folder) {
            return Err(FolderError::Debug { path: folder.to_owned() });
        }
        let read = |suite: SuiteFolder| {
            let Some(plan) = suite.read_plan()? else { return Ok(None) };
            Ok(Some(Self { plan, trials: suite.read_trials()?, end: suite.read_end()? }))
        };
        SuiteFolder::all(folder).into_iter().filter_map(|suite| read(suite).transpose()).collect()
    }
}

/// Which specs a run should have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedSpecs {
    /// Those with a selected trial.
    Selected,
    /// Every spec that could be read: a filtered run left some out.
    Everything,
}

impl RunResults {
    /// Reads the run in `folder`.
    ///
    /// # Errors
    /// When a file of a suite is damaged or has another format version. A damaged folder of a spec makes that spec
    /// [`Fate::Failed`].
    pub fn read(folder: &Path, expected: ExpectedSpecs) -> Result<Self, FolderError> {
        let suites = SuiteData::read_all(folder)?;
        let merged = MergedRuns::read(folder)?;
        let lines = suites.iter().flat_map(|suite| &suite.trials).map(|line| (line.trial.as_str(), line));
        let judged: Option<HashMap<&str, &TrialLine>> = merged.as_ref().map(|_| lines.collect());
        let mut run =
            Self::of(&suites, expected, |planned, plan| from_folder(folder, planned, plan, judged.as_ref()));
        let findings = merged.iter().flat_map(|merged| &merged.findings).map(ToString::to_string);
        run.others.splice(0..0, findings);
        run.merged = merged;
        Ok(run)
    }

    /// Combines the results of `suites`. `ran` returns the result of a spec that started, and `None` for any other.
    pub fn of(
        suites: &[SuiteData],
        expected: ExpectedSpecs,
        mut ran: impl FnMut(&PlannedSpec, &Plan) -> Option<Fate>,
    ) -> Self {
        let mut run = Self::default();
        for SuiteData { plan, trials, end } in suites {
            run.target.clone_from(&plan.target);
            run.folder.clone_from(&plan.folder);
            run.checkout = run.checkout.or_else(|| plan.checkout.clone());
            if run.started.is_empty() || plan.started < run.started {
                run.started.clone_from(&plan.started);
            }
            if let Some(refused) = &plan.refused {
                // No trial of this suite means anything.
                run.others.push(refused.clone());
                continue;
            }
            for planned in &plan.specs {
                let left_out = |name: &&String| !plan.takes(&format!("{}::{name}", planned.id));
                run.not_selected += planned.trials.iter().filter(left_out).count();
                let fate = ran(planned, plan).unwrap_or_else(|| not_started(planned, plan, expected));
                run.add(SpecResult { id: planned.id.clone(), trials: planned.trials.clone(), fate });
            }
            let asked = |broken: &&BrokenSpec| {
                expected == ExpectedSpecs::Everything || plan.takes(&format!("{}::spec", broken.id))
            };
            run.broken.extend(plan.broken.iter().filter(asked).cloned());
            // A retry of nextest replaces the outcome of the attempt before.
            let last: HashMap<&str, &TrialLine> =
                trials.iter().map(|line| (line.trial.as_str(), line)).collect();
            for line in trials.iter().filter(|line| std::ptr::eq(last[line.trial.as_str()], *line)) {
                run.add_line(line, plan);
            }
            match end {
                Some(end) => run.others.extend(end.problem.clone()),
                // Under nextest, no process knows whether it is the last.
                None if plan.is_shared() => {}
                None => run.unended.push(plan.target.clone()),
            }
        }
        run.specs.sort_by(|a, b| a.id.cmp(&b.id));
        run
    }

    /// Adds a spec. If several suites planned it, the one that ran counts.
    fn add(&mut self, spec: SpecResult) {
        match self.specs.iter_mut().find(|known| known.id == spec.id) {
            None => self.specs.push(spec),
            Some(known) if matches!(known.fate, Fate::NotRun | Fate::NotAsked) => *known = spec,
            Some(_) => {}
        }
    }

    fn add_line(&mut self, line: &TrialLine, plan: &Plan) {
        if line.trial == DISCOVERY {
            let problems = line.text.iter().flat_map(|text| text.lines().map(str::to_owned));
            self.discovery.get_or_insert_default().extend(problems);
            return;
        }
        if line.trial == SMOKE {
            self.smoke = Some(line.status != TrialStatus::Failed);
        }
        if line.status != TrialStatus::Failed {
            return;
        }
        let id = line.trial.rsplit_once("::").map_or("", |(id, _)| id);
        if let Some(spec) = self.specs.iter_mut().find(|spec| spec.id == id) {
            // The folder of a spec holds the texts of its trials. Only what the folder cannot say has a text here.
            spec.fate = line.text.clone().map_or_else(|| spec.fate.clone(), Fate::Failed);
        } else if plan.broken.iter().all(|broken| broken.id != id) {
            let text = line.text.as_deref().unwrap_or("failed");
            let problem = format!("{}: {text}", line.trial);
            // No other result means anything if MLX does not compute.
            let at = if line.trial == SMOKE { 0 } else { self.others.len() };
            self.others.insert(at, problem);
        }
    }

    /// Returns whether the run has no result for any trial.
    pub fn is_empty(&self) -> bool {
        let nothing = |spec: &SpecResult| matches!(spec.fate, Fate::NotRun | Fate::NotAsked);
        self.broken.is_empty()
            && self.discovery.is_none()
            && self.smoke.is_none()
            && self.others.is_empty()
            && self.specs.iter().all(nothing)
    }

    /// Returns the specs that ran or still run.
    pub fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.specs.iter().filter_map(|spec| match &spec.fate {
            Fate::Ran(account) => Some(account),
            _ => None,
        })
    }

    /// Returns whether a port was stopped early because no later checkpoint was selected.
    pub fn is_stopped(&self) -> bool {
        self.accounts().any(|account| account.data.is_stopped())
    }

    /// Returns the counts. An unusable spec file counts as one failure.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary { not_selected: self.not_selected, ..Summary::default() };
        summary.passed += usize::from(self.smoke == Some(true));
        for spec in &self.specs {
            match &spec.fate {
                Fate::Ran(account) => {
                    summary.add(account);
                }
                Fate::Ignored(_) => {
                    summary.specs += 1;
                    summary.ignored += spec.trials.len();
                }
                Fate::Failed(_) => {
                    summary.specs += 1;
                    summary.failed += spec.trials.len();
                }
                Fate::NotRun => summary.not_run += 1,
                Fate::NotAsked => {}
            }
        }
        summary.specs += self.broken.len();
        summary.failed += self.broken.len() + self.others.len();
        match &self.discovery {
            Some(wrong) if wrong.is_empty() => summary.passed += 1,
            Some(_) => summary.failed += 1,
            None => {}
        }
        summary
    }
}

/// Reads the result of a spec from its folder; `None` when the spec was not started. In a merged run, `judged` has the outcomes
/// of all trials.
fn from_folder(
    run: &Path,
    planned: &PlannedSpec,
    plan: &Plan,
    judged: Option<&HashMap<&str, &TrialLine>>,
) -> Option<Fate> {
    let folder = Folder::at(run.join(&planned.id));
    let read = RunData::read(&folder).and_then(|data| match data {
        Some(data) => Ok(Some(data)),
        None => RunData::so_far(&folder),
    });
    match read {
        Ok(None) => None,
        Ok(Some(data)) => Some(match Account::of(data.shown_at(plan.folder.join(&planned.id))) {
            Ok(mut account) => {
                if let Some(judged) = judged {
                    account.judge_merged(&planned.trials, judged);
                }
                account.select(|trial| plan.takes(trial));
                Fate::Ran(Arc::new(account))
            }
            Err(error) => Fate::Failed(error_chain(&error)),
        }),
        Err(error) => Some(Fate::Failed(error_chain(&error))),
    }
}

fn not_started(planned: &PlannedSpec, plan: &Plan, expected: ExpectedSpecs) -> Fate {
    let takes = |name: &String| plan.takes(&format!("{}::{name}", planned.id));
    let asked = expected == ExpectedSpecs::Everything || planned.trials.iter().any(takes);
    match (&planned.unmet, plan.settings.require) {
        _ if !asked => Fate::NotAsked,
        (Some(reason), Require::All) => {
            Fate::Failed(format!("{reason}, and PARITY_REQUIRE=all does not allow ignored specs"))
        }
        (Some(reason), Require::Declared) => Fate::Ignored(reason.clone()),
        (None, _) => Fate::NotRun,
    }
}
