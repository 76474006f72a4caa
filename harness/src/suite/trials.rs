//! The list of trials, and what is said once they have run.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};

use super::Suite;
use super::case::{Case, Home};
use super::loaded::Loaded;
use super::tell::tell;
use crate::printable::{clean, clean_lines};
use crate::report::{Summary, trial_text};
use crate::run::{DISCOVERY, FIXTURE, Out, RunName, SPEC, STATS, Verdict, WEIGHTS, discovery, trial_names};
use crate::settings::Require;
use crate::spec::{Host, Spec, SpecError};

/// The trial of what the environment says, there only when something is wrong with that.
const SETTINGS: &str = "parity::settings";

/// Lists or runs the trials that `arguments` select. Where `refused` says why nothing can be run, each of them fails with
/// that.
pub(super) fn run(suite: &Suite, arguments: &Arguments, refused: Option<String>) -> ExitCode {
    if arguments.test_threads == Some(0) {
        // As libtest has it; libtest-mimic would wait for threads that there are not.
        eprintln!("error: argument for --test-threads must not be 0");
        return ExitCode::from(101);
    }
    let mut all = Trials::of(suite, arguments, refused);
    all.select(arguments);
    let Trials { trials, told, .. } = all;
    let conclusion = libtest_mimic::run(arguments, trials.into_iter().map(|(trial, _)| trial).collect());
    if arguments.list {
        return ExitCode::SUCCESS;
    }
    tell(&told, arguments, &conclusion)
}

/// The case that a trial belongs to and its name there, if its spec can be read.
type Owner = Option<(Arc<Case>, String)>;

/// The trials, and what is needed to tell of them.
struct Trials {
    trials: Vec<(Trial, Owner)>,
    require: Require,
    told: Told,
}

/// What there is to tell once the trials have run.
pub(super) struct Told {
    pub(super) cases: Vec<Arc<Case>>,
    /// Specs that do not run, and why; libtest has no place for reasons.
    pub(super) ignored: Vec<(Arc<Spec>, String)>,
    /// Specs that cannot run here and had to.
    pub(super) required: Vec<(Arc<Spec>, String)>,
    pub(super) broken: Vec<SpecError>,
    /// What is wrong with specs and fixtures as a whole, once that was looked at.
    pub(super) discovery: Arc<Mutex<Option<Vec<String>>>>,
    /// Each trial counts itself here, so that none can be lost between ours and libtest's accounts.
    pub(super) counts: Arc<Mutex<Summary>>,
    /// How many trials there are in all.
    pub(super) declared: usize,
    /// Why nothing can be run at all: a setting, for example.
    pub(super) refused: Option<String>,
    pub(super) home: Option<Arc<Home>>,
}

impl Trials {
    fn of(suite: &Suite, arguments: &Arguments, refused: Option<String>) -> Self {
        let told = Told {
            cases: Vec::new(),
            ignored: Vec::new(),
            required: Vec::new(),
            broken: Vec::new(),
            discovery: Arc::default(),
            counts: Arc::default(),
            declared: 0,
            refused: None,
            home: None,
        };
        let mut all = Self { trials: Vec::new(), require: Require::Declared, told };
        let refused = refused.or_else(|| suite.misplaced.clone());
        let loaded = match suite.misplaced {
            // Another checkout's specs are none of ours.
            Some(_) => Loaded::default(),
            None => Loaded::of(suite, arguments),
        };
        let settings = match refused.map_or_else(|| suite.settings(&loaded), Err) {
            Ok(settings) => settings,
            Err(text) => {
                all.refuse(suite, arguments, &loaded, &text);
                return all;
            }
        };
        all.require = settings.require;
        let is_part = arguments.filter.is_some() || !arguments.skip.is_empty();
        let whole_name = arguments.filter.as_deref().filter(|_| arguments.exact);
        let name = RunName::of_suite(whole_name, is_part);
        let home = Arc::new(Home {
            root: suite.root.clone(),
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            snapshots: suite.snapshots.clone(),
            out: Out::of(&suite.root),
            shared: name.is_shared(),
            name,
            going: OnceLock::new(),
            times: settings.times,
        });
        let Loaded { specs, broken, unreadable, whole } = loaded;
        for error in &broken {
            all.fail(format!("{}::{SPEC}", error.id), error.to_string());
        }
        let specs: Vec<Arc<Spec>> = specs.into_iter().map(Arc::new).collect();
        let unmet = |spec: &Arc<Spec>| spec.unmet(&Host::here(&home.fixture_root, &spec.fixtures));
        let unmet: Vec<Option<String>> = specs.iter().map(unmet).collect();
        if let Some(error) = &unreadable {
            all.fail(DISCOVERY.into(), error.to_string());
        } else if whole && broken.is_empty() {
            let ignored = match settings.require {
                Require::Declared => unmet.clone(),
                // They are red by themselves.
                Require::All => vec![None; specs.len()],
            };
            let look = suite.discovery_of(specs.iter().cloned().zip(ignored).collect());
            let found = Arc::clone(&all.told.discovery);
            all.push(DISCOVERY.into(), None, false, move || {
                let wrong = look();
                let text = wrong.join("\n");
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(wrong);
                if text.is_empty() { Ok(Verdict::Passed) } else { Err(Failed::from(text)) }
            });
        }
        for (spec, ignored) in specs.into_iter().zip(unmet) {
            let level = settings.level_of(&spec);
            let unusable = suite.unusable(&spec, level);
            let inject = settings.inject_into(&spec);
            all.add(Arc::new(Case::new(Arc::clone(&home), spec, level, inject, unusable)), ignored);
        }
        all.told.home = Some(home);
        all.told.broken = broken;
        all.told.broken.extend(unreadable);
        all.expect(arguments);
        all
    }

