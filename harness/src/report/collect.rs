//! A whole run as people read it, put together by the suite that ran it or from the run's folder.

use std::path::Path;
use std::sync::Arc;

use super::{Summary, error_chain, finding, ladder};
use crate::printable::{clean, coloured, indented};
use crate::run::{Account, DISCOVERY, Folder, Inject, SPEC, STARTED, Story, account, discovery, trial_names};
use crate::spec::{Host, Spec, SpecError, Specs};

/// What became of one spec.
pub(crate) enum Fate {
    /// It ran, or still runs, and each of its trials ended or is pending.
    Ran(Arc<Account>),
    /// What it requires is not met here.
    Ignored(String),
    /// It did not come to its trials, or they cannot be read.
    Failed(String),
    /// Nobody asked for it.
    NotRun,
}

impl Fate {
    /// That of a spec which cannot run here and has to.
    pub(crate) fn required(reason: &str) -> Self {
        Self::Failed(format!("{reason}, and PARITY_REQUIRE=all allows nothing to be ignored"))
    }
}

/// A run as people read it.
pub(crate) struct Collected {
    pub(crate) specs: Vec<(Arc<Spec>, Fate)>,
    pub(crate) broken: Vec<SpecError>,
    /// What is wrong with specs and fixtures as a whole, if that was asked.
    pub(crate) discovery: Option<Vec<String>>,
    /// The level in place of each spec's own, if that is higher.
    pub(crate) level: Option<u8>,
    /// Whether every spec should have been run.
    pub(crate) expects_all: bool,
}

/// What the run was told, which its folder does not say.
pub(crate) struct Told<'a> {
    /// The level in place of each spec's own.
    pub(crate) level: Option<u8>,
    /// Only trials with this in their names.
    pub(crate) filter: Option<&'a str>,
    /// Whether what cannot run here fails.
    pub(crate) require_all: bool,
    /// Whether the fixture root is the project's own.
    pub(crate) own_fixtures: bool,
}

impl Told<'_> {
    fn asks(&self, trial: &str) -> bool {
        self.filter.is_none_or(|filter| trial.contains(filter))
    }

    /// Why a spec is ignored here, if it is and the run does not hold it.
    fn ignores(&self, spec: &Spec, fixture_root: &Path, run: &Path) -> Option<String> {
        let ran = Folder::at(run.join(&spec.id)).file(STARTED).exists();
        let unmet = || spec.unmet(&Host::here(fixture_root, &spec.fixtures));
        if self.require_all || ran { None } else { unmet() }
    }
}

impl Collected {
    /// Reads every spec and what the run holds of it.
    pub(crate) fn read(spec_root: &Path, fixture_root: &Path, run: &Path, told: &Told<'_>) -> Self {
        let Specs { specs, mut broken, unreadable, .. } = Specs::load(spec_root);
        broken.extend(unreadable);
        let specs: Vec<Arc<Spec>> = specs.into_iter().map(Arc::new).collect();
        let discovery = (told.asks(DISCOVERY) && broken.is_empty()).then(|| {
            let specs: Vec<_> =
                specs.iter().map(|spec| (Arc::clone(spec), told.ignores(spec, fixture_root, run))).collect();
            discovery(&specs, spec_root, told.own_fixtures.then_some(fixture_root))
        });
        broken.retain(|error| told.asks(&format!("{}::{SPEC}", error.id)));
        let specs = specs.into_iter().map(|spec| {
            let fate = fate(&spec, fixture_root, run, told);
            (spec, fate)
        });
        let expects_all = told.filter.is_none();
        Self { specs: specs.collect(), broken, discovery, level: told.level, expects_all }
    }

