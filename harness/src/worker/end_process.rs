//! The end of a worker that nobody waits for any more.

use std::io::{ErrorKind, Read};

use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};

/// Ends this process when its standard input closes, because the parent has then ended.
pub(super) fn end_with_parent() {
    std::thread::spawn(|| {
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut [0; 64]) {
                Ok(1..) => {}
                // The port or a profiler can handle a signal, which interrupts the read.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        end_process();
    });
}

/// Ends this process at once, and the port's child processes, if the worker has its own process group.
pub(super) fn end_process() -> ! {
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    // Not `exit`: its handlers would run while MLX is still computing.
    std::process::abort();
}
