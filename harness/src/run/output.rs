//! What a worker prints: kept in a file that stays small, whatever the port does.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// So many bytes from the beginning are kept, and so many from the end.
const KEPT: usize = 1 << 20;
/// How often it is looked whether the worker has ended, while it prints nothing.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Copies what comes through a pipe into a file, until the worker has ended.
pub(super) struct Recorder {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Starts to fill the file at `path`; what comes back second is for the worker.
    pub(super) fn start(path: &Path) -> io::Result<(Self, PipeWriter)> {
        let file = File::create(path)?;
        let (reader, writer) = io::pipe()?;
        // A child that a port leaves behind may keep the other end open for ever.
        rustix::io::ioctl_fionbio(&reader, true)?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || copy(reader, Bounded::new(file, KEPT), &seen));
        Ok((Self { ended, thread }, writer))
    }

    /// Keeps what the worker, which has ended, had printed.
    pub(super) fn finish(self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

/// What cannot be written is lost: no verdict depends on it.
fn copy(mut from: PipeReader, mut to: Bounded<File>, ended: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        // Asked before the pipe is read: what was printed until then is in it.
        let is_last = ended.load(Ordering::Acquire);
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => to.write(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && !is_last => {
                let _ = poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&PAUSE));
            }
            Err(_) => break,
        }
    }
    to.finish();
}

/// A writer that passes on the first bytes at once, and the last ones at the end.
struct Bounded<W> {
    to: W,
    /// How many bytes may still be passed on.
    first: usize,
    last: VecDeque<u8>,
    /// How many bytes are kept for the end.
    kept: usize,
    left_out: u64,
}

impl<W: Write> Bounded<W> {
    fn new(to: W, kept: usize) -> Self {
        Self { to, first: kept, last: VecDeque::new(), kept, left_out: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.first));
        self.first -= first.len();
        let _ = self.to.write_all(first);
        let skipped = rest.len().saturating_sub(self.kept);
        let rest = &rest[skipped..];
        let dropped = (self.last.len() + rest.len()).saturating_sub(self.kept);
        self.last.drain(..dropped);
        self.last.extend(rest);
        self.left_out += (skipped + dropped) as u64;
    }

    fn finish(mut self) {
        if self.left_out > 0 {
            let _ = write!(self.to, "\n[{} bytes left out here]\n", self.left_out);
        }
        let (front, back) = self.last.as_slices();
        let _ = self.to.write_all(front).and_then(|()| self.to.write_all(back));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_bytes_are_kept_however_they_come() {
        for (parts, expected) in [
            (&["abc"][..], "abc"),
            (&["abcd", "efgh"], "abcdefgh"),
            (&["abcdefgh", "ij"], "abcd\n[2 bytes left out here]\nghij"),
            (&["a", "bcdef", "g", "hij"], "abcd\n[2 bytes left out here]\nghij"),
            (&["abcdefghijklmnop"], "abcd\n[8 bytes left out here]\nmnop"),
        ] {
            let mut kept = Vec::new();
            let mut bounded = Bounded::new(&mut kept, 4);
            parts.iter().for_each(|part| bounded.write(part.as_bytes()));
            bounded.finish();
            assert_eq!(String::from_utf8(kept).unwrap(), expected, "{parts:?}");
        }
    }

    #[test]
    fn what_was_printed_is_there_though_the_pipe_stays_open() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("output.log");
        let (recorder, mut writer) = Recorder::start(&path).unwrap();
        writer.write_all(b"last words").unwrap();
        recorder.finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "last words");
        drop(writer);
    }
}
