//! The run folder of one spec: the job of the worker, and everything that the worker writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::line::Line;
use crate::details::Details;
use crate::files::atomic::write_atomically;
use crate::files::regular;
use crate::spec::hit_name;

/// The format version of a suite's files; a plan with another version is refused.
pub const FORMAT: u32 = 1;

/// How the worker process ended, as its parent saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It finished with success.
    Done,
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It exceeded the timeout of the spec, in seconds, and was killed.
    TimedOut(u64),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// The process that started it was killed first.
    Abandoned,
    /// It is still running. This value is never written to a file.
    Running,
}

/// The folder of the second run, with every golden injected, inside the run folder of a red spec.
pub const LOCAL: &str = "local";

/// Why a file of a run could not be written or read.
#[derive(Debug, Error)]
pub enum FolderError {
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A folder holds files that mlx-parity did not write.
    #[error(
        "`{path}` holds files, but no marker of mlx-parity, so mlx-parity does not touch it; remove it, or name another folder \
         with PARITY_OUT"
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// The folder belongs to a debug session.
    #[error("`{path}` belongs to a debug session, which judges nothing; make a run instead")]
    Debug {
        /// The folder.
        path: PathBuf,
    },
    /// A file has another format version.
    #[error(
        "`{path}` has format {found}, expected {}; report the run with the version of mlx-parity that made it",
        super::FORMAT
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A file does not have the expected content.
    #[error("`{path}` is damaged: its content is not what a worker writes")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

/// The run folder of one spec, `runs/<key>/<spec>/`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn create(path: PathBuf) -> Result<Self, FolderError> {
        fs::create_dir_all(&path).map_err(|source| FolderError::Write { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// Returns an existing run folder; nothing is read or created.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Creates the folder of the second run, with every golden injected, inside `within`.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn local(within: &Self) -> Result<Self, FolderError> {
        Self::create(within.file(LOCAL))
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of the file with everything that the worker and the port printed.
    pub fn output(&self) -> PathBuf {
        self.file("output.log")
    }

    /// Returns the path of the file with the records.
    pub fn records(&self) -> PathBuf {
        self.file(RECORDS)
    }

    /// Returns the path for the actual of a failing checkpoint.
    pub fn actual(&self, checkpoint: &str, hit: u64) -> PathBuf {
        self.file("actual").join(format!("{}.npy", hit_name(checkpoint, hit)))
    }

    /// Returns the path for a picture of a checkpoint. `kind` is `golden`, `actual` or `diff`, or several in braces.
    pub fn picture(&self, checkpoint: &str, hit: u64, kind: &str) -> PathBuf {
        self.file("images").join(format!("{}.{kind}.png", hit_name(checkpoint, hit)))
    }

    /// Writes the details of a red hit.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_details(&self, checkpoint: &str, hit: u64, details: &Details) -> Result<(), FolderError> {
        Self::create(self.file(DETAILS))?;
        self.write_json(&details_file(checkpoint, hit), details)
    }

    /// Reads the details of a red hit; `None` if the worker kept none.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn read_details(&self, checkpoint: &str, hit: u64) -> Result<Option<Details>, FolderError> {
        // A damaged record can name anything.
        if !is_plain(checkpoint) { Ok(None) } else { self.read_json(&details_file(checkpoint, hit)) }
    }

    /// Reads a picture of a checkpoint; `None` if it does not exist or has more than `limit` bytes.
    pub fn read_picture(&self, checkpoint: &str, hit: u64, kind: &str, limit: u64) -> Option<Vec<u8>> {
        let path = is_plain(checkpoint).then(|| self.picture(checkpoint, hit, kind))?;
        regular::read(&path, limit).ok().filter(|bytes| !bytes.is_empty())
    }

    /// Waits until no other process works in this folder. The lock is held until the file is dropped.
    ///
    /// # Errors
    /// When the lock file cannot be created or locked.
    pub fn lock(&self) -> Result<File, FolderError> {
        lock(&self.file("lock"))
    }

