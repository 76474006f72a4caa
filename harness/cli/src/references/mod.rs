//! The Python that runs reference scripts: environments that uv makes from a committed lock, one per dependency group, or
//! the machine's own Python where a project locks nothing.

mod declared;
mod download;
mod error;
mod locked;
mod uv;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

pub(crate) use declared::{declared_packages, groups};
pub(crate) use error::ReferencesError;
pub(crate) use uv::Uv;

use super::Project;
use super::ask::{self, YesNo};
use super::bundled_exporter;
use super::python::{Python, last_lines};
use super::steps::Steps;
use declared::environment_of;
use download::Download;
use locked::{Packages, UvLock, installed};
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::hash::hex;
use mlx_parity_core::files::regular;
use mlx_parity_core::files::size;

/// The file with the version and the checksum of every package.
pub(crate) const LOCK: &str = "uv.lock";
/// A download above this is asked about first.
const ASK_ABOVE: u64 = 100 << 20;

/// The environments of one command, each made when a script first asks for it.
pub(crate) struct Environments<'a> {
    project: &'a Project,
    /// Whether to download without asking.
    yes: bool,
    made: BTreeMap<Option<String>, Runner>,
}

/// A Python that runs scripts, and the folders from which it also imports.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    program: OsString,
    paths: Vec<PathBuf>,
    /// The lock that lists everything that scripts can import, if there is one.
    lock: Option<LockedEnvironment>,
}

/// An environment and the folder whose lock it is made from.
#[derive(Debug, Clone)]
struct LockedEnvironment {
    folder: PathBuf,
    environment: PathBuf,
}

impl Runner {
    /// Whether a lock lists everything that scripts can import.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Rejects an environment that does not match its lock; without a lock everything is accepted.
    pub(crate) fn check_lock(&self) -> Result<(), ReferencesError> {
        let Some(LockedEnvironment { folder, environment }) = &self.lock else { return Ok(()) };
        let made = stamped(environment, &digest(folder)?);
        let installed = installed(environment)?;
        // Without a stamp the lock has changed; the installed packages must still be in it.
        let faults = UvLock::read(folder)?.faults(made.as_ref().unwrap_or(&installed), &installed);
        if faults.is_empty() { Ok(()) } else { Err(ReferencesError::drifted(environment, &faults)) }
    }

    /// Rejects a set that was made with package versions other than those in the lock.
    pub(crate) fn check_used<'a>(
        &self,
        packages: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), ReferencesError> {
        let Some(LockedEnvironment { folder, environment }) = &self.lock else { return Ok(()) };
        let lock = UvLock::read(folder)?;
        let known = packages.filter(|(name, _)| lock.has(name));
        let faults: Vec<String> = known.filter_map(|(name, version)| lock.fault(name, version)).collect();
        if faults.is_empty() { Ok(()) } else { Err(ReferencesError::drifted(environment, &faults)) }
    }

    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.set_imports(&mut command);
        command
    }

    /// Sets the variables by which this Python finds its imports, for a command that starts it directly or indirectly.
    pub(crate) fn set_imports(&self, command: &mut Command) {
        let mut paths = self.paths.clone();
        if !self.is_locked() {
            paths.extend(std::env::var_os("PYTHONPATH").iter().flat_map(std::env::split_paths));
        }
        match std::env::join_paths(paths) {
            Ok(paths) if !paths.is_empty() => command.env("PYTHONPATH", paths),
            _ => command.env_remove("PYTHONPATH"),
        };
        if self.is_locked() {
            command.env("PYTHONNOUSERSITE", "1").env_remove("PYTHONHOME").env_remove("VIRTUAL_ENV");
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1");
    }
}

impl<'a> Environments<'a> {
    pub(crate) fn new(project: &'a Project, yes: bool) -> Self {
        Self { project, yes, made: BTreeMap::new() }
    }

