//! What the mutations of a spec led to, and the score.

use std::sync::Arc;

use serde::Serialize;

use super::log::MutationEvent;
use super::noticed::{Mutation, MutationResult, Noticed};
use crate::record::Record;

/// The results of all mutations of a spec so far.
#[derive(Debug, Default)]
pub struct MutationResults {
    /// The records of the checkpoints without any mutation, every hit.
    pub unmutated: Vec<Arc<Record>>,
    /// The results, in the order of the mutations.
    pub results: Vec<MutationResult>,
    /// How many mutations there will be.
    pub planned: usize,
    /// The mutation that was started and has no result yet.
    pub running: Option<Mutation>,
}

impl MutationResults {
    /// Collects the results from the events of a log.
    pub fn of(events: Vec<MutationEvent>) -> Self {
        let mut all = Self::default();
        for event in events {
            match event {
                MutationEvent::Unmutated(record) => all.unmutated.push(record),
                MutationEvent::Planned { count } => all.planned = count,
                MutationEvent::Started(mutation) => all.running = Some(mutation),
                MutationEvent::Finished(result) => {
                    all.running = None;
                    all.results.push(result);
                }
            }
        }
        all
    }

    /// Counts the results.
    pub fn score(&self) -> MutationScore {
        let mut score = MutationScore::default();
        for result in &self.results {
            match result.noticed {
                Noticed::Equivalent => score.equivalent += 1,
                Noticed::Itself => score.at_itself += 1,
                Noticed::Later(_) | Noticed::Port(_) => score.later += 1,
                Noticed::Never => score.survived += 1,
            }
        }
        score
    }
}

/// How many mutations were noticed, and where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MutationScore {
    /// Noticed by the mutated checkpoint.
    pub at_itself: usize,
    /// Noticed by a later checkpoint or by the port.
    pub later: usize,
    /// Noticed by nobody.
    pub survived: usize,
    /// Mutations that changed nothing. They do not count.
    pub equivalent: usize,
}

impl MutationScore {
    /// Mutations that somebody noticed.
    pub fn noticed(self) -> usize {
        self.at_itself + self.later
    }

    /// Mutations that could be noticed: all but the equivalent ones.
    pub fn noticeable(self) -> usize {
        self.noticed() + self.survived
    }

    /// The share that was noticed, in percent; `None` if no mutation could be noticed.
    pub fn percent(self) -> Option<f64> {
        (self.noticeable() > 0).then(|| 100.0 * self.noticed() as f64 / self.noticeable() as f64)
    }
}
