//! Specs become tests: one libtest-mimic trial a checkpoint, known before anything runs.

mod case;
mod loaded;
mod mutate;
mod stats;
mod tell;
mod trials;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::Arguments;

use crate::root::Place;
use crate::run::{Port, PortResult, Run, request, work};
use crate::settings::names::{BENCH_SPECS, SNAPSHOT, WORKER};

/// A parity suite: where specs and fixtures are, and the ports that they name.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use mlx_parity::Suite;
///
/// fn main() -> ExitCode {
///     Suite::new("..", "parity-specs", "fixtures")
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
    /// Why no trial of this suite could mean anything: its root is not that of the checkout that runs.
    misplaced: Option<String>,
}

impl Suite {
    /// A suite over the specs and the fixtures in these two folders of `root`, which is meant from the folder of the
    /// package that runs: `..` for a package in a folder of the repository, `.` for one that is the repository.
    ///
    /// That folder is the one that Cargo and nextest name when they run a test (`CARGO_MANIFEST_DIR`), so that a copied
    /// checkout tests itself. Where it is not set, `root` is meant from the current folder and must contain the running
    /// binary. An absolute `root` must contain the package, or the binary. Every trial fails where that does not hold.
    ///
    /// `PARITY_FIXTURES` names another fixture root, from `root`, for sets that are too large for the repository.
    pub fn new(root: impl AsRef<Path>, specs: impl AsRef<Path>, fixtures: impl AsRef<Path>) -> Self {
        let (root, misplaced) = match Place::here().suite_root(root.as_ref()) {
            Ok(root) => (root, None),
            Err(error) => (root.as_ref().to_owned(), Some(error.to_string())),
        };
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
            misplaced,
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
    /// When one of our own processes has started it for something else, it does that instead: a worker runs one spec,
    /// another process looks at one snapshot, and `cargo xtask mutate` has it plant faults.
    pub fn main(mut self) -> ExitCode {
        let refused = match request() {
            Ok(Some((WORKER, job))) => return work(Path::new(&job), &self.ports),
            Ok(Some((SNAPSHOT, folder))) => return stats::work(Path::new(&folder)),
            Ok(Some((BENCH_SPECS, specs))) if self.is_bench => {
                self.spec_root = PathBuf::from(specs);
                None
            }
            _ if self.is_bench => {
                eprintln!("these ports are wrong on purpose; run `cargo xtask fault-bench`");
                return ExitCode::FAILURE;
            }
            Ok(Some((BENCH_SPECS, _))) => Some(
                "this suite is no bench of faults: it has to say so with `Suite::fault_bench`".to_owned(),
            ),
            Ok(Some((_, spec))) => return mutate::run(&self, &spec.to_string_lossy()),
            Ok(None) => None,
            Err(stale) => Some(stale.to_string()),
        };
        trials::run(&self, &Arguments::from_args(), refused)
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