    /// Returns the Python that runs a script, after making or updating its environment.
    pub(crate) fn of(&mut self, script: &Path) -> Result<Runner, ReferencesError> {
        if self.project.exporter_folder().is_none() {
            bundled_exporter::unpack(self.project).map_err(|source| ReferencesError::Write {
                path: bundled_exporter::folder(self.project),
                source,
            })?;
        }
        let Some(folder) = self.project.references_folder() else {
            if !self.made.contains_key(&None) {
                self.made.insert(None, machine(self.project)?);
            }
            return Ok(self.made[&None].clone());
        };
        let group = environment_of(script, &folder)?;
        if let Some(group) = &group {
            let known = groups(&folder)?;
            if !known.contains(group) {
                let (script, found) = (script.to_owned(), group.clone());
                return Err(ReferencesError::UnknownGroup { script, found, known: known.join("`, `") });
            }
        }
        if !self.made.contains_key(&group) {
            let runner = self.make_locked(&folder, group.as_deref())?;
            self.made.insert(group.clone(), runner);
        }
        Ok(self.made[&group].clone())
    }

    /// Makes the environment of a group from the lock, unless it is up to date.
    fn make_locked(&self, folder: &Path, group: Option<&str>) -> Result<Runner, ReferencesError> {
        let environment = environment_folder(self.project, group);
        let runner = runner(self.project, folder, &environment);
        let wanted = digest(folder)?;
        if is_current(&environment, &wanted) {
            match runner.check_lock() {
                Ok(()) => return Ok(runner),
                Err(error @ (ReferencesError::Drifted { .. } | ReferencesError::Broken { .. })) => {
                    eprintln!("{error}; rebuilding it");
                    // Without its stamp it does not count as made.
                    let _ = fs::remove_file(stamp(&environment));
                }
                Err(error) => return Err(error),
            }
        }
        let home = environment.parent().unwrap_or(&environment);
        fs::create_dir_all(home)
            .and_then(|()| self.project.keep_git_away())
            .map_err(|source| ReferencesError::Write { path: home.to_owned(), source })?;
        let uv = Uv::find(self.project)?;
        let sync = uv.sync(folder, &environment, group);
        self.confirm_download(&uv, &sync, folder, group)?;
        let name = group.map_or_else(String::new, |group| format!(" `{group}`"));
        let steps =
            Steps::start(format_args!("making the environment{name} for references with {}", uv.name()));
        steps.step("install the locked packages", || sync.run())?;
        let made = installed(&environment)?;
        let faults = UvLock::read(folder)?.faults(&made, &made);
        if !faults.is_empty() {
            return Err(ReferencesError::drifted(&environment, &faults));
        }
        let stamp = stamp(&environment);
        let lines: String = made.iter().map(|(name, version)| format!("{name}=={version}\n")).collect();
        write_atomically(&stamp, |out| write!(out, "{wanted}\n{lines}"))
            .map_err(|source| ReferencesError::Write { path: stamp, source })?;
        Ok(runner)
    }

    /// Prints what will be downloaded, and asks first if it is large.
    fn confirm_download(
        &self,
        uv: &Uv,
        sync: &uv::UvSync,
        folder: &Path,
        group: Option<&str>,
    ) -> Result<(), ReferencesError> {
        let plan = sync.plan()?;
        if plan.downloads == 0 {
            return Ok(());
        }
        let download = Download::measure(uv, folder, &plan)?;
        let name = group.map_or_else(|| "references".to_owned(), |group| format!("references in `{group}`"));
        let text = format!("{name} need {download}");
        if download.bytes <= ASK_ABOVE && download.unknown == 0 || self.yes {
            eprintln!("{text}");
            return Ok(());
        }
        match ask::ask(&format!("{text}; fetch them?")) {
            YesNo::Yes => Ok(()),
            YesNo::No => Err(ReferencesError::Declined),
            YesNo::NoTerminal => Err(ReferencesError::NotAsked { download: download.to_string() }),
        }
    }
}

