//! The lock that stands for the device: one worker at a time, whichever process asks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::folder::FolderError;

/// How long waiting is not worth a word.
const SILENT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Who has the device, in the lock's file.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: u32,
    spec: String,
}

/// Waits until nobody else has the device whose lock is the file at `path`; it is held until the file is dropped.
///
/// Who waits for more than a second says so on stderr, once: who waits, and for whom.
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
        eprintln!("parity: {}", waits(spec, holder(&mut file).as_ref(), path));
        // Where locks cannot be had at all, this says so.
        file.lock().map_err(failed)?;
        break;
    }
    // No verdict depends on it, and a file that is not ours stays as it is.
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

fn waits(spec: &str, holder: Option<&Holder>, path: &Path) -> String {
    let by = match holder {
        Some(Holder { process, spec }) => format!("process {process} runs `{spec}`"),
        None => "another process has it".to_owned(),
    };
    format!("`{spec}` waits for the device: {by} (the lock is `{}`)", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_holder_and_is_left_alone_when_it_is_another_s() {
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
    fn a_line_says_who_waits_for_whom() {
        let holder = Holder { process: 7, spec: "c/d".into() };
        let path = Path::new("device.lock");
        assert_eq!(
            waits("a/b", Some(&holder), path),
            "`a/b` waits for the device: process 7 runs `c/d` (the lock is `device.lock`)"
        );
        assert!(waits("a/b", None, path).contains("another process has it"));
    }
}
