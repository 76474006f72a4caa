//! The run of the suite that a client started.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlx_parity_cli::Project;
use mlx_parity_cli::inspect::SuiteJob;

use crate::failure::{Failure, FailureKind};

/// The one run of the suite that a client started.
#[derive(Default)]
pub(super) struct SuiteRuns(Mutex<Slot>);

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    /// A thread starts the run.
    Starting,
    Run(Started),
}

/// A run and the spec that was asked for.
#[derive(Clone)]
pub(super) struct Started {
    pub(super) job: Arc<SuiteJob>,
    pub(super) spec: Option<String>,
}

impl SuiteRuns {
    /// Starts a run of one spec or of all.
    pub(super) fn start(&self, project: &Project, spec: Option<String>) -> Result<Started, Failure> {
        let busy = |message: String| {
            Failure::new(FailureKind::Conflict, message)
                .with_next("wait for it with run_status, or stop it with stop_run")
        };
        {
            let mut slot = self.slot();
            match &*slot {
                Slot::Starting => return Err(busy("a run is being started".to_owned())),
                Slot::Run(run) if !run.job.wait(std::time::Duration::ZERO) => {
                    return Err(busy(format!("the run {} goes on", run.job.name())));
                }
                _ => *slot = Slot::Starting,
            }
        }
        // A filter is a part of a trial's name, which starts with the spec.
        let filter = spec.as_deref().map(|spec| format!("{spec}::"));
        let started = SuiteJob::start(project, filter.as_deref());
        let mut slot = self.slot();
        match started {
            Ok(job) => {
                let run = Started { job: Arc::new(job), spec };
                *slot = Slot::Run(run.clone());
                Ok(run)
            }
            Err(problem) => {
                *slot = Slot::Empty;
                Err(Failure { kind: FailureKind::Internal, ..problem.into() })
            }
        }
    }

    /// The run that was started last.
    pub(super) fn current(&self) -> Result<Started, Failure> {
        match &*self.slot() {
            Slot::Run(run) => Ok(run.clone()),
            Slot::Starting => {
                Err(Failure::new(FailureKind::Conflict, "a run is being started; ask again in a moment"))
            }
            Slot::Empty => {
                let failure = Failure::new(FailureKind::Conflict, "no run was started in this session");
                Err(failure
                    .with_next("start one with run_spec, or read an earlier one with first_divergence"))
            }
        }
    }

    /// Stops the run, if it goes on. For the end of the server.
    pub(super) fn close(&self) {
        if let Slot::Run(run) = std::mem::take(&mut *self.slot()) {
            run.job.stop();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
