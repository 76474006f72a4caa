//! The roots, settings and run folder that all specs of a suite share.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use mlx_parity_core::files::size;
use mlx_parity_core::results::trial_names;
use mlx_parity_core::run_folder::{
    BrokenSpec, Checkout, FORMAT, Plan, PlannedSpec, SPEC, Selection, SuiteEnd, SuiteFolder, TrialLine,
};
use mlx_parity_core::runs::{Going, Out, RunName};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Host, Inject, Spec, SpecError, Specs};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::program;

use super::Suite;
use super::checkout::checkout;
use super::loaded_specs::{unusable, with_twins};

/// The roots, settings and run folder that all specs of a suite share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) root: PathBuf,
    pub(super) spec_root: PathBuf,
    pub(super) fixture_root: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) out: Out,
    pub(super) settings: Settings,
    /// Why no trial can run; every trial fails with this message.
    pub(super) refused: Option<String>,
    /// The run's name, which also determines whether several processes share the run.
    pub(super) name: RunName,
    selection: Selection,
    target: String,
    started: String,
    ports: Vec<String>,
    /// The commit that is checked out, asked for once.
    checkout: OnceLock<Option<Checkout>>,
    /// The specs and broken spec files of the plan; unset while this process has read only one spec.
    known: OnceLock<(Vec<Arc<Spec>>, Vec<BrokenSpec>)>,
    going: OnceLock<Result<Going, String>>,
    /// Whether the size of fixtures and runs was reported.
    warned: Once,
    outcomes: Mutex<Outcomes>,
}

/// How the trials of this process ended.
#[derive(Debug, Default)]
struct Outcomes {
    lines: Vec<TrialLine>,
    /// How many of them are in the run folder.
    written: usize,
    file: Option<File>,
}

impl Context {
    pub(super) fn new(
        suite: &Suite,
        settings: Settings,
        refused: Option<String>,
        name: RunName,
        selection: Selection,
    ) -> Self {
        Self {
            root: suite.root.clone(),
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            snapshots: suite.snapshots.clone(),
            out: Out::of(&suite.root),
            settings,
            refused,
            name,
            selection,
            target: super::target(),
            started: now(),
            ports: suite.ports.keys().cloned().collect(),
            checkout: OnceLock::new(),
            known: OnceLock::new(),
            going: OnceLock::new(),
            warned: Once::new(),
            outcomes: Mutex::default(),
        }
    }

    /// Stores all specs and broken spec files below the spec root.
    pub(super) fn know(&self, specs: Vec<Arc<Spec>>, broken: Vec<&SpecError>) {
        let broken = broken.into_iter().map(broken_spec).collect();
        let _ = self.known.set((specs, broken));
    }

    /// Returns whether other processes run other trials of the same specs, as under nextest.
    pub(super) fn is_shared(&self) -> bool {
        self.name.is_shared()
    }

    /// Returns the run folder. The first call starts or joins the run and writes the plan.
    pub(super) fn run_folder(&self) -> Result<&Path, String> {
        let going = self.going.get_or_init(|| {
            let going = self.out.start(&self.name).map_err(|error| error_chain(&error))?;
            going.note.iter().for_each(|note| eprintln!("parity: {note}"));
            let suite = SuiteFolder::create(&going.folder, &self.suite_name());
            let planned = suite.and_then(|suite| {
                suite.plan(|| self.plan(&going.folder), &self.selection)?;
                suite.outcomes()
            });
            let mut outcomes = self.outcomes();
            outcomes.file = Some(planned.map_err(|error| error_chain(&error))?);
            outcomes.write();
            Ok(going)
        });
        going.as_ref().map(|going| going.folder.as_path()).map_err(Clone::clone)
    }

    /// Returns the folder of this suite in the run folder.
    pub(super) fn suite_folder(&self) -> Result<SuiteFolder, String> {
        let run = self.run_folder()?;
        SuiteFolder::create(run, &self.suite_name()).map_err(|error| error_chain(&error))
    }

    /// Returns the run folder if the run has started, or if a command or nextest started it: they read the folder even
    /// if no spec ran.
    pub(super) fn reported_folder(&self) -> Option<Result<&Path, String>> {
        let started = self.going.get().is_some();
        (started || self.name.is_joined()).then(|| self.run_folder())
    }

    /// Returns the path of the run folder for messages: relative to the project's root if it is inside.
    pub(super) fn shown(&self, folder: &Path) -> PathBuf {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        real.strip_prefix(&root).map_or_else(|_| real.clone(), Path::to_owned)
    }

