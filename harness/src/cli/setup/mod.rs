//! `cargo xtask setup`: from a machine with Rust, a C++ compiler and Python to one where mlx-rs links and runs.
//!
//! On Linux everything is made in `.parity/mlx/`: wheels unpacked, mlx-c compiled, bindings generated, and last the
//! Cargo configuration that points at them. Each piece is made aside and renamed into place, under a folder name that
//! holds what it was made from, so an interrupted set-up goes on where it stopped and a changed input starts anew.

mod config;
mod error;
mod machine;
mod macos;
mod native;
mod pins;
mod state;
mod wheels;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use error::SetupError;
use machine::Compiler;
use state::{State, mlx_sys};

use super::python::Python;
use super::steps::Steps;
use super::{CliError, Project};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask setup\n\nOn Linux it needs a C++20 compiler (g++ 12 or clang++ 15, or newer; \
    CXX names another) and Python 3.10 with pip\n(PARITY_PYTHON names another); everything is kept in .parity/, which \
    can be deleted at any time."
)]
pub(crate) struct Arguments {
    /// Build again, even if nothing has changed
    #[arg(long)]
    force: bool,
}

/// What the child that runs bindgen is given.
#[derive(Debug, clap::Args)]
pub(crate) struct BindingsArguments {
    #[arg(long)]
    mlx_c: PathBuf,
    #[arg(long)]
    half: PathBuf,
    #[arg(long)]
    headers: Option<PathBuf>,
    #[arg(long)]
    out: PathBuf,
}

/// The command: [`set_up`], and a line that says what to do next.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let done = set_up(project, arguments.force)?;
    println!("{done}; next: `cargo xtask test`, or `cargo test` as usual");
    Ok(ExitCode::SUCCESS)
}

/// Makes this machine ready for a command that needs MLX, unless the project sees to that itself.
pub(crate) fn ensure(project: &Project) -> Result<(), SetupError> {
    if project.sets_up() { set_up(project, false).map(drop) } else { Ok(()) }
}

/// Makes this machine ready unless it is, and says in a few words what it is ready for.
fn set_up(project: &Project, force: bool) -> Result<String, SetupError> {
    match std::env::consts::OS {
        "linux" => linux(project, force),
        "macos" => {
            macos::check().map(|()| "Xcode's tools and cmake are here; Cargo builds MLX itself".to_owned())
        }
        other => Err(SetupError::UnknownOs { found: other }),
    }
}

/// What the C++ compiler that set-up takes says of itself.
pub(crate) fn compiler() -> Result<String, SetupError> {
    Compiler::find().map(|compiler| compiler.version().to_owned())
}

/// Whether this machine is ready, and in a few words for what; nothing is changed.
pub(crate) fn state(project: &Project) -> Result<(bool, String), SetupError> {
    match std::env::consts::OS {
        "linux" => {
            let linux = Linux::of(project)?;
            Ok((linux.is_current(), linux.ready()))
        }
        _ => set_up(project, false).map(|ready| (true, ready)),
    }
}

/// The hidden command that runs bindgen.
pub(crate) fn generate_bindings(arguments: &BindingsArguments) -> Result<ExitCode, CliError> {
    native::generate(arguments)?;
    Ok(ExitCode::SUCCESS)
}

/// What a set-up on Linux goes by.
struct Linux<'a> {
    root: &'a Path,
    home: PathBuf,
    locked: state::Locked,
    pins: pins::Pins,
}

impl<'a> Linux<'a> {
    /// Reads what the project locks; a project that cannot be set up at all is an error.
    fn of(project: &'a Project) -> Result<Self, SetupError> {
        let root = project.root();
        let locked = mlx_sys(root)?;
        let pins = pins::pins(&locked.version, std::env::consts::ARCH)?;
        config::check_included(root)?;
        Ok(Self { root, home: project.private_folder().join("mlx"), locked, pins })
    }

    fn is_current(&self) -> bool {
        State::read(&self.home)
            .is_some_and(|state| state.is_current(self.root, &self.home, &self.locked, &self.pins))
    }

    fn ready(&self) -> String {
        format!("MLX {} is set up (CPU backend, Linux {})", self.pins.mlx.version, std::env::consts::ARCH)
    }
}

fn linux(project: &Project, force: bool) -> Result<String, SetupError> {
    let linux = Linux::of(project)?;
    let ready = linux.ready();
    if !force && linux.is_current() {
        return Ok(ready);
    }
    let _held = hold(project, &linux.home)?;
    // Somebody else may have finished it while we waited.
    if !force && linux.is_current() {
        return Ok(ready);
    }
    let arch = std::env::consts::ARCH;
    let Linux { root, home, locked, pins } = linux;
    let steps =
        Steps::start(format_args!("setting up MLX {} for mlx-sys {}", pins.mlx.version, locked.version));
    let compiler = Compiler::find()?;
    let state = State::new(root, &locked, &pins, &compiler);
    let folder = state.native(&home);
    let being_made = wheels::partial(&folder);
    if force {
        wheels::remove_folder(&being_made)?;
    }
    fs::create_dir_all(&being_made).map_err(|source| SetupError::write(&being_made, source))?;

    let mlx_c = steps.step("find mlx-c in the mlx-sys crate", || native::mlx_c(root, pins.mlx.version))?;
    for wheel in [&pins.mlx, &pins.libclang] {
        if force || !wheels::folder(&home, wheel).is_dir() {
            let python = Python::find()?;
            machine::check_libc(&python)?;
            let name = format!("{} {}", wheel.package, wheel.version);
            let file = steps.step(&format!("fetch {name}"), || wheels::fetch(&home, wheel, &python))?;
            steps.step(&format!("unpack {name}"), || wheels::unpack(&home, wheel, &file))?;
        }
    }
    let runtime = wheels::folder(&home, &pins.mlx);
    if !being_made.join(native::LIBRARY).is_file() {
        steps.step(&format!("compile mlx-c with {}", compiler.version()), || {
            native::compile(&compiler, &mlx_c, &runtime, &being_made, &folder)
        })?;
    }
    if !being_made.join(native::BINDINGS).is_file() {
        let libclang = wheels::folder(&home, &pins.libclang);
        steps.step("generate bindings", || native::bind(&compiler, &mlx_c, &libclang, &being_made))?;
    }
    wheels::remove_folder(&folder)?;
    fs::rename(&being_made, &folder).map_err(|source| SetupError::write(&folder, source))?;
    config::write(root, &config::text(arch, &folder)?)?;
    state.write(&home)?;
    state.remove_others(&home, &pins)?;
    eprintln!("set up in {:.1} s", steps.elapsed());
    Ok(ready)
}

/// Makes the folders, keeps git away from them, and waits until no other set-up is at work in them.
fn hold(project: &Project, home: &Path) -> Result<File, SetupError> {
    fs::create_dir_all(home)
        .and_then(|()| project.keep_git_away())
        .map_err(|source| SetupError::write(home, source))?;
    let path = home.join("lock");
    let lock = File::create(&path).map_err(|source| SetupError::write(&path, source))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another set-up of this checkout to finish");
        lock.lock().map_err(|source| SetupError::write(&path, source))?;
    }
    Ok(lock)
}
