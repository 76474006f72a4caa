//! Specs become tests: one libtest-mimic trial a checkpoint, known before anything runs.

mod case;
mod mutate;
mod settings;
mod stats;
mod tell;
mod trials;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::Arguments;

use crate::run::{BENCH_SPECS, Port, PortResult, Run, WORKER, work};

/// A parity suite: where specs and fixtures are, and the ports that they name.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use mlx_parity::Suite;
///
/// fn main() -> ExitCode {
///     Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "parity-specs", "fixtures")
///         .port("double", |run| {
///             mlx_parity_tap::tap("out", run.input("x")? * 2)?;
///             Ok(())
///         })
///         .main()
/// }
/// ```
pub struct Suite {
    root: PathBuf,
    spec_root: PathBuf,
    fixture_root: PathBuf,
    /// Whether the fixture root is the project's own, not one that other suites may use too.
    own_fixtures: bool,
    snapshots: PathBuf,
    ports: BTreeMap<String, Port>,
    /// Whether it runs only what `cargo xtask fault-bench` names.
    is_bench: bool,
}

impl Suite {
    /// A suite over the specs and the fixtures in these two folders of `root`.
    ///
    /// `PARITY_FIXTURES` names another fixture root, from `root`, for sets that are too large for the repository.
    pub fn new(root: impl AsRef<Path>, specs: impl AsRef<Path>, fixtures: impl AsRef<Path>) -> Self {
        let root = root.as_ref().canonicalize().unwrap_or_else(|_| root.as_ref().to_owned());
        let own = root.join(fixtures);
        let fixture_root =
            std::env::var_os("PARITY_FIXTURES").map_or_else(|| own.clone(), |other| root.join(other));
        let own_fixtures = fixture_root == own;
        let (spec_root, snapshots) = (root.join(specs), root.join("tests/snapshots"));
        Self {
            spec_root,
            fixture_root,
            own_fixtures,
            snapshots,
            root,
            ports: BTreeMap::new(),
            is_bench: false,
        }
    }

    /// Names another folder of `root` than `tests/snapshots` for the statistics that were accepted of each port.
    ///
    /// `cargo insta` finds those that lie in the folder of a package.
    pub fn snapshots(mut self, folder: impl AsRef<Path>) -> Self {
        self.snapshots = self.root.join(folder);
        self
    }

    /// Registers the port that specs name as `name`. The closure builds the model and runs its forward pass once.
    pub fn port(
        mut self,
        name: impl Into<String>,
        port: impl Fn(&Run) -> PortResult + Send + Sync + 'static,
    ) -> Self {
        self.ports.insert(name.into(), Box::new(port));
        self
    }

    /// Makes it the suite that `cargo xtask fault-bench` runs, whose specs are those that the command writes: each
    /// spec as it is, and once for each fault of its port with the port `<port>/<fault>`.
    ///
    /// It belongs in a binary of its own, and does nothing unless that command has started it.
    pub fn fault_bench(mut self) -> Self {
        self.is_bench = true;
        self
    }

    /// Runs as libtest would, with its arguments and its exit codes: 0 when all passed, 101 when any failed.
    ///
    /// When the process was started as a worker, it runs that one spec instead, or looks at one snapshot. With
    /// `PARITY_MUTATE` it plants faults in the spec that is named there, and runs no test.
    pub fn main(mut self) -> ExitCode {
        if self.is_bench {
            let Some(specs) = std::env::var_os(BENCH_SPECS) else {
                eprintln!("these ports are wrong on purpose; run `cargo xtask fault-bench`");
                return ExitCode::FAILURE;
            };
            self.spec_root = PathBuf::from(specs);
        }
        if let Some(job) = std::env::var_os(WORKER) {
            return work(Path::new(&job), &self.ports);
        }
        if let Some(folder) = std::env::var_os(stats::SNAPSHOT) {
            return stats::work(Path::new(&folder));
        }
        match std::env::var(mutate::MUTATE) {
            Ok(spec) if !spec.is_empty() => mutate::run(&self, &spec),
            _ => trials::run(&self, &Arguments::from_args()),
        }
    }
}

/// The test target that this process is: Cargo puts a hash behind its name.
fn target() -> String {
    let program = std::env::current_exe().ok();
    let stem = program.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_else(|| "parity".to_owned());
    match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            name.to_owned()
        }
        _ => stem,
    }
}
