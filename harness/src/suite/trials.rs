//! The list of trials: one per checkpoint, and the trials for settings, discovery, fixtures, weights and statistics.

use std::collections::BTreeSet;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use super::Suite;
use super::case::Case;
use super::context::Context;
use super::loaded_specs::LoadedSpecs;
use super::smoke::smoke;
use mlx_parity_core::preflight::{DISCOVERY, discovery};
use mlx_parity_core::report::test_text;
use mlx_parity_core::results::{
    ADAPTERS, FIXTURE, MEMORY, SMOKE, SPEC, STATS, TrialOutcome, WEIGHTS, trial_names,
};
use mlx_parity_core::run_folder::{Selection, TrialLine, TrialStatus};
use mlx_parity_core::runs::RunName;
use mlx_parity_core::settings::{Require, Settings};
use mlx_parity_core::spec::{Inject, Spec, SpecError};
use mlx_parity_core::text::printable::{clean, clean_lines};

/// The name of the trial that fails when a setting is wrong; it exists only then.
const SETTINGS: &str = "parity::settings";

/// The case of a trial and the trial's name without the spec; `None` if the trial has no readable spec.
pub(super) type Owner = Option<(Arc<Case>, String)>;

/// The trials of a suite and their results.
pub(super) struct SuiteTrials {
    pub(super) trials: Vec<(Trial, Owner)>,
    pub(super) context: Arc<Context>,
    pub(super) cases: Vec<Arc<Case>>,
    /// Total number of trials.
    pub(super) declared: usize,
    /// The error of the first invalid spec file.
    broken: Option<String>,
}

impl SuiteTrials {
    pub(super) fn of(suite: &Suite, arguments: &Arguments, refused: Option<String>) -> Self {
        let loaded = match suite.misplaced {
            // The spec root belongs to another checkout.
            Some(_) => LoadedSpecs::default(),
            None => LoadedSpecs::of(suite, arguments),
        };
        let refused = refused.or_else(|| suite.misplaced.clone());
        let (settings, refused) = match refused.map_or_else(|| suite.settings(&loaded), Err) {
            Ok(settings) => (settings, None),
            Err(text) => (Settings::default(), Some(text)),
        };
        let is_part = arguments.filter.is_some() || !arguments.skip.is_empty();
        let whole_name = arguments.filter.as_deref().filter(|_| arguments.exact);
        let name = RunName::of_suite(whole_name, is_part);
        let selection = Selection {
            filter: arguments.filter.clone(),
            exact: arguments.exact,
            skip: arguments.skip.clone(),
            shared: name.is_shared(),
        };
        let context = Arc::new(Context::new(suite, settings, refused, name, selection));
        let LoadedSpecs { specs, broken, unreadable, whole } = loaded;
        let specs: Vec<Arc<Spec>> = specs.into_iter().map(Arc::new).collect();
        if whole {
            context.know(specs.clone(), broken.iter().chain(&unreadable).collect());
        }
        let mut all = Self {
            trials: Vec::new(),
            context,
            cases: Vec::new(),
            declared: 0,
            broken: broken.first().map(ToString::to_string),
        };
        match all.context.refused.clone() {
            Some(text) => all.refuse(suite, whole, &specs, &broken, &text),
            None => all.add_all(suite, whole, specs, &broken, unreadable.as_ref()),
        }
        all.expect(arguments);
        all
    }

