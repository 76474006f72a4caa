//! Replaces a folder by a new one, so that a reader always finds one of the two complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use walkdir::WalkDir;

/// Where the old folder is kept between the two renames of a system that cannot exchange.
pub(super) fn kept(new: &Path) -> PathBuf {
    let mut name = new.file_name().unwrap_or_default().to_owned();
    name.push(".old");
    new.with_file_name(name)
}

/// Puts `new` in the place of `target`, and returns the folder that now has the old content, if there was any. The caller
/// removes it, except for files that the set does not own.
///
/// Both must be on one file system, and the parent of `target` must exist. The new files are on the disk before anything
/// moves. Without `exchange`, two renames are used, as on a system that cannot exchange folders.
pub(super) fn swap(new: &Path, target: &Path, exchange: bool) -> io::Result<Option<PathBuf>> {
    for entry in WalkDir::new(new).contents_first(true) {
        let entry = entry?;
        // Opening a pipe would block; a set with one is rejected before it comes here.
        if entry.file_type().is_file() || entry.file_type().is_dir() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    if !target.exists() {
        rename_only(new, target)?;
        sync_parent(target)?;
        return Ok(None);
    }
    if exchange {
        match renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                sync_parent(target)?;
                return Ok(Some(new.to_owned()));
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // For a moment there is no folder; if this process is killed just then, `restore` puts the old one back.
    let old = kept(new);
    fs::rename(target, &old)?;
    if let Err(error) = fs::rename(new, target) {
        fs::rename(&old, target)?;
        return Err(error);
    }
    sync_parent(target)?;
    Ok(Some(old))
}

/// Puts the old folder back if a swap of `new` for `target` was killed between its two renames. Returns whether it was.
pub(super) fn restore(new: &Path, target: &Path) -> io::Result<bool> {
    let old = kept(new);
    if !old.is_dir() || target.exists() {
        return Ok(false);
    }
    rename_only(&old, target)?;
    Ok(true)
}

/// Renames to a name that must not exist yet.
pub(super) fn rename_only(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        other => Ok(other?),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn folder(path: &Path, mark: &str, files: usize) {
        fs::create_dir_all(path).unwrap();
        for file in 0..files {
            fs::write(path.join(format!("{file}")), mark).unwrap();
        }
    }

    /// The one mark that all files have.
    fn mark(path: &Path) -> String {
        let mut marks: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        marks.dedup();
        assert_eq!(marks.len(), 1, "mixed: {marks:?}");
        marks.remove(0)
    }

    proptest! {
        // Each case waits for the disk.
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_swap_leaves_the_new_folder_and_nothing_beside(
            old in proptest::option::of(1..6usize), new in 1..6usize, exchange: bool
        ) {
            let home = tempfile::tempdir().unwrap();
            let (target, aside) = (home.path().join("set"), home.path().join("aside"));
            if let Some(files) = old {
                folder(&target, "old", files);
            }
            folder(&aside, "new", new);
            let kept = swap(&aside, &target, exchange).unwrap();
            prop_assert_eq!(kept.is_some(), old.is_some());
            if let Some(kept) = kept {
                prop_assert_eq!(mark(&kept), "old");
                fs::remove_dir_all(kept).unwrap();
            }
            prop_assert_eq!(mark(&target), "new");
            prop_assert_eq!(fs::read_dir(&target).unwrap().count(), new);
            prop_assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn between_two_renames_the_old_one_is_put_back() {
        let home = tempfile::tempdir().unwrap();
        let (target, aside) = (home.path().join("set"), home.path().join("aside"));
        folder(&aside, "new", 2);
        folder(&kept(&aside), "old", 3);
        assert!(restore(&aside, &target).unwrap());
        assert_eq!(mark(&target), "old");
        // Once it is there, nothing is restored over it.
        folder(&kept(&aside), "older", 3);
        assert!(!restore(&aside, &target).unwrap());
        assert_eq!(mark(&target), "old");
    }

    #[test]
    fn a_swap_that_fails_leaves_the_old_folder() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("set");
        folder(&target, "old", 3);
        for exchange in [true, false] {
            assert!(swap(&home.path().join("absent"), &target, exchange).is_err());
            assert_eq!(mark(&target), "old");
        }
    }

    /// A reader that reads all the time sees one folder or the other, never a mixture and never none.
    #[test]
    fn a_reader_never_sees_a_mixture() {
        let home = tempfile::tempdir().unwrap();
        let (target, aside) = (home.path().join("set"), home.path().join("aside"));
        folder(&target, "0", 8);
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for round in 1..60 {
                    folder(&aside, &round.to_string(), 8);
                    let old = swap(&aside, &target, true).unwrap();
                    fs::remove_dir_all(old.unwrap()).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                // An open folder stays the one that was opened, whatever takes its name.
                let Ok(opened_folder) = rustix::fs::openat(
                    CWD,
                    &target,
                    rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY,
                    rustix::fs::Mode::empty(),
                ) else {
                    panic!("there was a moment without a folder");
                };
                let mut marks = Vec::new();
                for file in 0..8 {
                    let opened = rustix::fs::openat(
                        &opened_folder,
                        format!("{file}"),
                        rustix::fs::OFlags::RDONLY,
                        rustix::fs::Mode::empty(),
                    );
                    // One that was already replaced is being removed.
                    let Ok(opened) = opened else { continue };
                    marks.push(io::read_to_string(File::from(opened)).unwrap());
                }
                marks.dedup();
                assert!(marks.len() <= 1, "mixed: {marks:?}");
            }
        });
    }
}
