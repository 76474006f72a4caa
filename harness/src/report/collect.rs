//! A whole run, put together from the specs and the run's folder; no process needs to have seen all of it.

use std::path::Path;

use super::{Summary, error_chain, ladder};
use crate::run::{Ending, Folder, SPEC, Story, account, trial_names};
use crate::spec::{Host, Spec, SpecError, Specs};

/// What became of one spec.
pub(crate) enum Fate {
    /// It ran, and each of its trials ended.
    Ran(Vec<Ending>),
    /// What it requires is not met here.
    Ignored(String),
    /// It did not come to its trials, or they cannot be read.
    Failed(String),
    /// Nobody asked for it.
    NotRun,
}

/// A run as people read it.
pub(crate) struct Collected {
    pub(crate) specs: Vec<(Spec, Fate)>,
    pub(crate) broken: Vec<SpecError>,
    level: Option<u8>,
}

/// What the run was told, which its folder does not say.
pub(crate) struct Told<'a> {
    /// The level in place of each spec's own.
    pub(crate) level: Option<u8>,
    /// Only trials with this in their names.
    pub(crate) filter: Option<&'a str>,
    /// Whether what cannot run here fails.
    pub(crate) require_all: bool,
}

impl Collected {
    /// Reads every spec and what the run holds of it.
    pub(crate) fn read(spec_root: &Path, fixture_root: &Path, run: &Path, told: &Told<'_>) -> Self {
        let Specs { specs, mut broken, unreadable, .. } = Specs::load(spec_root);
        broken.extend(unreadable);
        broken.retain(|error| {
            told.filter.is_none_or(|filter| format!("{}::{SPEC}", error.id).contains(filter))
        });
        let specs = specs.into_iter().map(|spec| {
            let fate = fate(&spec, fixture_root, run, told);
            (spec, fate)
        });
        Self { specs: specs.collect(), broken, level: told.level }
    }

    /// Whether nothing at all was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.specs.iter().all(|(_, fate)| matches!(fate, Fate::NotRun))
    }

    /// The counts; what cannot be read counts as one failure.
    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (spec, fate) in &self.specs {
            match fate {
                Fate::Ran(endings) => summary.add(endings),
                Fate::Ignored(_) => {
                    summary.specs += 1;
                    summary.ignored += trial_names(spec, self.level.unwrap_or(spec.level)).len();
                }
                Fate::Failed(_) => {
                    summary.specs += 1;
                    summary.failed += 1;
                }
                Fate::NotRun => {}
            }
        }
        summary.specs += self.broken.len();
        summary.failed += self.broken.len();
        summary
    }

    /// Every ladder, one after the other.
    pub(crate) fn ladders(&self, colour: bool) -> String {
        let mut text = String::new();
        for error in &self.broken {
            text.push_str(&error.render(colour));
            text.push_str("\n\n");
        }
        for (spec, fate) in &self.specs {
            match fate {
                Fate::Ran(endings) => text.push_str(&ladder(spec, endings, colour)),
                Fate::Ignored(reason) => text.push_str(&format!("{}  ignored: it {reason}\n", spec.id)),
                Fate::Failed(problem) => text.push_str(&format!("{}  {problem}\n", spec.id)),
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
        Ok(Some(story)) => return Fate::Ran(account(spec, told.level.unwrap_or(spec.level), &story)),
        Err(error) => return Fate::Failed(error_chain(&error)),
        Ok(None) => {}
    }
    if folder.file("started").exists() {
        return Fate::Failed("was started, and the process that ran it was killed".to_owned());
    }
    let asked =
        |name: &String| told.filter.is_none_or(|filter| format!("{}::{name}", spec.id).contains(filter));
    let names = trial_names(spec, told.level.unwrap_or(spec.level));
    match spec.unmet(&Host::here(fixture_root, &spec.fixtures)) {
        Some(reason) if names.iter().any(asked) => match told.require_all {
            true => Fate::Failed(format!("{reason}, and PARITY_REQUIRE=all allows nothing to be ignored")),
            false => Fate::Ignored(reason),
        },
        _ => Fate::NotRun,
    }
}