    /// Lists every trial that there would be, and has each fail with `text`: whatever is selected of them, by whichever
    /// filter, is red.
    fn refuse(&mut self, suite: &Suite, arguments: &Arguments, loaded: &Loaded, text: &str) {
        self.told.refused = Some(text.to_owned());
        let mut names = vec![SETTINGS.to_owned()];
        names.extend(loaded.whole.then(|| DISCOVERY.to_owned()));
        names.extend(loaded.broken.iter().map(|error| format!("{}::{SPEC}", error.id)));
        for spec in &loaded.specs {
            // The level may be what is wrong.
            let mut own = trial_names(spec, spec.level);
            own.extend(suite.unusable(spec, spec.level).map(|_| SPEC.to_owned()));
            names.extend(own.iter().map(|name| format!("{}::{name}", spec.id)));
        }
        for name in names {
            self.fail(name, text.to_owned());
        }
        self.expect(arguments);
    }

    /// Makes sure that a trial which was asked for by its whole name is there. nextest lists first and runs each name
    /// later: what was removed or broken meanwhile would be no test at all, and pass.
    fn expect(&mut self, arguments: &Arguments) {
        let Some(name) = arguments.filter.as_ref().filter(|_| arguments.exact && !arguments.list) else {
            return;
        };
        // Any other test of a workspace may be asked for in every binary; the names of specs have a slash.
        let ours = std::env::var_os("NEXTEST_RUN_ID").is_some()
            || name.split_once("::").is_some_and(|(id, _)| id.contains('/'));
        if !ours || self.trials.iter().any(|(trial, _)| trial.name() == name) {
            return;
        }
        let text = match (&self.told.refused, self.told.broken.first()) {
            (Some(text), _) => text.clone(),
            (None, Some(error)) => error.to_string(),
            (None, None) => format!("`{name}` is not declared, or not at this level"),
        };
        self.fail(name.clone(), text);
    }

    /// Adds every trial of a case, ignored if there is a reason.
    fn add(&mut self, case: Arc<Case>, ignored: Option<String>) {
        let mut names = trial_names(&case.spec, case.level);
        names.extend(case.unusable.is_some().then(|| SPEC.to_owned()));
        for name in names {
            let full = format!("{}::{name}", case.spec.id);
            let owner = Some((Arc::clone(&case), name.clone()));
            match (&ignored, self.require) {
                (Some(reason), Require::All) => {
                    let text =
                        format!("{full}: {reason}, and PARITY_REQUIRE=all allows nothing to be ignored");
                    self.push(full, owner, false, move || Err(Failed::from(text)));
                }
                _ => {
                    let of = Arc::clone(&case);
                    self.push(full, owner, ignored.is_some(), move || verdict(&of, &name));
                }
            }
        }
        if let Some(reason) = ignored {
            let told = match self.require {
                Require::Declared => &mut self.told.ignored,
                Require::All => &mut self.told.required,
            };
            told.push((Arc::clone(&case.spec), reason));
        }
        self.told.cases.push(case);
    }

    fn fail(&mut self, name: String, text: String) {
        self.push(name, None, false, move || Err(Failed::from(text)));
    }

    fn push(
        &mut self,
        name: String,
        owner: Owner,
        ignored: bool,
        ends: impl FnOnce() -> Result<Verdict, Failed> + Send + 'static,
    ) {
        let counts = Arc::clone(&self.told.counts);
        // libtest prints both by itself.
        let trial = Trial::test(clean(&name), move || {
            let ended = ends();
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            match &ended {
                Ok(Verdict::NotGated(_)) => counts.not_gated += 1,
                Ok(_) => counts.passed += 1,
                Err(_) => counts.failed += 1,
            }
            ended.map(|_| ()).map_err(|failed| clean_lines(failed.message().unwrap_or_default()).into())
        });
        self.trials.push((trial.with_ignored_flag(ignored), owner));
        self.told.declared += 1;
    }

    /// Tells each case what of it was selected: whether its statistics are, and, unless a trial needs the whole run,
    /// after which checkpoints it may stop.
    fn select(&mut self, arguments: &Arguments) {
        for case in &self.told.cases {
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
            let whole = [FIXTURE, WEIGHTS, STATS, SPEC].iter().any(|name| names.iter().any(|n| n == name));
            if !others.is_empty() && !whole {
                case.stop_after(names);
            }
        }
    }
}

impl Suite {
    /// Looks, when it is called, for what is wrong with specs and fixtures as a whole. Fixtures that lie elsewhere may
    /// serve other suites too, so that there only specs are looked for.
    fn discovery_of(
        &self,
        specs: Vec<(Arc<Spec>, Option<String>)>,
    ) -> impl FnOnce() -> Vec<String> + Send + 'static {
        let fixture_root = self.own_fixtures.then(|| self.fixture_root.clone());
        let spec_root = self.spec_root.clone();
        move || discovery(&specs, &spec_root, fixture_root.as_deref())
    }
}

fn verdict(case: &Case, name: &str) -> Result<Verdict, Failed> {
    let (account, ending) = case.ending(name).map_err(Failed::from)?;
    match &ending.verdict {
        // Whoever ran the spec for this process was killed: not the port's fault, and no pass.
        Verdict::Failed { .. } | Verdict::Pending(_) => {
            Err(Failed::from(trial_text(&case.spec, account, ending, &super::target())))
        }
        ended => Ok(ended.clone()),
    }
}
