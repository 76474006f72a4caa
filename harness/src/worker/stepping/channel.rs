//! The worker's end of the connection to the front of the session.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::super::end_process::end_process;
use mlx_parity_core::debug::{FromWorker, MOST_MESSAGE, ToWorker};

/// A connection to the front. The worker ends when the connection does.
pub(super) struct Channel {
    stream: UnixStream,
    messages: Receiver<ToWorker>,
    pause: Arc<AtomicBool>,
    idle: Duration,
}

impl Channel {
    /// Connects to the front's socket.
    pub(super) fn connect(path: &Path, idle: Duration) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot connect to the debug session: {error}");
        let stream = UnixStream::connect(path).map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let (sender, messages) = channel();
        let pause = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&pause);
        std::thread::spawn(move || read(reader, &sender, &asked));
        let channel = Self { stream, messages, pause, idle };
        channel.send(&FromWorker::Hello { process: std::process::id() });
        Ok(channel)
    }

    /// Sends a message. A front that is gone ends this process through the reader.
    pub(super) fn send(&self, message: &FromWorker) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let _ = (&self.stream).write_all(&line);
    }

    /// Waits for the next message; `None` after the idle limit.
    pub(super) fn receive(&self) -> Option<ToWorker> {
        match self.messages.recv_timeout(self.idle) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            // The reader has ended, and with it this process.
            Err(RecvTimeoutError::Disconnected) => end_process(),
        }
    }

    /// Returns whether a pause was asked for since the last call.
    pub(super) fn takes_pause(&self) -> bool {
        self.pause.swap(false, Ordering::Relaxed)
    }
}

/// Reads messages on a thread of its own, so that a pause and the end of the front are noticed while the port computes.
fn read(stream: UnixStream, sender: &Sender<ToWorker>, pause: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(MOST_MESSAGE as u64).read_until(b'\n', &mut line);
        if matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::Interrupted) {
            continue;
        }
        if read.is_err() || line.is_empty() {
            end_process();
        }
        match serde_json::from_slice(&line) {
            Ok(ToWorker::Pause) => pause.store(true, Ordering::Relaxed),
            Ok(message) => _ = sender.send(message),
            // Another version, or somebody else: nothing that follows could be trusted.
            Err(_) => end_process(),
        }
    }
}