    /// Whether a port was stopped, since nobody had asked for more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.specs.iter().any(|(_, fate)| matches!(fate, Fate::Ran(account) if account.story.is_stopped()))
    }

    /// Whether no spec was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.specs.iter().all(|(_, fate)| matches!(fate, Fate::NotRun))
    }

    /// The counts; what cannot be read counts as one failure.
    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (spec, fate) in &self.specs {
            match fate {
                Fate::Ran(account) => {
                    summary.add(&account.endings);
                    summary.injected |= account.story.inject().any(spec);
                }
                Fate::Ignored(_) => {
                    summary.specs += 1;
                    summary.ignored += self.trial_names(spec).len();
                }
                Fate::Failed(_) => {
                    summary.specs += 1;
                    summary.failed += self.trial_names(spec).len();
                }
                Fate::NotRun if self.expects_all => summary.not_run += 1,
                Fate::NotRun => {}
            }
        }
        summary.specs += self.broken.len();
        summary.failed += self.broken.len();
        match &self.discovery {
            Some(wrong) if wrong.is_empty() => summary.passed += 1,
            Some(_) => summary.failed += 1,
            None => {}
        }
        summary
    }

    /// The trials that a spec has in this run.
    pub(crate) fn trial_names(&self, spec: &Spec) -> Vec<String> {
        trial_names(spec, self.level.unwrap_or(0).max(spec.level))
    }

    /// What the specs ran in, one line each where they differ.
    pub(crate) fn environments(&self) -> Vec<String> {
        let ran = self.specs.iter().filter_map(|(_, fate)| match fate {
            Fate::Ran(account) => {
                account.story.environment().map(|environment| clean(&environment.to_string()).into_owned())
            }
            _ => None,
        });
        let mut lines: Vec<String> = ran.collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// Every ladder, one after the other, or only those of specs with something red; and what stands beside them.
    pub(crate) fn ladders(&self, only_red: bool, colour: bool) -> String {
        let mut text = String::new();
        for wrong in self.discovery.iter().flatten() {
            text.push_str(&format!("{DISCOVERY}  {}\n\n", indented(wrong, 2)));
        }
        for error in &self.broken {
            text.push_str(&coloured(&error.render(colour)));
            text.push_str("\n\n");
        }
        for (spec, fate) in &self.specs {
            match fate {
                Fate::Ran(account) => {
                    let localised = account.story.inject() == Inject::All;
                    if only_red && !account.is_red() && !localised {
                        continue;
                    }
                    text.push_str(&ladder(spec, account, colour));
                    if let Some(found) = account.finding(spec) {
                        text.push_str(&finding(spec, found, account.on_golden_inputs()));
                    }
                }
                Fate::Ignored(reason) => text.push_str(&format!("{}  ignored: it {reason}\n", spec.id)),
                Fate::Failed(problem) => text.push_str(&format!("{}  {}\n", spec.id, indented(problem, 2))),
                Fate::NotRun if self.expects_all => text.push_str(&format!("{}  was not run\n", spec.id)),
                Fate::NotRun => continue,
            }
            text.push('\n');
        }
        text
    }
}

fn fate(spec: &Spec, fixture_root: &Path, run: &Path, told: &Told<'_>) -> Fate {
    let folder = Folder::at(run.join(&spec.id));
    match Story::read(&folder) {
        Ok(Some(story)) => return Fate::Ran(Arc::new(account(spec, story))),
        Err(error) => return Fate::Failed(error_chain(&error)),
        Ok(None) => {}
    }
    match Story::so_far(&folder) {
        Ok(Some(story)) => return Fate::Ran(Arc::new(account(spec, story))),
        Err(error) => return Fate::Failed(error_chain(&error)),
        Ok(None) => {}
    }
    let names = trial_names(spec, told.level.unwrap_or(0).max(spec.level));
    match spec.unmet(&Host::here(fixture_root, &spec.fixtures)) {
        Some(reason) if names.iter().any(|name| told.asks(&format!("{}::{name}", spec.id))) => {
            match told.require_all {
                true => Fate::required(&reason),
                false => Fate::Ignored(reason),
            }
        }
        _ => Fate::NotRun,
    }
}