    fn add_all(
        &mut self,
        suite: &Suite,
        whole: bool,
        specs: Vec<Arc<Spec>>,
        broken: &[SpecError],
        unreadable: Option<&SpecError>,
    ) {
        // The fault bench runs many specs in one process and counts their trials only.
        if whole && !suite.is_bench {
            let context = Arc::clone(&self.context);
            self.push(SMOKE.into(), None, false, move || {
                smoke(&context).map(|()| TrialOutcome::Passed).map_err(Failed::from)
            });
        }
        for error in broken {
            self.fail(format!("{}::{SPEC}", error.id), error.to_string());
        }
        let unmet: Vec<Option<String>> = specs.iter().map(|spec| self.context.unmet(spec)).collect();
        if let Some(error) = unreadable {
            self.fail(DISCOVERY.into(), error.to_string());
        } else if whole && broken.is_empty() {
            let ignored = match self.context.settings.require {
                Require::Declared => unmet.clone(),
                // The trials of a spec with an unmet requirement fail themselves.
                Require::All => vec![None; specs.len()],
            };
            let look = suite.discovery_of(specs.iter().cloned().zip(ignored).collect());
            self.push(DISCOVERY.into(), None, false, move || {
                let text = look().join("\n");
                if text.is_empty() { Ok(TrialOutcome::Passed) } else { Err(Failed::from(text)) }
            });
        }
        let kept: Vec<Vec<String>> = specs.iter().map(|spec| kept_for_twins(spec, &specs)).collect();
        for ((spec, unmet), keep) in specs.into_iter().zip(unmet).zip(kept) {
            let level = self.context.settings.level_of(&spec);
            let unusable = suite.unusable(&spec, level);
            let inject = self.context.settings.inject_into(&spec);
            let other =
                spec.twin.as_ref().and_then(|twin| self.cases.iter().find(|case| case.spec.id == twin.of));
            let (context, other) = (Arc::clone(&self.context), other.cloned());
            self.add(Arc::new(Case::new(context, spec, level, inject, other, keep, unusable)), unmet);
        }
    }

    /// Adds every trial that would exist, and makes each fail with `text`, so any filter selects a failing trial.
    fn refuse(&mut self, suite: &Suite, whole: bool, specs: &[Arc<Spec>], broken: &[SpecError], text: &str) {
        let mut names = vec![SETTINGS.to_owned()];
        names.extend((whole && !suite.is_bench).then(|| SMOKE.to_owned()));
        names.extend(whole.then(|| DISCOVERY.to_owned()));
        names.extend(broken.iter().map(|error| format!("{}::{SPEC}", error.id)));
        for spec in specs {
            // The level in the settings may be the wrong setting, so the spec's own level counts.
            let mut own = trial_names(spec, spec.level, &Inject::Declared);
            own.extend(suite.unusable(spec, spec.level).map(|_| SPEC.to_owned()));
            names.extend(own.iter().map(|name| format!("{}::{name}", spec.id)));
        }
        for name in names {
            self.fail(name, text.to_owned());
        }
    }

    /// Adds a failing trial if `--exact` names a trial that does not exist. nextest lists the trials first and runs each
    /// name later. If a trial were removed in between, no test would run and nextest would count a pass.
    fn expect(&mut self, arguments: &Arguments) {
        let Some(name) = arguments.filter.as_ref().filter(|_| arguments.exact && !arguments.list) else {
            return;
        };
        // `cargo test -- --exact` passes the name to every binary of a workspace. Names of our trials contain a slash.
        let ours = std::env::var_os("NEXTEST_RUN_ID").is_some()
            || name.split_once("::").is_some_and(|(id, _)| id.contains('/'));
        if !ours || self.trials.iter().any(|(trial, _)| trial.name() == name) {
            return;
        }
        let text = self.context.refused.clone().or_else(|| self.broken.clone());
        self.fail(
            name.clone(),
            text.unwrap_or_else(|| format!("trial `{name}` does not exist at this level")),
        );
    }

    /// Adds every trial of a case. If `ignored` gives a reason, the trials are ignored, or fail under
    /// `PARITY_REQUIRE=all`.
    fn add(&mut self, case: Arc<Case>, ignored: Option<String>) {
        let mut names = trial_names(&case.spec, case.level, &self.context.settings.inject);
        names.extend(case.unusable.is_some().then(|| SPEC.to_owned()));
        for name in names {
            let full = format!("{}::{name}", case.spec.id);
            let owner = Some((Arc::clone(&case), name.clone()));
            match (&ignored, self.context.settings.require) {
                (Some(reason), Require::All) => {
                    let text =
                        format!("{full}: {reason}, and PARITY_REQUIRE=all does not allow ignored specs");
                    self.push(full, owner, false, move || Err(Failed::from(text)));
                }
                _ => {
                    let of = Arc::clone(&case);
                    self.push(full, owner, ignored.is_some(), move || outcome(&of, &name));
                }
            }
        }
        self.cases.push(case);
    }

    fn fail(&mut self, name: String, text: String) {
        self.push(name, None, false, move || Err(Failed::from(text)));
    }

