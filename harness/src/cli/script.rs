//! Running a reference's script: for a bounded time, in a process group that ends as a whole, with bounded output kept.
//!
//! The script does not run below this process itself but below a second one, this same program under its hidden command
//! `run-script`. That one leads the group, and ends it when the command is gone, however the command ended: nothing that a
//! killed command started goes on writing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// What is kept of each stream: its last bytes, where the reason of a failure stands.
const KEPT: usize = 64 << 10;
/// How long a stream is waited for once the group has ended. Only a process that left the group can still hold it.
const LINGER: Duration = Duration::from_secs(1);

/// The file in a run's folder that is locked as long as a script may write there.
pub(crate) const IN_USE: &str = "in-use";

/// What the process between a command and a script is given.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file whose lock says that the script still runs
    #[arg(long)]
    in_use: PathBuf,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// How a script ended, and the last that it wrote.
pub(crate) struct Ended {
    /// Its exit code; none when it ran out of time.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// The command that runs `program` below a process of ours, while `in_use` is locked; arguments are added to it.
pub(crate) fn command(program: &OsStr, in_use: &Path) -> io::Result<Command> {
    File::create(in_use)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run-script").arg("--in-use").arg(in_use).arg("--").arg(program);
    Ok(command)
}

/// Runs what [`command`] made to its end, at most for `timeout`. All that the script started has ended then, or has left its
/// process group on purpose; such a process is not waited for.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Ended> {
    let mut child = command
        .process_group(0)
        // The child reads this pipe to learn that we are gone; nothing ever comes through it.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (ended, streams) = mpsc::channel();
    let stdout = child.stdout.take().map(|stream| Tail::follow(stream, ended.clone()));
    let stderr = child.stderr.take().map(|stream| Tail::follow(stream, ended));
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
    let kept = |tail: Option<Tail>| tail.map(|tail| tail.bytes()).unwrap_or_default();
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(Ended { code: code.filter(|_| in_time), stdout: kept(stdout), stderr: kept(stderr) })
}

/// Waits until the child has ended, without reaping it; whether it did in time.
fn wait(child: &Child, timeout: Duration) -> bool {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while let Some(pid) = pid(child)
        && matches!(waitid(WaitId::Pid(pid), options), Ok(None) | Err(rustix::io::Errno::INTR))
    {
        if started.elapsed() >= timeout {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end_group(child: &Child) {
    if let Some(pid) = pid(child) {
        // Nobody left in it is as good.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// The last bytes of a stream, as far as it has been read.
#[derive(Clone)]
struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// Reads a stream to its end on a thread of its own, so that its writer is never held up, and says so then.
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
            // Nobody may listen any more.
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

/// The hidden command: runs the script, ends with its code, and ends the whole group when the command is gone.
pub(crate) fn supervise(arguments: &Arguments) -> ExitCode {
    let held = match File::open(&arguments.in_use).and_then(|file| file.lock_shared().map(|()| file)) {
        Ok(held) => held,
        Err(error) => return failed(&format!("cannot lock `{}`: {error}", arguments.in_use.display())),
    };
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Started by hand this process is not the group's first, and the group is somebody else's.
        if rustix::process::getpgrp() == rustix::process::getpid() {
            let _ = rustix::process::kill_current_process_group(Signal::KILL);
        }
    });
    let mut words = arguments.command.iter();
    let program = words.next().map(OsString::as_os_str).unwrap_or_default();
    let name = program.to_string_lossy();
    // The file is empty, so that a script which reads its input finds none, and stays locked as long as the script has it.
    let status = Command::new(program).args(words).stdin(held).status();
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ok((None, signal)) => {
            let signal = signal.unwrap_or_default();
            eprintln!("ended by signal {signal}");
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
        Err(error) => failed(&format!("cannot run `{name}`: {error}")),
    }
}

fn failed(said: &str) -> ExitCode {
    eprintln!("{said}");
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
    fn only_the_end_of_what_a_script_writes_is_kept() {
        let ended =
            run(&mut shell("head -c 5000000 /dev/zero; echo last; echo why >&2; exit 3"), LONG).unwrap();
        assert_eq!(ended.code, Some(3));
        assert_eq!(ended.stdout.len(), KEPT);
        assert!(ended.stdout.ends_with(b"\0last\n"));
        assert_eq!(ended.stderr, b"why\n");
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_script_started_ends_with_it() {
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
    fn out_of_time_there_is_no_code() {
        let ended = run(&mut shell("echo here; sleep 600"), Duration::from_millis(300)).unwrap();
        assert_eq!(ended.code, None);
    }
}
