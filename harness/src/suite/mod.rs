//! Turns specs into tests: one libtest-mimic trial per checkpoint, listed before any port runs.

mod case;
mod checkout;
mod conclusion;
mod context;
mod debug;
mod execute;
mod loaded_specs;
mod mutate;
mod prepared_spec;
mod shapes;
mod smoke;
mod snapshot;
mod trials;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::Arguments;

use crate::worker::{Port, PortResult, Run, smoke as work_smoke, work};
use mlx_parity_core::root::ProcessPlace;
use mlx_parity_core::runs::request;
use mlx_parity_core::settings::names::{BENCH_SPECS, DEBUG, SHAPES, SMOKE, SNAPSHOT, WORKER};
use mlx_parity_core::settings::variable;
use mlx_parity_core::text::program::{program, program_of, set_program};

/// A parity suite: the folders of specs and fixtures, and the ports that the specs name.
///
/// Build it with [`Suite::new`], register the ports with [`Suite::port`], and end with [`Suite::main`]:
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
    /// Whether the fixture root is the project's own folder, and not one that `PARITY_FIXTURES` names.
    own_fixtures: bool,
    snapshots: PathBuf,
    ports: BTreeMap<String, Port>,
    /// Whether this suite only runs under `cargo xtask fault-bench`.
    is_bench: bool,
    /// Why every trial fails: `root` is outside the checkout that this process belongs to.
    misplaced: Option<String>,
}

impl Suite {
    /// Returns a suite without ports. `specs` and `fixtures` are folders inside `root`.
    ///
    /// `root` is the project's root, relative to the package that runs: `..` for a package in a folder of the
    /// repository, `.` for a package at the root of the repository. The package's folder is `CARGO_MANIFEST_DIR`, which
    /// Cargo and nextest set when they run a test, so a copied checkout tests itself. If the variable is not set,
    /// `root` is relative to the current folder and must contain the running binary. An absolute `root` must contain the
    /// package, or the binary if the variable is not set. If `root` breaks these rules, every trial fails.
    ///
    /// `PARITY_FIXTURES` replaces the fixture folder, for sets that are too large for the repository. A relative path
    /// starts at `root`.
    pub fn new(root: impl AsRef<Path>, specs: impl AsRef<Path>, fixtures: impl AsRef<Path>) -> Self {
        let (root, misplaced) = match ProcessPlace::here().suite_root(root.as_ref()) {
            Ok(root) => (root, None),
            Err(error) => (root.as_ref().to_owned(), Some(error.to_string())),
        };
        set_program(program_of(&root));
        let own = root.join(fixtures);
        let fixture_root = variable("PARITY_FIXTURES").map_or_else(|| own.clone(), |other| root.join(other));
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

    /// Sets the folder of the accepted statistics, relative to `root`. The default is `tests/snapshots`.
    ///
    /// `cargo insta` only finds snapshots inside the folder of a package.
    pub fn snapshots(mut self, folder: impl AsRef<Path>) -> Self {
        self.snapshots = self.root.join(folder);
        self
    }

    /// Registers a port. Specs refer to it as `port: <name>`; a second port with the same name replaces the first.
    ///
    /// The closure builds the model and runs its forward pass once. It may be called several times in one process.
    pub fn port(
        mut self,
        name: impl Into<String>,
        port: impl Fn(&Run) -> PortResult + Send + Sync + 'static,
    ) -> Self {
        self.ports.insert(name.into(), Box::new(port));
        self
    }

    /// Registers a variant of a port: the closure runs the same model in another way, such as with padding, in chunks or
    /// compiled. Specs declare it under `twins: {<name>: …}`, and compare its taps with those of another run.
    ///
    /// ```no_run
    /// # fn forward(x: &mlx_rs::Array) -> Result<mlx_rs::Array, mlx_rs::error::Exception> { Ok(x.clone()) }
    /// # let suite = mlx_parity::Suite::new(".", "parity-specs", "fixtures");
    /// suite
    ///     .port("llama::decoder", |run| {
    ///         mlx_parity_tap::tap("out", forward(&run.input("ids")?)?)?;
    ///         Ok(())
    ///     })
    ///     .twin("llama::decoder", "twice", |run| {
    ///         forward(&run.input("ids")?)?;
    ///         mlx_parity_tap::tap("out", forward(&run.input("ids")?)?)?;
    ///         Ok(())
    ///     });
    /// ```
    pub fn twin(
        self,
        port: &str,
        name: &str,
        variant: impl Fn(&Run) -> PortResult + Send + Sync + 'static,
    ) -> Self {
        self.port(format!("{port}+{name}"), variant)
    }

    /// Makes this the suite that `cargo xtask fault-bench` runs. The command writes the specs: each spec unchanged, and
    /// once per fault with the port `<port>/<fault>`.
    ///
    /// Such a suite needs its own test binary. If anything but the command starts it, [`Suite::main`] prints a hint and
    /// returns exit code 1.
    pub fn fault_bench(mut self) -> Self {
        self.is_bench = true;
        self
    }

    /// Lists or runs the tests with libtest's arguments, and returns libtest's exit code: 0 if no test failed, 101 if
    /// any failed.
    ///
    /// The harness also starts this binary for other tasks: to run one spec (a worker), to check that MLX computes, to
    /// compare one snapshot, for the commands `mutate` and `shapes`, and for a debug session. `main` then does that task instead.
    pub fn main(mut self) -> ExitCode {
        let refused = match request() {
            Ok(Some((WORKER, job))) => return work(Path::new(&job), &self.ports),
            Ok(Some((SNAPSHOT, folder))) => return snapshot::work(Path::new(&folder)),
            Ok(Some((SMOKE, folder))) => return work_smoke(Path::new(&folder)),
            Ok(Some((BENCH_SPECS, specs))) if self.is_bench => {
                self.spec_root = PathBuf::from(specs);
                None
            }
            _ if self.is_bench => {
                eprintln!("the ports of this suite have faults; run `{} fault-bench`", program());
                return ExitCode::FAILURE;
            }
            Ok(Some((BENCH_SPECS, _))) => {
                Some("this suite is not a fault bench; call `Suite::fault_bench` before `main`".to_owned())
            }
            Ok(Some((DEBUG, folder))) => return debug::run(&self, Path::new(&folder)),
            Ok(Some((SHAPES, spec))) => return shapes::run(&self, &spec.to_string_lossy()),
            Ok(Some((_, spec))) => return mutate::run(&self, &spec.to_string_lossy()),
            Ok(None) => None,
            Err(stale) => Some(stale.to_string()),
        };
        execute::run(&self, &Arguments::from_args(), refused)
    }
}

/// Returns the name of this test target: the name of the binary without the hash that Cargo appends.
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
