//! The device lock: one worker at a time, across processes.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::runs::DeviceHolder;

/// Waiting time before a message is printed.
const SILENT: Duration = Duration::from_secs(1);
/// Time between two attempts to get the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// Locks the file at `path` for the holder and returns it. The lock is held until the file is dropped.
///
/// Waits while another process holds the lock. After one second it prints one line to stderr with the waiting spec and
/// the holder.
pub(super) fn hold(path: &Path, holder: &DeviceHolder) -> Result<File, FolderError> {
    let spec = holder.spec.as_str();
    let failed = |source| FolderError::Write { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
    let mut file = file.map_err(failed)?;
    let asked = Instant::now();
    while file.try_lock().is_err() {
        if asked.elapsed() < SILENT {
            std::thread::sleep(PAUSE);
            continue;
        }
        eprintln!("parity: {}", waiting_line(spec, DeviceHolder::read(&mut file).as_ref(), path));
        // On a file system without locks, this returns the error.
        file.lock().map_err(failed)?;
        break;
    }
    // The holder is only for messages, so errors do not matter. A file with other contents stays unchanged.
    let is_ours =
        file.metadata().is_ok_and(|metadata| metadata.len() == 0) || DeviceHolder::read(&mut file).is_some();
    if is_ours {
        let _ = holder.write(&mut file);
    }
    Ok(file)
}

fn waiting_line(spec: &str, holder: Option<&DeviceHolder>, path: &Path) -> String {
    let by = match holder {
        Some(holder) => holder.to_string(),
        None => "held by another process".to_owned(),
    };
    format!("`{spec}`: waiting for the device, {by} (lock file `{}`)", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_holder_and_other_contents_stay() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("device.lock");
        for spec in ["a/much_longer_name", "a/b"] {
            drop(hold(&path, &DeviceHolder::new(std::process::id(), spec)).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!(r#"{{"process":{},"spec":"{spec}"}}"#, std::process::id()));
        }
        std::fs::write(&path, "theirs").unwrap();
        drop(hold(&path, &DeviceHolder::new(1, "a/b")).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn the_line_names_the_waiting_spec_and_the_holder() {
        let holder = DeviceHolder::new(7, "c/d");
        let path = Path::new("device.lock");
        assert_eq!(
            waiting_line("a/b", Some(&holder), path),
            "`a/b`: waiting for the device, held by pid 7, which runs `c/d` (lock file `device.lock`)"
        );
        let stepped = DeviceHolder { debug: Some(5), ..holder };
        assert!(
            waiting_line("a/b", Some(&stepped), path)
                .contains("held by pid 5, a debug session of `c/d` (lock")
        );
        assert!(waiting_line("a/b", None, path).contains("held by another process"));
    }
}
