//! The actuals and pictures of a run: which are written, and how much room the size limit leaves for them.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use super::background_writer::BackgroundWriter;
use super::picture::Picture;
use mlx_parity_core::record::{Record, TensorInfo};
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::tensor::{Tensor, TensorFile, write_npy};
use mlx_parity_core::text::program::program;

/// Number of actuals that the injected run writes if they differ from the free run's. The first failures matter most.
const MOST_KEPT_AGAIN: usize = 3;

/// The bytes that a worker may still write, in all its passes.
#[derive(Debug, Clone)]
pub(super) struct Room(Rc<Limits>);

#[derive(Debug)]
struct Limits {
    /// What `PARITY_SIZE_LIMIT` leaves.
    of_all: Cell<Option<u64>>,
    /// What `PARITY_KEEP_LIMIT` leaves.
    of_run: Cell<Option<u64>>,
}

/// A limit that leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    All,
    Run,
}

impl Room {
    /// Returns room for what both limits leave: that of all fixtures and runs, and that of the run. `None` is any number of bytes.
    pub(super) fn of(of_all: Option<u64>, of_run: Option<u64>) -> Self {
        Self(Rc::new(Limits { of_all: Cell::new(of_all), of_run: Cell::new(of_run) }))
    }

    /// Returns the limit that leaves no room for this many bytes.
    fn full(&self, bytes: u64) -> Option<Full> {
        let is_full = |limit: &Cell<Option<u64>>| limit.get().is_some_and(|left| bytes > left);
        if is_full(&self.0.of_all) { Some(Full::All) } else { is_full(&self.0.of_run).then_some(Full::Run) }
    }

    fn take(&self, bytes: u64) {
        for limit in [&self.0.of_all, &self.0.of_run] {
            limit.set(limit.get().map(|left| left.saturating_sub(bytes)));
        }
    }
}

/// The actuals and pictures of one pass.
pub(super) struct Actuals {
    folder: Folder,
    /// The folder of the free run that this injected run repeats.
    earlier: Option<Folder>,
    /// Number of failures whose actual differs from the free run's.
    kept_again: usize,
    room: Room,
    writer: BackgroundWriter,
}

impl Actuals {
    pub(super) fn new(folder: Folder, room: Room) -> Self {
        Self { folder, earlier: None, kept_again: 0, room, writer: BackgroundWriter::default() }
    }

    /// Sets the folder of the free run that this run repeats. An actual that is equal in both runs is stored once.
    pub(super) fn after(self, earlier: &Folder) -> Self {
        Self { earlier: Some(earlier.clone()), ..self }
    }

    /// Returns why an actual cannot be kept; `None` if there is room for it. An actual that a twin needs may be larger than what
    /// the run may keep.
    pub(super) fn no_room(&self, actual: &TensorInfo, is_for_twin: bool) -> Option<String> {
        let elements = actual.shape.iter().fold(1u64, |count, &length| count.saturating_mul(length as u64));
        match self.room.full(elements.saturating_mul(actual.dtype.size() as u64))? {
            Full::All => Some(format!(
                "fixtures and runs have reached PARITY_SIZE_LIMIT; remove old runs with `{} clean`, or raise the limit",
                program()
            )),
            Full::Run if is_for_twin => None,
            Full::Run => Some(
                "the actuals of this run have reached PARITY_KEEP_LIMIT; raise the limit, or select fewer checkpoints"
                    .to_owned(),
            ),
        }
    }