    /// Returns the plan of this suite: its settings, its selection, and the trials of every spec.
    pub(super) fn plan(&self, folder: &Path) -> Plan {
        // A process that runs one trial has read only one spec.
        let (specs, broken) = self.known.get_or_init(|| {
            let Specs { specs, broken, unreadable, .. } = Specs::load(&self.spec_root);
            let broken = broken.iter().chain(&unreadable).map(broken_spec).collect();
            (with_twins(specs, self.settings.devices).into_iter().map(Arc::new).collect(), broken)
        });
        Plan {
            format: FORMAT,
            mlx_parity: env!("CARGO_PKG_VERSION").to_owned(),
            target: self.target.clone(),
            started: self.started.clone(),
            folder: self.shown(folder),
            checkout: self.checkout.get_or_init(|| checkout(&self.root)).clone(),
            settings: self.settings.clone(),
            selections: vec![self.selection.clone()],
            specs: specs.iter().map(|spec| self.planned(spec)).collect(),
            broken: broken.clone(),
            refused: self.refused.clone(),
        }
    }

    fn planned(&self, spec: &Spec) -> PlannedSpec {
        let level = self.settings.level_of(spec);
        let mut trials = trial_names(spec, level, &self.settings.inject);
        trials.extend(unusable(&self.ports, spec, level).map(|_| SPEC.to_owned()));
        PlannedSpec {
            id: spec.id.clone(),
            digest: spec.digest(),
            trials,
            inject: self.settings.inject_into(spec),
            unmet: self.unmet(spec),
        }
    }

    /// Returns the first requirement of the spec that this machine does not meet.
    pub(super) fn unmet(&self, spec: &Spec) -> Option<String> {
        if spec.twin.is_some() && self.settings.inject != Inject::Declared {
            return Some("is compared with a free run, but goldens are injected into this one".to_owned());
        }
        spec.unmet(&Host::here(&self.fixture_root, &spec.fixtures))
    }

    /// Returns how many bytes `PARITY_SIZE_LIMIT` leaves for this run. Warns once if fixtures and runs are above
    /// `PARITY_SIZE_WARN`.
    pub(super) fn room(&self) -> u64 {
        let (limits, taken) = (self.settings.sizes, self.out.taken(&self.fixture_root));
        if taken > limits.warn {
            self.warned.call_once(|| {
                eprintln!(
                    "parity: warning: fixtures and runs take {}; above {} no actual is kept; remove old runs with `{} clean`",
                    size::words(taken),
                    size::words(limits.stop),
                    program()
                );
            });
        }
        limits.stop.saturating_sub(taken)
    }

    /// Returns how many bytes `PARITY_KEEP_LIMIT` leaves for this run, which other processes may share.
    pub(super) fn keep_room(&self) -> u64 {
        let taken = self.run_folder().map_or(0, size::of_folder);
        self.settings.sizes.keep.saturating_sub(taken)
    }

    /// Adds how one trial ended. It is in the run folder at once, or as soon as the run starts.
    pub(super) fn add_outcome(&self, line: TrialLine) {
        let mut outcomes = self.outcomes();
        outcomes.lines.push(line);
        outcomes.write();
    }

    /// Returns how the trials of this process ended.
    pub(super) fn lines(&self) -> Vec<TrialLine> {
        self.outcomes().lines.clone()
    }

    /// Writes the end of the suite into the run folder, unless other processes belong to the suite.
    pub(super) fn end(&self, end: &SuiteEnd) -> Result<(), String> {
        let Some(folder) = self.reported_folder() else { return Ok(()) };
        let folder = folder?;
        if self.is_shared() {
            return Ok(());
        }
        let suite = SuiteFolder::create(folder, &self.suite_name());
        suite.and_then(|suite| suite.end(end)).map_err(|error| error_chain(&error))
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of this suite's folder. Test targets of two packages may have the same name.
    fn suite_name(&self) -> String {
        match std::env::var("CARGO_PKG_NAME") {
            Ok(package) if !package.is_empty() => format!("{package}.{}", self.target),
            _ => self.target.clone(),
        }
    }
}

impl Outcomes {
    /// Appends the lines that are not in the run folder yet. A line that cannot be written now is tried again with the next.
    fn write(&mut self) {
        let Self { lines, written, file: Some(file) } = self else { return };
        match TrialLine::append(&lines[*written..], file) {
            Ok(()) => *written = lines.len(),
            Err(error) => eprintln!("parity: cannot write the outcome of a trial: {error}"),
        }
    }
}

fn broken_spec(error: &SpecError) -> BrokenSpec {
    BrokenSpec { id: error.id.clone(), text: error.to_string() }
}

/// Returns the current time in UTC.
pub(super) fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
