//! The list of trials, and what is said once they have run.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};

use super::Suite;
use super::case::{Case, Home};
use super::settings::{Require, SettingError, Settings};
use super::tell::tell;
use crate::near::did_you_mean;
use crate::printable::{clean, clean_lines};
use crate::report::{Summary, trial_text};
use crate::run::{
    DISCOVERY, FIXTURE, Inject, Out, SPEC, STATS, Verdict, WEIGHTS, discovery, key, trial_names,
};
use crate::spec::{Host, Spec, SpecError, Specs};

/// Lists or runs the trials that `arguments` select.
pub(super) fn run(suite: &Suite, arguments: &Arguments) -> ExitCode {
    let mut all = Trials::of(suite, arguments);
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
    pub(super) home: Option<Arc<Home>>,
}

impl Trials {
    fn of(suite: &Suite, arguments: &Arguments) -> Self {
        let told = Told {
            cases: Vec::new(),
            ignored: Vec::new(),
            required: Vec::new(),
            broken: Vec::new(),
            discovery: Arc::default(),
            counts: Arc::default(),
            declared: 0,
            home: None,
        };
        let mut all = Self { trials: Vec::new(), require: Require::Declared, told };
        let loaded = load(suite, arguments);
        let settings = Settings::from_env().and_then(|settings| match loaded.whole {
            true => known_names(settings, &loaded.specs),
            false => Ok(settings),
        });
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                all.fail("parity::settings".into(), error.to_string());
                return all;
            }
        };
        all.require = settings.require;
        let home = Arc::new(Home {
            root: suite.root.clone(),
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            snapshots: suite.snapshots.clone(),
            out: Out::of(&suite.root),
            key: key(),
            shared: std::env::var_os("NEXTEST_RUN_ID").is_some(),
            going: OnceLock::new(),
            times: settings.times,
        });
        let Loaded { specs, broken, unreadable, whole } = loaded;
        for error in &broken {
            all.fail(format!("{}::{SPEC}", error.id), error.to_string());
        }
        let specs: Vec<Arc<Spec>> = specs.into_iter().map(Arc::new).collect();
        if let Some(error) = &unreadable {
            all.fail(DISCOVERY.into(), error.to_string());
        } else if whole && broken.is_empty() {
            let (look, found) = (suite.discovery_of(specs.clone()), Arc::clone(&all.told.discovery));
            all.push(DISCOVERY.into(), None, false, move || {
                let wrong = look();
                let text = wrong.join("\n");
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(wrong);
                if text.is_empty() { Ok(Verdict::Passed) } else { Err(Failed::from(text)) }
            });
        }
        for spec in specs {
            // Never fewer than the spec itself asks for: a checkpoint that is not looked at is not green.
            let level = settings.level.unwrap_or(0).max(spec.level);
            let unusable = (!suite.ports.contains_key(&spec.port)).then(|| {
                let near = did_you_mean(&spec.port, suite.ports.keys().map(String::as_str));
                format!("port `{}` is not registered with `Suite::port`{near}", spec.port)
            });
            let ignored = spec.unmet(&Host::here(&home.fixture_root, &spec.fixtures));
            let inject = inject_into(&spec, &settings.inject);
            all.add(Arc::new(Case::new(Arc::clone(&home), spec, level, inject, unusable)), ignored);
        }
        all.told.home = Some(home);
        all.told.broken = broken;
        all.told.broken.extend(unreadable);
        all.expect(arguments);
        all
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
        let text = match self.told.broken.first() {
            Some(error) => error.to_string(),
            None => format!("`{name}` is not declared, or not at this level"),
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

/// What was found under the spec root.
struct Loaded {
    specs: Vec<Spec>,
    broken: Vec<SpecError>,
    unreadable: Option<SpecError>,
    /// Whether all of it was looked at.
    whole: bool,
}

/// With `--exact` only the one spec is parsed, which is what keeps a process a test cheap. What is wrong with a file
/// is known only when all are looked at, as the list was made.
fn load(suite: &Suite, arguments: &Arguments) -> Loaded {
    let one = arguments.filter.as_deref().filter(|_| arguments.exact && !arguments.list);
    match one.and_then(|name| name.split_once("::")) {
        Some((id, name)) if id != "parity" && name != SPEC => {
            let (specs, broken) = match Specs::load_one(&suite.spec_root, id) {
                Ok(spec) => (vec![spec], Vec::new()),
                Err(error) => (Vec::new(), vec![*error]),
            };
            Loaded { specs, broken, unreadable: None, whole: false }
        }
        _ => {
            let Specs { specs, broken, unreadable, .. } = Specs::load(&suite.spec_root);
            Loaded { specs, broken, unreadable, whole: true }
        }
    }
}

impl Suite {
    /// Looks, when it is called, for what is wrong with specs and fixtures as a whole. Fixtures that lie elsewhere may
    /// serve other suites too, so that there only specs are looked for.
    fn discovery_of(&self, specs: Vec<Arc<Spec>>) -> impl FnOnce() -> Vec<String> + Send + 'static {
        let fixture_root = self.own_fixtures.then(|| self.fixture_root.clone());
        let spec_root = self.spec_root.clone();
        move || discovery(&specs, &spec_root, fixture_root.as_deref())
    }
}

/// Holds the names of `PARITY_INJECT` against the specs: a slip would inject nothing, and nobody would know.
fn known_names(settings: Settings, specs: &[Spec]) -> Result<Settings, SettingError> {
    let Inject::Also(names) = &settings.inject else { return Ok(settings) };
    for name in names {
        let takes = |spec: &Spec| inject_into(spec, &Inject::Also(vec![name.clone()])) != Inject::Declared;
        if !specs.iter().any(takes) {
            let all = specs.iter().flat_map(|spec| spec.checkpoints.iter().map(|c| c.name.as_str()));
            let near = did_you_mean(name, all);
            let allowed = format!("checkpoints that have goldens, as `name` or `spec::name`{near}");
            return Err(SettingError { variable: "PARITY_INJECT", found: name.clone(), allowed });
        }
    }
    Ok(settings)
}

/// What the settings inject into this spec.
fn inject_into(spec: &Spec, settings: &Inject) -> Inject {
    let Inject::Also(names) = settings else { return settings.clone() };
    let short = |name: &String| match name.split_once("::") {
        Some((id, name)) => (id == spec.id).then(|| name.to_owned()),
        None => Some(name.clone()),
    };
    let own = names.iter().filter_map(short);
    let own: Vec<String> =
        own.filter(|name| spec.checkpoint(name).is_some_and(|c| c.needs_golden())).collect();
    if own.is_empty() { Inject::Declared } else { Inject::Also(own) }
}

fn verdict(case: &Case, name: &str) -> Result<Verdict, Failed> {
    let (account, ending) = case.ending(name).map_err(Failed::from)?;
    match &ending.verdict {
        Verdict::Failed { .. } => {
            Err(Failed::from(trial_text(&case.spec, account, ending, &super::target())))
        }
        ended => Ok(ended.clone()),
    }
}