    /// Removes everything except the lock, which the caller holds. The records go first, so no old verdict can survive.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn clear(&self) -> Result<(), FolderError> {
        let failed = |path: PathBuf| |source| FolderError::Write { path, source };
        let records = self.file(RECORDS);
        if records.exists() {
            fs::remove_file(&records).map_err(failed(records.clone()))?;
        }
        for entry in fs::read_dir(&self.0).map_err(failed(self.0.clone()))? {
            let entry = entry.map_err(failed(self.0.clone()))?;
            if entry.file_name() == "lock" {
                continue;
            }
            let removed = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
            removed.map_err(failed(entry.path()))?;
        }
        Ok(())
    }

    /// Returns whether a process works in this folder.
    pub fn is_locked(&self) -> bool {
        regular::open(&self.file("lock")).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Writes `value` as JSON into the file `name`, and replaces the file in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let path = self.file(name);
        let text = serde_json::to_vec_pretty(value)
            .map_err(|source| FolderError::Parse { path: path.clone(), source })?;
        write_atomically(&path, |out| out.write_all(&text))
            .map_err(|source| FolderError::Write { path, source })
    }

    /// Reads a file that [`Folder::write_json`] wrote; `None` if it does not exist.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FolderError> {
        let path = self.file(name);
        let bytes = match regular::read(&path, regular::TEXT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|source| FolderError::Parse { path, source })
    }

    /// Reads the file `name`, which has one JSON value per line; empty if it does not exist. An incomplete last line is
    /// skipped.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn read_json_lines<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, FolderError> {
        let path = self.file(name);
        let lines = whole_lines(&path)?.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        lines.map_err(|source| FolderError::Parse { path, source })
    }

    /// Returns the lines of `records.jsonl` so far. A killed worker can leave an incomplete last line, which is skipped.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn lines(&self) -> Result<Vec<Line>, FolderError> {
        let path = self.file(RECORDS);
        let text = whole_lines(&path)?;
        let lines: Vec<&str> = text.lines().collect();
        let parse =
            |lines: &[&str]| lines.iter().map(|line| Line::parse(line)).collect::<Result<Vec<_>, _>>();
        // Parsing thousands of records takes as long as a small forward pass, so two threads share it.
        let parsed = if lines.len() < 1000 {
            parse(&lines)
        } else {
            let (first, second) = lines.split_at(lines.len() / 2);
            std::thread::scope(|scope| {
                let second = scope.spawn(|| parse(second));
                let mut all = parse(first)?;
                all.extend(second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
                Ok(all)
            })
        };
        parsed.map_err(|source| FolderError::Parse { path, source })
    }
}

/// Returns the complete lines of a file that grows line by line; empty if it does not exist. A killed process can leave an
/// incomplete last line, which is left out.
fn whole_lines(path: &Path) -> Result<String, FolderError> {
    let mut text = match regular::read_text(path, regular::RECORDS) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(source) => return Err(FolderError::Read { path: path.to_owned(), source }),
    };
    text.truncate(text.rfind('\n').unwrap_or(0));
    Ok(text)
}

const RECORDS: &str = "records.jsonl";
const DETAILS: &str = "details";
/// The file with the end of the worker; it exists once the run is over.
pub const EXIT: &str = "exit.json";
/// The file with the expanded spec and its digest.
pub const SPEC_FILE: &str = "spec.json";
/// The file with the id of the process that started the run.
pub const STARTED: &str = "started";

/// The start of the line in the worker's output that a tap writes when the port reaches it; the name of the hit follows.
pub const TAP_LINE: &str = "-- tap ";

fn details_file(checkpoint: &str, hit: u64) -> String {
    format!("{DETAILS}/{}.json", hit_name(checkpoint, hit))
}

/// Whether a name is one part of a path, so that a file with this name is inside its folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with("..")
}

/// Opens `path` and waits until no other process holds its lock.
///
/// # Errors
/// When the file cannot be created or locked.
pub fn lock(path: &Path) -> Result<File, FolderError> {
    let failed = |source| FolderError::Write { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Appends lines to `records.jsonl`.
pub struct Writer {
    path: PathBuf,
    file: File,
    /// The buffer for one line, reused for the next.
    text: Vec<u8>,
}

impl Writer {
    /// Creates an empty `records.jsonl` in `folder`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(folder: &Folder) -> Result<Self, FolderError> {
        let path = folder.file(RECORDS);
        let file = File::create(&path).map_err(|source| FolderError::Write { path: path.clone(), source })?;
        Ok(Self { path, file, text: Vec::new() })
    }

    /// Appends one line in a single write, so an abort right after it leaves a whole line.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn write(&mut self, line: &Line) -> Result<(), FolderError> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)
            .map_err(|source| FolderError::Parse { path: self.path.clone(), source })?;
        self.text.push(b'\n');
        self.file
            .write_all(&self.text)
            .map_err(|source| FolderError::Write { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::create(home.path().join("a/b")).unwrap();
        assert!(folder.lines().unwrap().is_empty());
        let mut writer = Writer::create(&folder).unwrap();
        writer.write(&Line::Undeclared { name: "x".into() }).unwrap();
        writer.file.write_all(b"{\"kind\":\"unde").unwrap();
        let lines = folder.lines().unwrap();
        assert!(matches!(&lines[..], [Line::Undeclared { name }] if name == "x"));
        writer.file.write_all(b"\nrubbish\n").unwrap();
        assert!(matches!(folder.lines(), Err(FolderError::Parse { .. })));
    }

    #[test]
    fn json_files_are_replaced_whole_and_may_be_absent() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::create(home.path().to_owned()).unwrap();
        assert_eq!(folder.read_json::<Exit>("exit.json").unwrap(), None);
        for exit in [Exit::TimedOut(3), Exit::Signal(6)] {
            folder.write_json("exit.json", &exit).unwrap();
            assert_eq!(folder.read_json::<Exit>("exit.json").unwrap(), Some(exit));
        }
    }
}
