//! A whole run, put together from the specs and the run's folder; no process needs to have seen all of it.

use std::path::Path;

use super::{Summary, error_chain, ladder};
use crate::run::{Ending, Folder, Story, account};
use crate::spec::{Host, Spec, SpecError, Specs};

/// What became of one spec.
pub(crate) enum Fate {
    /// It ran, and each of its trials ended.
    Ran(Vec<Ending>),
    /// What it requires is not met here.
    Ignored(String),
    /// Its run cannot be read.
    Unreadable(String),
    /// Nobody asked for it.
    NotRun,
}

/// A run as people read it.
pub(crate) struct Collected {
    pub(crate) specs: Vec<(Spec, Fate)>,
    pub(crate) broken: Vec<SpecError>,
}

impl Collected {
    /// Reads every spec and what `run` holds of it. `level` is what the run was told to use in place of each spec's own.
    pub(crate) fn read(spec_root: &Path, fixture_root: &Path, run: &Path, level: Option<u8>) -> Self {
        let Specs { specs, broken, .. } = Specs::load(spec_root);
        let specs = specs.into_iter().map(|spec| {
            let fate = fate(&spec, fixture_root, run, level.unwrap_or(spec.level));
            (spec, fate)
        });
        Self { specs: specs.collect(), broken }
    }

    /// The counts; what cannot be read counts as one failure.
    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (spec, fate) in &self.specs {
            match fate {
                Fate::Ran(endings) => summary.add(endings),
                Fate::Ignored(_) => {
                    summary.specs += 1;
                    summary.ignored += spec.checkpoints.len();
                }
                Fate::Unreadable(_) => {
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
                Fate::Unreadable(problem) => text.push_str(&format!("{}  {problem}\n", spec.id)),
                Fate::NotRun => continue,
            }
            text.push('\n');
        }
        text
    }
}

fn fate(spec: &Spec, fixture_root: &Path, run: &Path, level: u8) -> Fate {
    match Story::read(&Folder::at(run.join(&spec.id))) {
        Ok(Some(story)) => Fate::Ran(account(spec, level, &story)),
        Ok(None) => match spec.unmet(&Host::here(fixture_root, &spec.fixtures)) {
            Some(reason) => Fate::Ignored(reason),
            None => Fate::NotRun,
        },
        Err(error) => Fate::Unreadable(error_chain(&error)),
    }
}
