//! `cargo xtask setup`: makes a machine with Rust, a C++ compiler and Python ready to link and run mlx-rs.
//!
//! On Linux, set-up puts everything into `.parity/mlx/`: it unpacks wheels, compiles mlx-c, generates bindings, and last
//! writes the Cargo configuration that points at them. Each piece is built aside and renamed into place. Its folder name has
//! a digest of its inputs, so an interrupted set-up continues where it stopped, and a changed input starts a new build.

mod config;
mod error;
mod installed_files;
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
use state::{SetupState, mlx_sys};

use super::python::Python;
use super::steps::Steps;
use super::{CliError, Project};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::text::program::{PARITY, program};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cargo xtask setup\n\n\
    On Linux, set-up needs a C++20 compiler (g++ 12, clang++ 15, or newer; CXX selects another) and\n\
    Python 3.10 or newer with pip (PARITY_PYTHON selects another). Everything is kept in .parity/,\n\
    which can be deleted at any time.")]
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

/// Runs [`set_up`], and prints what to do next.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let done = set_up(project, arguments.force)?;
    println!("{done}; next: {}", next(project));
    Ok(ExitCode::SUCCESS)
}

/// What to do after set-up: a project without a spec needs one, and can compile meanwhile.
fn next(project: &Project) -> String {
    let program = program();
    let found = Specs::load(&project.spec_root());
    let suite = project.suite_target();
    match found.specs.is_empty() && found.broken.is_empty() {
        true => format!(
            "`{program} new-spec MODEL/COMPONENT --from SCRIPT`; meanwhile, `cargo test --test {suite} --no-run` in another \
             terminal compiles the suite, which takes minutes the first time"
        ),
        false if program == PARITY => format!("`cargo test --test {suite}`"),
        false => format!("`{program} test`, or `cargo test` as usual"),
    }
}

/// Makes this machine ready for a command that needs MLX, unless the project provides MLX itself.
pub(crate) fn ensure(project: &Project) -> Result<(), SetupError> {
    if project.sets_up() { set_up(project, false).map(drop) } else { Ok(()) }
}

/// Makes this machine ready if it is not, and returns what is set up, in a few words.
fn set_up(project: &Project, force: bool) -> Result<String, SetupError> {
    match std::env::consts::OS {
        "linux" => linux(project, force),
        "macos" => {
            macos::check().map(|()| "Xcode's tools and cmake are here; Cargo builds MLX itself".to_owned())
        }
        other => Err(SetupError::UnknownOs { found: other }),
    }
}

/// Sets up on Linux unless that is done, and returns the folder of the bindings that were generated.
pub(crate) fn bindings_folder(project: &Project) -> Result<PathBuf, SetupError> {
    linux(project, false)?;
    let home = project.private_folder().join("mlx");
    SetupState::read(&home).map(|state| state.native(&home)).ok_or(SetupError::NoState { home })
}

/// Returns the path of the Cargo configuration that set-up writes on Linux, which need not exist.
pub(crate) fn configuration(project: &Project) -> PathBuf {
    config::path(project.root())
}

/// The version line of the C++ compiler that set-up uses.
pub(crate) fn compiler() -> Result<String, SetupError> {
    Compiler::find().map(|compiler| compiler.version().to_owned())
}

/// Returns whether this machine is ready, and what is set up or missing, in a few words; changes nothing.
pub(crate) fn state(project: &Project) -> Result<(bool, String), SetupError> {
    match std::env::consts::OS {
        "linux" => {
            let linux = Linux::of(project)?;
            Ok(match linux.readiness() {
                Readiness::Ready => (true, linux.ready()),
                Readiness::NotSetUp => (false, format!("{} is not set up", linux.name())),
                Readiness::Changed(files) => {
                    (false, format!("{} changed since {} was set up", names(&files), linux.name()))
                }
            })
        }
        _ => set_up(project, false).map(|ready| (true, ready)),
    }
}

/// The state of a set-up.
#[derive(Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// Never set up, or from inputs that changed since.
    NotSetUp,
    /// Set up, but these files changed afterwards.
    Changed(Vec<PathBuf>),
}

/// The files' own names.
fn names(files: &[PathBuf]) -> String {
    let names = files.iter().map(|path| format!("`{}`", path.file_name().unwrap_or_default().display()));
    names.collect::<Vec<_>>().join(" and ")
}

/// The hidden command that runs bindgen.
pub(crate) fn generate_bindings(arguments: &BindingsArguments) -> Result<ExitCode, CliError> {
    native::generate(arguments)?;
    Ok(ExitCode::SUCCESS)
}

/// The inputs of a set-up on Linux.
struct Linux<'a> {
    root: &'a Path,
    home: PathBuf,
    locked: state::LockedMlxSys,
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

    fn readiness(&self) -> Readiness {
        let current = |state: &SetupState| state.is_current(self.root, &self.home, &self.locked, &self.pins);
        let Some(state) = SetupState::read(&self.home).filter(current) else { return Readiness::NotSetUp };
        match installed_files::changed(&self.home, &state.files(&self.home, &self.pins)) {
            changed if changed.is_empty() => Readiness::Ready,
            changed => Readiness::Changed(changed),
        }
    }

    fn name(&self) -> String {
        format!("MLX {} (CPU backend, Linux {})", self.pins.mlx.version, std::env::consts::ARCH)
    }

    fn ready(&self) -> String {
        format!("{} is set up", self.name())
    }
}

