//! Writes a worker's output to a file of limited size.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Number of bytes kept from the start of the output, and from its end.
const KEPT: usize = 1 << 20;
/// Time between two checks whether a silent worker has ended.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A thread that copies a pipe to a file until the worker has ended.
pub(super) struct Recorder {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Creates the file at `path` and starts the thread. Returns the recorder and the worker's end of the pipe.
    pub(super) fn start(path: &Path) -> io::Result<(Self, PipeWriter)> {
        let file = File::create(path)?;
        let (reader, writer) = io::pipe()?;
        // A child process that a port leaves behind can keep the other end open forever.
        rustix::io::ioctl_fionbio(&reader, true)?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || copy(reader, Bounded::new(file, KEPT), &seen));
        Ok((Self { ended, thread }, writer))
    }

    /// Copies the rest of the output and closes the file. Call it after the worker has ended.
    pub(super) fn finish(self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

/// Copies the pipe to the file. Write errors are ignored, because no verdict depends on the output.
fn copy(mut from: PipeReader, mut to: Bounded<File>, ended: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        // Loaded before the read, so the last read sees all output of an ended worker.
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

/// A writer that writes the first bytes immediately and the last bytes in `finish`.
struct Bounded<W> {
    to: W,
    /// Number of bytes that can still be written immediately.
    first: usize,
    /// The latest bytes.
    last: VecDeque<u8>,
    /// Largest number of bytes in `last`.
    kept: usize,
    /// Number of bytes dropped between the first and the last bytes.
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
    fn the_first_and_the_last_bytes_are_kept_in_chunks_of_any_size() {
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
    fn all_output_is_written_even_if_the_pipe_stays_open() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("output.log");
        let (recorder, mut writer) = Recorder::start(&path).unwrap();
        writer.write_all(b"last words").unwrap();
        recorder.finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "last words");
        drop(writer);
    }
}