    /// Writes the actual of a failed checkpoint to the run folder, at the latest when this is dropped.
    pub(super) fn keep(&mut self, record: &Record, actual: &Tensor) {
        if record.not_kept.is_some() {
            return;
        }
        let path = self.folder.actual(&record.checkpoint, record.hit);
        let earlier = self.earlier.as_ref().map(|folder| folder.actual(&record.checkpoint, record.hit));
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| error.to_string());
        // If the free run wrote the same tensor, both runs share one file.
        if let Some(earlier) = earlier.filter(|earlier| made.is_ok() && holds(earlier, actual))
            && std::fs::hard_link(earlier, &path).is_ok()
        {
            return;
        }
        if self.earlier.is_some() {
            self.kept_again += 1;
            if self.kept_again > MOST_KEPT_AGAIN {
                return;
            }
        }
        match made {
            Ok(()) => {
                self.room.take((actual.len() * actual.dtype().size()) as u64);
                self.writer.write(path, actual, &record.checkpoint);
            }
            Err(problem) => eprintln!("cannot write the actual of `{}`: {problem}", record.checkpoint),
        }
    }

    /// Writes the tensor of a tap that is not checked, if there is room. Returns whether it was written.
    pub(super) fn keep_tensor(&self, name: &str, hit: u64, actual: &Tensor) -> bool {
        // A port can name an undeclared tap as it likes, and the name becomes that of a file.
        if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') || name.len() > 200 {
            return false;
        }
        let (view, path) = (actual.view(), self.folder.actual(name, hit));
        let has_room = self.no_room(&(&view).into(), false).is_none();
        let made = path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok());
        let written = has_room && made && write_npy(&path, &view).is_ok();
        if written {
            self.room.take(length(&path));
        }
        written
    }

    /// Writes golden, actual and difference of a checkpoint as pictures, if there is room.
    pub(super) fn draw(&self, picture: &Picture, name: &str, hit: u64) {
        if self.room.full(1).is_some() {
            return;
        }
        if let Err(error) = picture.write(&self.folder.file("images"), &hit_name(name, hit)) {
            eprintln!("cannot write the images of `{name}`: {error}");
        }
        for kind in ["golden", "actual", "diff"] {
            self.room.take(length(&self.folder.picture(name, hit, kind)));
        }
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

/// Returns whether the file at `path` holds exactly this tensor.
fn holds(path: &Path, tensor: &Tensor) -> bool {
    let kept = TensorFile::open(path).and_then(|file| file.get(file.names().next().unwrap_or_default()));
    kept.is_ok_and(|kept| {
        let (kept, tensor) = (kept.view(), tensor.view());
        let same_info = kept.dtype() == tensor.dtype() && kept.shape() == tensor.shape();
        same_info && kept.row_major_bytes().is_some() && kept.row_major_bytes() == tensor.row_major_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::Dtype;

    #[test]
    fn room_is_shared_by_all_passes_and_ends() {
        let home = tempfile::tempdir().unwrap();
        let folder = || Folder::at(home.path().to_owned());
        let room = Room::of(Some(100), Some(200));
        let (first, second) = (Actuals::new(folder(), room.clone()), Actuals::new(folder(), room.clone()));
        let info = |length: usize| TensorInfo { dtype: Dtype::Float32, shape: vec![length] };
        assert_eq!(first.no_room(&info(25), false), None);
        assert!(first.no_room(&info(26), false).unwrap().contains("PARITY_SIZE_LIMIT"));
        assert!(first.no_room(&info(usize::MAX), true).is_some());
        room.take(90);
        assert!(second.no_room(&info(3), false).is_some());
        room.take(90);
        assert_eq!((room.full(1), room.full(0)), (Some(Full::All), None));
        let any = Actuals::new(folder(), Room::of(None, None));
        assert_eq!(any.no_room(&info(usize::MAX), false), None);
    }

    #[test]
    fn a_run_keeps_so_many_bytes_and_what_its_twins_need() {
        let folder = Folder::at(std::path::PathBuf::from("never written"));
        let actuals = Actuals::new(folder, Room::of(Some(1000), Some(100)));
        let info = |length: usize| TensorInfo { dtype: Dtype::Float32, shape: vec![length] };
        assert_eq!(actuals.no_room(&info(25), false), None);
        assert!(actuals.no_room(&info(26), false).unwrap().contains("PARITY_KEEP_LIMIT"));
        assert_eq!(actuals.no_room(&info(26), true), None);
        assert!(actuals.no_room(&info(251), true).unwrap().contains("PARITY_SIZE_LIMIT"));
    }
}
