//! The list of trials, and what is said once they have run.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};

use super::Suite;
use super::case::{Case, Home};
use super::settings::{Require, Settings};
use crate::near::did_you_mean;
use crate::report::{ladder, trial_text};
use crate::run::{FIXTURE, Out, SPEC, STATS, Verdict, WEIGHTS, key, trial_names};
use crate::spec::{Host, Spec, SpecError, Specs};

/// Lists or runs the trials that `arguments` select.
pub(super) fn run(suite: &Suite, arguments: &Arguments) -> ExitCode {
    let mut suite_trials = Trials::of(suite, arguments);
    suite_trials.let_ports_stop_early(arguments);
    let Trials { trials, cases, ignored, .. } = suite_trials;
    let conclusion = libtest_mimic::run(arguments, trials.into_iter().map(|(trial, _)| trial).collect());
    if !arguments.list && arguments.format != Some(FormatSetting::Json) {
        ignored.iter().for_each(|line| println!("{line}"));
        for case in &cases {
            if let Some(Ok(endings)) = case.ended()
                && endings.iter().any(|ending| matches!(ending.verdict, Verdict::Failed { .. }))
            {
                println!("{}", ladder(&case.spec, &endings, false));
            }
        }
    }
    conclusion.exit_code()
}

/// The case that a trial belongs to and its name there, if its spec can be read.
type Owner = Option<(Arc<Case>, String)>;

/// The trials, and the cases behind them.
struct Trials {
    trials: Vec<(Trial, Owner)>,
    cases: Vec<Arc<Case>>,
    require: Require,
    /// Which specs do not run, and why; libtest has no place for reasons.
    ignored: Vec<String>,
}

impl Trials {
    fn of(suite: &Suite, arguments: &Arguments) -> Self {
        let mut all =
            Self { trials: Vec::new(), cases: Vec::new(), require: Require::Declared, ignored: Vec::new() };
        let settings = match Settings::from_env() {
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
            going: std::sync::OnceLock::new(),
        });
        let found = load(suite, arguments);
        if found.specs.is_empty() && found.broken.is_empty() {
            let what = found.unreadable.as_ref().map_or_else(
                || format!("no spec was found in `{}`", suite.spec_root.display()),
                SpecError::to_string,
            );
            let next = "a suite without specs proves nothing; put one at `<model>/<component>.yaml` there";
            all.fail("parity::discovery".into(), format!("{what}; {next}"));
        }
        for error in &found.broken {
            all.fail(format!("{}::{SPEC}", error.id), error.to_string());
        }
        for spec in found.specs {
            let level = settings.level.unwrap_or(spec.level);
            let unusable = (!suite.ports.contains_key(&spec.port)).then(|| {
                let near = did_you_mean(&spec.port, suite.ports.keys().map(String::as_str));
                format!("port `{}` is not registered with `Suite::port`{near}", spec.port)
            });
            let ignored = spec.unmet(&Host::here(&home.fixture_root, &spec.fixtures));
            all.add(Arc::new(Case::new(Arc::clone(&home), spec, level, unusable)), ignored);
        }
        all
    }

    /// Adds every trial of a case, ignored if there is a reason.
    fn add(&mut self, case: Arc<Case>, ignored: Option<String>) {
        let spec = &case.spec;
        let mut names = trial_names(spec, case.level);
        names.extend(case.unusable.is_some().then(|| SPEC.to_owned()));
        for name in names {
            let full = format!("{}::{name}", spec.id);
            let (asked, of) = (name.clone(), Arc::clone(&case));
            let trial = match (&ignored, self.require) {
                (Some(reason), Require::All) => {
                    let text =
                        format!("{full}: {reason}, and PARITY_REQUIRE=all allows nothing to be ignored");
                    Trial::test(full, move || Err(Failed::from(text)))
                }
                _ => Trial::test(full, move || verdict(&of, &asked)).with_ignored_flag(ignored.is_some()),
            };
            self.trials.push((trial, Some((Arc::clone(&case), name))));
        }
        if let Some(reason) = ignored.filter(|_| self.require == Require::Declared) {
            self.ignored.push(format!("{} is ignored: it {reason}", spec.id));
        }
        self.cases.push(case);
    }

    fn fail(&mut self, name: String, text: String) {
        self.trials.push((Trial::test(name, move || Err(Failed::from(text))), None));
    }

    /// Tells each case which of its checkpoints were selected, unless those are all or a trial needs the whole run.
    fn let_ports_stop_early(&mut self, arguments: &Arguments) {
        for case in &self.cases {
            let own = |(_, owner): &&(Trial, Owner)| {
                owner.as_ref().is_some_and(|(other, _)| Arc::ptr_eq(other, case))
            };
            let (selected, others): (Vec<_>, Vec<_>) =
                self.trials.iter().filter(own).partition(|(trial, _)| !arguments.is_filtered_out(trial));
            let names: Vec<String> =
                selected.iter().filter_map(|(_, owner)| Some(owner.as_ref()?.1.clone())).collect();
            let whole = [FIXTURE, WEIGHTS, STATS, SPEC].iter().any(|name| names.iter().any(|n| n == name));
            if !others.is_empty() && !whole {
                case.stop_after(names);
            }
        }
    }
}

/// What was found under the spec root.
struct Found {
    specs: Vec<Spec>,
    broken: Vec<SpecError>,
    unreadable: Option<SpecError>,
}

/// With `--exact` only the one spec is parsed, which is what keeps a process a test cheap. What is wrong with a file
/// is known only when all are looked at, as the list was made.
fn load(suite: &Suite, arguments: &Arguments) -> Found {
    let one = arguments.filter.as_deref().filter(|_| arguments.exact && !arguments.list);
    match one.and_then(|name| name.split_once("::")) {
        Some((id, name)) if id != "parity" && name != SPEC => match Specs::load_one(&suite.spec_root, id) {
            Ok(spec) => Found { specs: vec![spec], broken: Vec::new(), unreadable: None },
            Err(error) => Found { specs: Vec::new(), broken: vec![*error], unreadable: None },
        },
        _ => {
            let Specs { specs, broken, unreadable, .. } = Specs::load(&suite.spec_root);
            Found { specs, broken, unreadable }
        }
    }
}

fn verdict(case: &Case, name: &str) -> Result<(), Failed> {
    let ending = case.ending(name).map_err(Failed::from)?;
    match &ending.verdict {
        Verdict::Passed | Verdict::NotGated(_) => Ok(()),
        Verdict::Failed { .. } => Err(Failed::from(trial_text(&case.spec, ending))),
    }
}