/// Where the environment of a group is made.
fn environment_folder(project: &Project, group: Option<&str>) -> PathBuf {
    let home = project.private_folder().join("references");
    match group {
        Some(group) => home.join("groups").join(group),
        None => home.join("plain"),
    }
}

/// The environment of a group as it is, even if it does not match the lock; none if it was never made.
pub(crate) fn made(project: &Project, group: Option<&str>) -> Option<Runner> {
    let environment = environment_folder(project, group);
    let folder = project.references_folder()?;
    environment.join("bin/python").exists().then(|| runner(project, &folder, &environment))
}

/// Whether an environment exists and was made from the lock in `folder` as it is now.
pub(crate) fn is_made(project: &Project, folder: &Path, group: Option<&str>) -> bool {
    digest(folder).is_ok_and(|wanted| is_current(&environment_folder(project, group), &wanted))
}

fn runner(project: &Project, folder: &Path, environment: &Path) -> Runner {
    Runner {
        program: environment.join("bin/python").into(),
        paths: vec![exporter(project)],
        lock: Some(LockedEnvironment { folder: folder.to_owned(), environment: environment.to_owned() }),
    }
}

fn is_current(environment: &Path, wanted: &str) -> bool {
    environment.join("bin/python").exists() && stamped(environment, wanted).is_some()
}

/// The packages that an environment had when it was made from the lock with the digest `wanted`; none if it was made from
/// another lock.
fn stamped(environment: &Path, wanted: &str) -> Option<Packages> {
    let text = regular::read_text(&stamp(environment), regular::TEXT).ok()?;
    let (found, packages) = text.split_once('\n')?;
    let split =
        |line: &str| line.split_once("==").map(|(name, version)| (name.to_owned(), version.to_owned()));
    (found == wanted).then(|| packages.lines().filter_map(split).collect())
}

/// The file with the digest of the lock and the packages of an environment, written when the environment is finished.
fn stamp(environment: &Path) -> PathBuf {
    let mut name = environment.file_name().unwrap_or_default().to_owned();
    name.push(".stamp");
    environment.with_file_name(name)
}

/// A digest of the files that an environment is made from.
fn digest(folder: &Path) -> Result<String, ReferencesError> {
    let mut hash = Sha256::new();
    for file in ["pyproject.toml", LOCK] {
        let path = folder.join(file);
        if file == LOCK && !path.exists() {
            return Err(ReferencesError::NoLock { folder: folder.to_owned() });
        }
        hash.update(
            regular::read(&path, regular::TEXT).map_err(|source| ReferencesError::Read { path, source })?,
        );
    }
    Ok(hex(&hash.finalize()))
}

/// The folder that scripts import the exporter from: the project's own one, or the one in this program.
fn exporter(project: &Project) -> PathBuf {
    project.exporter_folder().map_or_else(|| bundled_exporter::folder(project), Path::to_owned)
}

/// The machine's own Python, with the exporter, and what the exporter's tests need where the project has its own.
fn machine(project: &Project) -> Result<Runner, ReferencesError> {
    let python = Python::find()?;
    let mut paths = vec![exporter(project)];
    if let Some(exporter) = project.exporter_folder() {
        let requirements = exporter.join("requirements-test.txt");
        if requirements.is_file() {
            paths.push(python.packages(project, &requirements)?);
        }
    }
    Ok(Runner { program: python.program().to_owned(), paths, lock: None })
}

/// The Python for scripts where nothing is locked; none if its packages are not installed yet.
pub(crate) fn on_machine(project: &Project) -> Result<Option<Runner>, ReferencesError> {
    let requirements = project.exporter_folder().map(|exporter| exporter.join("requirements-test.txt"));
    if let Some(requirements) = requirements.filter(|path| path.is_file())
        && !Python::find()?.has_packages(project, &requirements)?
    {
        return Ok(None);
    }
    machine(project).map(Some)
}
