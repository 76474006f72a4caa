//! Reads goldens from disk on a thread of its own while the port computes.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};

use mlx_parity_core::golden::{FixtureSet, Role, TensorEntry};
use mlx_parity_core::spec::Spec;
use mlx_parity_core::tensor::{Tensor, TensorFormat, byte_len};

/// Goldens with fewer bytes are read faster than a thread is told to.
const LARGE: u64 = 1 << 20;
/// How many bytes of goldens are read ahead of the port.
const AHEAD: u64 = 256 << 20;

/// The large goldens that the port has not reached, in the order of the reference.
pub(super) struct ReadAhead {
    fixtures: Rc<FixtureSet>,
    left: VecDeque<Ahead>,
    /// Those that the thread has read or will read.
    requested: VecDeque<Ahead>,
    thread: Sender<Tensor>,
}

struct Ahead {
    sequence: u64,
    name: String,
    bytes: u64,
}

impl ReadAhead {
    /// Starts to read the first goldens of the checkpoints up to this level; `None` if no golden is large.
    pub(super) fn start(spec: &Spec, fixtures: Option<&Rc<FixtureSet>>, level: u8) -> Option<Self> {
        let fixtures = Rc::clone(fixtures?);
        let is_checked = |entry: &&TensorEntry| {
            let name = entry.name.split('@').next().unwrap_or_default();
            spec.checkpoint(name).is_some_and(|checkpoint| checkpoint.level <= level)
        };
        let ahead = |entry: &TensorEntry| {
            let bytes = byte_len(entry.dtype, &entry.shape).ok()? as u64;
            // A member of an archive is unpacked at each read, which would be work for nothing.
            let is_mapped = !matches!(TensorFormat::of(&entry.file), Ok(TensorFormat::Npz));
            let ahead = Ahead { sequence: entry.sequence?, name: entry.name.clone(), bytes };
            (bytes >= LARGE && is_mapped).then_some(ahead)
        };
        let mut left: Vec<Ahead> =
            fixtures.entries(Role::Golden).filter(is_checked).filter_map(ahead).collect();
        if left.is_empty() {
            return None;
        }
        left.sort_by_key(|ahead| ahead.sequence);
        let (thread, goldens) = channel::<Tensor>();
        // It ends with the sender, or with the process.
        let reader = std::thread::Builder::new().name("read-ahead".to_owned());
        reader.spawn(move || goldens.iter().for_each(|golden| golden.read_ahead())).ok()?;
        let mut started = Self { fixtures, left: left.into(), requested: VecDeque::new(), thread };
        started.request();
        Some(started)
    }

    /// Notes that the port has reached the golden with this sequence number, and reads on.
    pub(super) fn passed(&mut self, sequence: u64) {
        let before = |ahead: Option<&Ahead>| ahead.is_some_and(|ahead| ahead.sequence <= sequence);
        while before(self.requested.front()) {
            self.requested.pop_front();
        }
        // A port can take another way than the reference.
        while before(self.left.front()) {
            self.left.pop_front();
        }
        self.request();
    }

    fn request(&mut self) {
        let mut bytes: u64 = self.requested.iter().map(|ahead| ahead.bytes).sum();
        while bytes < AHEAD
            && let Some(next) = self.left.pop_front()
        {
            // A golden that cannot be read shows that when it is compared.
            if let Ok(golden) = self.fixtures.golden(&next.name)
                && self.thread.send(golden.tensor).is_ok()
            {
                bytes += next.bytes;
                self.requested.push_back(next);
            }
        }
    }
}
