//! The folder in which MLX keeps the kernels that it compiles for the CPU.
//!
//! MLX writes them below the temporary folder and loads any file that is there. In a folder that processes share, it
//! can load a kernel that another process has half written, or that a killed compiler left behind. So the workers of a
//! project have a temporary folder of their own, and only one worker runs at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mlx_parity_core::run_folder::Exit;

/// The file that exists while a worker runs, and after one that did not end by itself.
const BUSY: &str = ".busy";

/// The temporary folder of a running worker.
pub(super) struct Kernels {
    folder: PathBuf,
}

impl Kernels {
    /// Returns the folder `tmp` beside the device lock, which the caller holds. Removes what a killed worker left there.
    ///
    /// # Errors
    /// When the folder cannot be emptied or created.
    pub(super) fn open(device: &Path) -> io::Result<Self> {
        let folder = device.with_file_name("tmp");
        if folder.join(BUSY).exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        // The worker may have another current folder.
        let folder = folder.canonicalize()?;
        fs::write(folder.join(BUSY), "")?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the kernels for the next worker, if this one has ended by itself.
    pub(super) fn close(self, exit: &Exit) {
        if matches!(exit, Exit::Done) {
            // If the mark stays, the next worker compiles its kernels again.
            let _ = fs::remove_file(self.folder.join(BUSY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_a_killed_worker_are_removed_and_others_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let device = home.path().join("device.lock");
        let kernel = home.path().join("tmp/kernel.so");
        for (exit, is_kept) in [(Exit::Done, true), (Exit::Signal(9), false), (Exit::TimedOut(1), false)] {
            let kernels = Kernels::open(&device).unwrap();
            fs::write(&kernel, "").unwrap();
            kernels.close(&exit);
            Kernels::open(&device).unwrap().close(&Exit::Done);
            assert_eq!(kernel.exists(), is_kept, "{exit:?}");
        }
    }
}