    fn push(
        &mut self,
        name: String,
        owner: Owner,
        ignored: bool,
        ends: impl FnOnce() -> Result<TrialOutcome, Failed> + Send + 'static,
    ) {
        let context = Arc::clone(&self.context);
        let case = owner.as_ref().map(|(case, _)| Arc::clone(case));
        // libtest prints names and messages without escaping control characters.
        let shown = clean(&name).into_owned();
        let trial = Trial::test(shown, move || {
            let ended = ends();
            let (status, class) = match &ended {
                Ok(TrialOutcome::NotGated(class)) => (TrialStatus::NotGated, *class),
                Ok(TrialOutcome::Approved(_)) => (TrialStatus::Approved, None),
                Ok(TrialOutcome::New(_)) => (TrialStatus::New, None),
                Ok(_) => (TrialStatus::Passed, None),
                Err(_) => (TrialStatus::Failed, None),
            };
            let message = |failed: &Failed| failed.message().unwrap_or_default().to_owned();
            // The spec's run folder already holds the texts of its trials, unless the spec has no account.
            let in_folder = case.is_some_and(|case| !matches!(case.account(), Some(Err(_))));
            let text = ended.as_ref().err().filter(|_| !in_folder).map(message);
            let line = TrialLine { trial: name, status, class, text };
            context.add_outcome(line);
            ended.map(|_| ()).map_err(|failed| clean_lines(&message(&failed)).into())
        });
        self.trials.push((trial.with_ignored_flag(ignored), owner));
        self.declared += 1;
    }

    /// Passes the selection to each case: whether to compare its statistics, and after which checkpoints the port may
    /// stop. A port runs to its end if a selected trial needs the whole run.
    pub(super) fn select(&mut self, arguments: &Arguments) {
        // Twins follow the run that they are compared with, which must then run to its end.
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        for case in self.cases.iter().rev() {
            let own = |(_, owner): &&(Trial, Owner)| {
                owner.as_ref().is_some_and(|(other, _)| Arc::ptr_eq(other, case))
            };
            let (selected, others): (Vec<_>, Vec<_>) =
                self.trials.iter().filter(own).partition(|(trial, _)| !arguments.is_filtered_out(trial));
            let names: Vec<String> =
                selected.iter().filter_map(|(_, owner)| Some(owner.as_ref()?.1.clone())).collect();
            if names.iter().any(|name| name == STATS) {
                case.want_stats();
            }
            let whole = [FIXTURE, WEIGHTS, ADAPTERS, MEMORY, STATS, SPEC]
                .iter()
                .any(|name| names.iter().any(|n| n == name));
            let is_needed = needed.contains(case.spec.id.as_str());
            if let Some(other) = case.other.as_ref().filter(|_| is_needed || !names.is_empty()) {
                needed.insert(&other.spec.id);
            }
            if !others.is_empty() {
                case.select(names.iter().cloned().collect());
                if !whole && !is_needed {
                    case.stop_after(names);
                }
            }
        }
    }
}

impl Suite {
    /// Returns the check behind the trial `parity::discovery`, which returns one line per problem. Other suites may use a
    /// fixture root outside the project, so fixtures there are not checked.
    fn discovery_of(
        &self,
        specs: Vec<(Arc<Spec>, Option<String>)>,
    ) -> impl FnOnce() -> Vec<String> + Send + 'static {
        let fixture_root = self.own_fixtures.then(|| self.fixture_root.clone());
        let spec_root = self.spec_root.clone();
        move || discovery(&specs, &spec_root, fixture_root.as_deref())
    }
}

/// Returns the checkpoints of `spec` that twins among `specs` are compared with.
fn kept_for_twins(spec: &Spec, specs: &[Arc<Spec>]) -> Vec<String> {
    let twins = specs.iter().filter(|other| other.twin.as_ref().is_some_and(|twin| twin.of == spec.id));
    let names: BTreeSet<&String> = twins.flat_map(|twin| Spec::kept_for(twin)).collect();
    names.into_iter().cloned().collect()
}

fn outcome(case: &Case, name: &str) -> Result<TrialOutcome, Failed> {
    let (account, trial) = case.trial(name).map_err(Failed::from)?;
    match &trial.outcome {
        // `Pending`: the process that ran the spec for this one was killed. The trial must not pass.
        TrialOutcome::Failed { .. } | TrialOutcome::Pending(_) => {
            Err(Failed::from(test_text(account, trial, &super::target())))
        }
        ended => Ok(ended.clone()),
    }
}
