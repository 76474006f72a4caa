//! The suite of a session as a process of Cargo, and the socket to which its worker connects.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::error::DebugError;
use super::options::Options;
use crate::Project;
use crate::guard::guarded;
use crate::parity::suite_cargo;
use crate::process_output::LastLines;
use mlx_parity_core::runs::{Asked, Out};
use mlx_parity_core::settings::names::DEBUG;

/// The file in the folder of a session in which the suite reports why no worker starts.
pub(super) const PROBLEM: &str = mlx_parity_core::debug::PROBLEM;
/// The longest path of a socket, in bytes: 104 on macOS, 108 on Linux, with the zero at its end.
const LONGEST: usize = 100;

/// What is needed to start the suite again and again.
pub(super) struct SuiteStart {
    pub(super) project: Project,
    pub(super) out: Out,
    release: bool,
    capture: bool,
    guard: bool,
}

impl SuiteStart {
    pub(super) fn of(project: &Project, out: Out, options: &Options) -> Self {
        let Options { release, capture, guard, .. } = *options;
        Self { project: project.duplicate(), out, release, capture, guard }
    }

    /// Creates the socket, in a folder that no other user can open.
    pub(super) fn open_door(&self) -> Result<Door, DebugError> {
        let private = Permissions::from_mode(0o700);
        let made = |within: &Path| {
            tempfile::Builder::new().prefix("parity-").permissions(private.clone()).tempdir_in(within)
        };
        let own = std::env::temp_dir();
        let mut folder = made(&own).map_err(DebugError::Socket)?;
        if folder.path().join("worker").as_os_str().len() > LONGEST {
            folder = made(Path::new("/tmp")).map_err(DebugError::Socket)?;
        }
        let path = folder.path().join("worker");
        let listener = UnixListener::bind(&path).map_err(DebugError::Socket)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(DebugError::Socket)?;
        listener.set_nonblocking(true).map_err(DebugError::Socket)?;
        Ok(Door { listener, path, _folder: folder })
    }

    /// Starts Cargo, which builds and starts the suite.
    ///
    /// Cargo has its own process group, so that Ctrl-C reaches this process only, which then pauses the port.
    pub(super) fn start(&self, folder: &Path) -> Result<SuiteProcess, DebugError> {
        let _ = fs::remove_file(folder.join(PROBLEM));
        let asked = Asked::new(folder, DEBUG, folder).map_err(DebugError::Socket)?;
        let mut command = suite_cargo(&self.project, &self.out, self.release);
        command.envs(asked.variables());
        if self.guard {
            command = guarded(&command).map_err(DebugError::Cargo)?;
        }
        command.stdin(if self.guard { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::null()).process_group(0);
        if self.capture {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(DebugError::Cargo)?;
        let (alive, reader) = (child.stdin.take(), child.stderr.take().map(LastLines::of));
        Ok(SuiteProcess { child, reader, _alive: alive, _asked: asked })
    }
}

/// The socket, which is removed with this value.
pub(super) struct Door {
    listener: UnixListener,
    path: PathBuf,
    _folder: TempDir,
}

impl Door {
    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Cargo with the suite.
pub(super) struct SuiteProcess {
    child: Child,
    reader: Option<LastLines>,
    /// Nothing is written to this pipe. The guard ends Cargo when the pipe closes.
    _alive: Option<ChildStdin>,
    _asked: Asked,
}

impl SuiteProcess {
    pub(super) fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends what is left of it, and returns the last lines that it printed, if they were captured.
    pub(super) fn finish(mut self) -> Vec<String> {
        if !self.has_ended() {
            let _ = kill_process_group(self.group(), Signal::KILL);
            let _ = self.child.wait();
        }
        self.reader.take().map(LastLines::finish).unwrap_or_default()
    }
}
