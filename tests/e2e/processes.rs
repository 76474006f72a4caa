//! Waiting for processes, and signals to them.

use std::process::Command;
use std::time::Duration;

/// Waits until `happens` returns true; fails the test after 30 seconds.
#[track_caller]
pub(crate) fn until(mut happens: impl FnMut() -> bool) {
    let happened = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        happens()
    });
    assert!(happened, "waited for 30 s");
}

/// Sends a signal such as `-KILL` to a process, or to a process group with a minus before its number.
pub(crate) fn signal(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, "--", process]).status().unwrap().success());
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(process: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// The same command in a pseudo-terminal of Python, 200 columns wide.
pub(crate) fn in_terminal(inner: &Command) -> Command {
    let pty = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut command = Command::new("python3");
    command.args(["-c", pty, "sh", "-c", "stty cols 200 rows 50; exec \"$@\"", "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm");
    command
}

/// Resident memory of a process in kB.
#[cfg(target_os = "linux")]
pub(crate) fn resident(process: u64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