fn linux(project: &Project, force: bool) -> Result<String, SetupError> {
    state::ensure_lock(project.root())?;
    let linux = Linux::of(project)?;
    let ready = linux.ready();
    let is_ready = || {
        let ready = !force && linux.readiness() == Readiness::Ready;
        if ready && let Some(state) = SetupState::read(&linux.home) {
            // A set-up by an earlier version did not record its files; without a record they are hashed again each time.
            let _ = installed_files::record(&linux.home, &state.files(&linux.home, &linux.pins));
        }
        ready
    };
    if is_ready() {
        return Ok(ready);
    }
    let _lock = lock_home(project, &linux.home)?;
    // Another command may have finished it while this one waited.
    if is_ready() {
        return Ok(ready);
    }
    let changed = match linux.readiness() {
        Readiness::Changed(files) => {
            eprintln!("{} changed since {} was set up; setting it up again", names(&files), linux.name());
            files
        }
        _ => Vec::new(),
    };
    let arch = std::env::consts::ARCH;
    let Linux { root, home, locked, pins } = linux;
    let steps =
        Steps::start(format_args!("setting up MLX {} for mlx-sys {}", pins.mlx.version, locked.version));
    let compiler = Compiler::find()?;
    let state = SetupState::new(root, &locked, &pins, &compiler);
    let folder = state.native(&home);
    let being_made = wheels::partial(&folder);
    if force {
        wheels::remove_folder(&being_made)?;
    }
    fs::create_dir_all(&being_made).map_err(|source| SetupError::write(&being_made, source))?;

    let mlx_c = steps.step("find mlx-c in the mlx-sys crate", || native::mlx_c(root, pins.mlx.version))?;
    for wheel in [&pins.mlx, &pins.libclang] {
        let unpacked = wheels::folder(&home, wheel);
        if force || !unpacked.is_dir() || changed.iter().any(|file| file.starts_with(&unpacked)) {
            let python = Python::find()?;
            machine::check_libc(python)?;
            let name = format!("{} {}", wheel.package, wheel.version);
            let file = steps.step(&format!("fetch {name}"), || wheels::fetch(&home, wheel, python))?;
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
    installed_files::record(&home, &state.files(&home, &pins))
        .map_err(|source| SetupError::write(&home, source))?;
    state.remove_others(&home, &pins)?;
    eprintln!("set up in {:.1} s", steps.elapsed());
    Ok(ready)
}

/// Makes the folders, has git ignore them, and waits until no other set-up uses them.
fn lock_home(project: &Project, home: &Path) -> Result<File, SetupError> {
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// A finished set-up, as far as anybody looks.
    fn finished(root: &Path) {
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.lock", "version = 4\n[[package]]\nname = \"mlx-sys\"\nversion = \"0.7.0\"\n");
        write(
            ".cargo/config.toml",
            "include = [{ path = \"../.parity/mlx/config.toml\", optional = true }]\n",
        );
        let project = Project::new(root, "specs", "fixtures");
        let Linux { root, home, locked, pins } = Linux::of(&project).unwrap();
        let state = SetupState::new(root, &locked, &pins, &Compiler::find().unwrap());
        for file in state.files(&home, &pins) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "as it was").unwrap();
        }
        config::write(root, &config::text(std::env::consts::ARCH, &state.native(&home)).unwrap()).unwrap();
        state.write(&home).unwrap();
    }

    #[test]
    fn a_library_that_was_replaced_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        finished(root.path());
        let project = Project::new(root.path(), "specs", "fixtures");
        // Noted by the first command that looks, for a set-up that noted nothing.
        assert_eq!(set_up(&project, false).unwrap(), state(&project).unwrap().1);
        let linux = Linux::of(&project).unwrap();
        let files = SetupState::read(&linux.home).unwrap().files(&linux.home, &linux.pins);
        assert_eq!(files.len(), 3);
        for file in &files {
            let time = fs::metadata(file).unwrap().modified().unwrap();
            fs::write(file, "not as so").unwrap();
            File::open(file).unwrap().set_modified(time).unwrap();
            assert_eq!(linux.readiness(), Readiness::Changed(vec![file.clone()]));
            let (ready, words) = state(&project).unwrap();
            let name = file.file_name().unwrap().display();
            assert!(!ready && words.starts_with(&format!("`{name}` changed since MLX 0.")), "{words}");
            fs::write(file, "as it was").unwrap();
            assert_eq!(linux.readiness(), Readiness::Ready);
        }
        fs::remove_file(&files[0]).unwrap();
        let (ready, words) = state(&project).unwrap();
        assert!(!ready && words.ends_with(" is not set up") && words.starts_with("MLX 0."), "{words}");
    }
}
