//! The device lock: one worker at a time, across processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use mlx_parity_core::run_folder::FolderError;

/// Waiting time before a message is printed.
const SILENT: Duration = Duration::from_secs(1);
/// Time between two attempts to get the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The process that holds the lock, written to the lock file.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: u32,
    spec: String,
}

/// Locks the file at `path` for the spec and returns it. The lock is held until the file is dropped.
///
/// Waits while another process holds the lock. After one second it prints one line to stderr with the waiting spec and
/// the holder.
pub(super) fn hold(path: &Path, spec: &str) -> Result<File, FolderError> {
    let failed = |source| FolderError::Write { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
    let mut file = file.map_err(failed)?;
    let asked = Instant::now();
    while file.try_lock().is_err() {
        if asked.elapsed() < SILENT {
            std::thread::sleep(PAUSE);
            continue;
        }
        eprintln!("parity: {}", waiting_line(spec, holder(&mut file).as_ref(), path));
        // On a file system without locks, this returns the error.
        file.lock().map_err(failed)?;
        break;
    }
    // The holder is only for messages, so errors do not matter. A file with other contents stays unchanged.
    let is_ours = file.metadata().is_ok_and(|metadata| metadata.len() == 0) || holder(&mut file).is_some();
    if is_ours
        && let Ok(text) = serde_json::to_vec(&Holder { process: std::process::id(), spec: spec.to_owned() })
    {
        let _ =
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).and_then(|_| file.write_all(&text));
    }
    Ok(file)
}

fn holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    Read::by_ref(file).take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn waiting_line(spec: &str, holder: Option<&Holder>, path: &Path) -> String {
    let by = match holder {
        Some(Holder { process, spec }) => format!("process {process} runs `{spec}`"),
        None => "another process holds the lock".to_owned(),
    };
    format!("`{spec}` waits for the device: {by} (lock file `{}`)", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_holder_and_other_contents_stay() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("device.lock");
        for spec in ["a/much_longer_name", "a/b"] {
            drop(hold(&path, spec).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!(r#"{{"process":{},"spec":"{spec}"}}"#, std::process::id()));
        }
        std::fs::write(&path, "theirs").unwrap();
        drop(hold(&path, "a/b").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn the_line_names_the_waiting_spec_and_the_holder() {
        let holder = Holder { process: 7, spec: "c/d".into() };
        let path = Path::new("device.lock");
        assert_eq!(
            waiting_line("a/b", Some(&holder), path),
            "`a/b` waits for the device: process 7 runs `c/d` (lock file `device.lock`)"
        );
        assert!(waiting_line("a/b", None, path).contains("another process holds the lock"));
    }
}
