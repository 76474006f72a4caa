//! A guard: a process between one of ours and what it starts. It leads their process group, and kills the group when its
//! standard input closes, because the process that holds the other end has then ended, however it ended.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::process::Signal;

/// The hidden command that makes a program of ours a guard.
const GUARD: &str = "guard";

/// Arguments of a guard: the command that it starts.
#[derive(Debug, clap::Args)]
pub struct GuardArguments {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Returns the same command below a guard. This program must have the hidden command `guard`, which calls [`guard`].
///
/// The caller gives it a process group of its own, and keeps the other end of its standard input.
pub(crate) fn guarded(command: &Command) -> io::Result<Command> {
    let mut guarded = Command::new(own_program()?);
    guarded.arg(GUARD).arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    Ok(guarded)
}

/// This program. On Linux, also one whose file a build has replaced.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Runs the command, and returns its exit code. Kills the whole group when standard input closes.
pub fn guard(arguments: &GuardArguments) -> ExitCode {
    end_with_stdin();
    let mut words = arguments.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    match Command::new(&program).args(words).stdin(Stdio::null()).status() {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("cannot run `{}`: {error}", program.display());
            ExitCode::from(127)
        }
    }
}

/// Kills the process group of this process when standard input closes.
pub(crate) fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // If a person started this process by hand, it does not lead the group, which is then not ours to kill.
        if rustix::process::getpgrp() == rustix::process::getpid() {
            let _ = rustix::process::kill_current_process_group(Signal::KILL);
        }
    });
}

/// The exit code of a guard, after the process that it guards.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            eprintln!("ended by signal {signal}");
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}
