//! The signals that end a server.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes at Ctrl-C or SIGTERM.
pub(crate) fn end_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
