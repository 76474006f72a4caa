//! Runs a reference's script with a time limit, in a process group that ends as a whole, and keeps the end of its output.
//!
//! The script is not a direct child of this process. A guard, this same program with its hidden command `run-script`, starts
//! the script, leads the group, and kills the group when this process ends, however it ends. So nothing that a killed command
//! started continues to write.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::guard::{end_with_stdin, exit_code};
use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, setrlimit, waitid,
};

/// How many bytes of each stream are kept: the last ones, which give the reason of a failure.
const KEPT: usize = 64 << 10;
/// How long to wait for the end of a stream after the group was killed. Only a process that left the group can keep it open.
const LINGER: Duration = Duration::from_secs(1);

/// The file in a run's folder that stays locked while a script may write there.
pub(crate) const IN_USE: &str = "in-use";

/// Arguments of the process between a command and a script.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file that is locked while the script runs
    #[arg(long)]
    in_use: PathBuf,
    /// How many bytes of memory the script may use
    #[arg(long)]
    memory: Option<u64>,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// How a script ended, and the end of its output.
pub(crate) struct ScriptEnd {
    /// Its exit code; none when its time was up.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Returns a command that runs `program` below a process of ours while `in_use` is locked. The caller adds arguments.
///
/// `memory` limits the bytes of data that each process of the script may have. Linux enforces it, macOS does not.
pub(crate) fn command(program: &OsStr, in_use: &Path, memory: Option<u64>) -> io::Result<Command> {
    File::create(in_use)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run-script").arg("--in-use").arg(in_use);
    if let Some(memory) = memory {
        command.arg("--memory").arg(memory.to_string());
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// Runs a command from [`command`] to its end, or for at most `timeout`. Then everything that the script started has ended,
/// except for processes that left the process group on purpose, which are not waited for.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<ScriptEnd> {
    let mut child = command
        .process_group(0)
        // The child notices our end when this pipe closes; nothing is ever written to it.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (ended, streams) = mpsc::channel();
    let stdout = child.stdout.take().map(|stream| StreamTail::follow(stream, ended.clone()));
    let stderr = child.stderr.take().map(|stream| StreamTail::follow(stream, ended));
    let in_time = wait(&child, timeout);
    // Not reaped yet, so the group's number is still its own.
    end_group(&child);
    let status = child.wait()?;
    let deadline = Instant::now() + LINGER;
    for _ in 0..2 {
        if streams.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            break;
        }
    }
    let kept = |tail: Option<StreamTail>| tail.map(|tail| tail.bytes()).unwrap_or_default();
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ScriptEnd { code: code.filter(|_| in_time), stdout: kept(stdout), stderr: kept(stderr) })
}

/// Waits until the child has ended, without reaping it; returns whether it ended in time.
///
/// The crates for this (`wait-timeout`, `process-wrap`) reap the child, after which the group's number may belong to other
/// processes. Here the group is killed first. The thread ends with the child, which is killed when its time is up.
fn wait(child: &Child, timeout: Duration) -> bool {
    let Some(pid) = pid(child) else { return true };
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        // The receiver is gone when the time was up.
        let _ = ended.send(());
    });
    end.recv_timeout(timeout).is_ok()
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end_group(child: &Child) {
    if let Some(pid) = pid(child) {
        // An empty group is no error.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// The last bytes of a stream that were read so far.
#[derive(Clone)]
struct StreamTail(Arc<Mutex<VecDeque<u8>>>);

impl StreamTail {
    /// Reads a stream to its end on a thread of its own, so that its writer never blocks, and then sends to `ended`.
    fn follow(mut stream: impl Read + Send + 'static, ended: mpsc::Sender<()>) -> Self {
        let tail = Self(Arc::default());
        let ours = tail.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 16 << 10];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => ours.push(&buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            // The receiver may be gone.
            let _ = ended.send(());
        });
        tail
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let above = kept.len().saturating_sub(KEPT);
        kept.drain(..above);
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// The hidden command: runs the script and exits with its code; kills the whole group when the command is gone.
pub(crate) fn supervise(arguments: &Arguments) -> ExitCode {
    let lock = match File::open(&arguments.in_use).and_then(|file| file.lock_shared().map(|()| file)) {
        Ok(lock) => lock,
        Err(error) => return failed(&format!("cannot lock `{}`: {error}", arguments.in_use.display())),
    };
    end_with_stdin();
    if let Some(memory) = arguments.memory
        && let Err(error) = limit_memory(memory)
    {
        return failed(&format!("cannot limit the memory to {memory} bytes: {error}"));
    }
    let mut words = arguments.command.iter();
    let program = words.next().map(OsString::as_os_str).unwrap_or_default();
    let name = program.to_string_lossy();
    // The script gets the locked file as its standard input: it is empty, and stays locked while the script has it open.
    let status = Command::new(program).args(words).stdin(lock).status();
    match status {
        Ok(status) => exit_code(status),
        Err(error) => failed(&format!("cannot run `{name}`: {error}")),
    }
}

/// Limits the memory of this process and of those that it starts. A lower limit that is already set stays.
fn limit_memory(bytes: u64) -> rustix::io::Result<()> {
    let mut limit = getrlimit(Resource::Data);
    limit.current = Some(limit.current.into_iter().chain(limit.maximum).fold(bytes, u64::min));
    setrlimit(Resource::Data, limit)
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let ended =
            run(&mut shell("head -c 5000000 /dev/zero; echo last; echo why >&2; exit 3"), LONG).unwrap();
        assert_eq!(ended.code, Some(3));
        assert_eq!(ended.stdout.len(), KEPT);
        assert!(ended.stdout.ends_with(b"\0last\n"));
        assert_eq!(ended.stderr, b"why\n");
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn processes_that_a_script_started_end_with_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}", file.display());
        let started = Instant::now();
        let ended = run(&mut shell(&script), LONG).unwrap();
        assert_eq!(ended.code, Some(0));
        assert!(started.elapsed() < LONG, "the child that kept the output open was waited for");
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid) {
            assert!(started.elapsed() < LONG, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Without an init that reaps, what was ended stays in the list.
    fn is_zombie(pid: Pid) -> bool {
        let state =
            Command::new("ps").args(["-o", "stat=", "-p", &pid.as_raw_nonzero().to_string()]).output();
        state.map_or(true, |state| !state.status.success() || state.stdout.starts_with(b"Z"))
    }

    #[test]
    fn a_script_that_ran_out_of_time_has_no_code() {
        let ended = run(&mut shell("echo here; sleep 600"), Duration::from_millis(300)).unwrap();
        assert_eq!(ended.code, None);
    }
}
