//! The folder of one run of one spec: what is asked of the worker, and all that it leaves behind.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::atomic::write_atomically;
use crate::record::Record;
use crate::regular;
use crate::run::obstacle::Obstacle;
use crate::spec::hit_name;

/// One line of `records.jsonl`, in the order in which things happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// A declared checkpoint was met.
    Checkpoint(Arc<Record>),
    /// A tap was met that the spec does not declare; each name once.
    Undeclared {
        /// The tap's full name.
        name: String,
    },
    /// A declared checkpoint was met after one whose golden the reference made later; only the first is told.
    OutOfOrder {
        /// The checkpoint.
        name: String,
        /// The one that came too early.
        after: String,
    },
    /// The port came back. Its absence means that the worker did not live to see it.
    End(Box<End>),
}

impl Line {
    /// Reads what a [`Writer`] wrote. Serde reads a tagged value twice, which counts where there are many records.
    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        match text.starts_with(r#"{"kind":"checkpoint","#) {
            true => serde_json::from_str(text).map(Self::Checkpoint),
            false => serde_json::from_str(text),
        }
    }
}

/// What was known when the port came back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    /// What the port returned or panicked with, if it did not succeed.
    pub(crate) error: Option<String>,
    /// Whether it was stopped on purpose after the last checkpoint that anyone asked for.
    pub(crate) stopped: bool,
    /// Inputs that the spec declares and the port never asked for.
    pub(crate) unused_inputs: Vec<String>,
    /// What became of the weights, if the spec has any.
    pub(crate) weights: Option<Audit>,
    /// What the port drew from MLX's global random state, if it drew anything.
    pub(crate) random: Option<Drew>,
    /// What was verified before the run and is not what it was at its end, or was already another at its start: nothing
    /// that the run found can be trusted.
    #[serde(default)]
    pub(crate) changed: Vec<Obstacle>,
}

/// A port's use of MLX's global random state after it had its weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drew {
    /// How often it drew; unknown if very often, or if it seeded the state itself.
    pub(crate) times: Option<u32>,
}

impl fmt::Display for Drew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.times {
            Some(1) => "drew once from".to_owned(),
            Some(times) => format!("drew {times} times from"),
            None => "drew from, or seeded,".to_owned(),
        };
        write!(
            f,
            "the port {what} MLX's global random state after it had its weights; no reference draws the same, so \
             take noise as an input (a layer draws when it is made: make it before its weights are taken)"
        )
    }
}

/// What a port did with its weights, by the port's names. Anything but `taken` is a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Audit {
    /// Those that the port asked for and got.
    pub(crate) taken: Vec<String>,
    /// Asked for, or expected by the spec, and not there.
    pub(crate) missing: Vec<String>,
    /// There, and never asked for.
    pub(crate) unused: Vec<String>,
    /// Of another shape than the module's parameter; the text says which.
    pub(crate) misshapen: Vec<String>,
    /// Of another dtype than the spec declares, or another kind than the module's parameter.
    pub(crate) mistyped: Vec<String>,
    /// Scales or biases of a quantised weight that the files do not have.
    pub(crate) siblings: Vec<String>,
    /// Quantised weights that are packed otherwise than the spec or their own scales say.
    pub(crate) packing: Vec<String>,
}

impl Audit {
    /// Everything that is wrong, by kind: the word for one, how many are counted, and what they are.
    pub(crate) fn faults(&self) -> [(&'static str, &'static str, &[String]); 6] {
        [
            ("MISSING", "missing", &self.missing),
            ("UNUSED", "never used", &self.unused),
            ("SHAPE", "of another shape", &self.misshapen),
            ("DTYPE", "of another dtype", &self.mistyped),
            ("SIBLING", "without scales or biases", &self.siblings),
            ("PACKING", "packed otherwise", &self.packing),
        ]
    }

    /// Whether every weight was there, fitted, and was taken.
    pub(crate) fn is_clean(&self) -> bool {
        self.faults().iter().all(|(_, _, found)| found.is_empty())
    }
}

/// How the worker process ended, as its parent saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exit {
    /// It finished and said so.
    Done,
    /// It ended with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// It ran for longer than the spec's timeout, in seconds, and was killed.
    TimedOut(u64),
    /// It could not be started.
    NotStarted(String),
    /// Another process started it and was itself killed before it ended.
    Abandoned,
    /// It has not ended. Reports of a run that goes on say so; it is never written.
    Running,
}

/// The folder of the run with every golden injected, inside that of a red one.
pub(super) const LOCAL: &str = "local";

/// Why a run's files could not be written or read.
#[derive(Debug, Error)]
pub(crate) enum FolderError {
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "`{path}` holds files and has no marker of mlx-parity's, so it is left alone; remove it, or name another folder \
         with PARITY_OUT"
    )]
    NotOurs { path: PathBuf },
    #[error("`{path}` is not what a worker writes")]
    Parse { path: PathBuf, source: serde_json::Error },
}

/// `runs/<key>/<spec>/`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is not there.
    pub(crate) fn create(path: PathBuf) -> Result<Self, FolderError> {
        fs::create_dir_all(&path).map_err(|source| FolderError::Write { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// A folder that a run left.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder inside another for the run with every golden injected.
    #[cfg(feature = "mlx")]
    pub(super) fn local(within: &Self) -> Result<Self, FolderError> {
        Self::create(within.file(LOCAL))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Everything that the worker and the port printed.
    pub(crate) fn output(&self) -> PathBuf {
        self.file("output.log")
    }

    /// Where the actual of a failing checkpoint is kept.
    pub(crate) fn actual(&self, checkpoint: &str, hit: u64) -> PathBuf {
        self.file("actual").join(format!("{}.npy", hit_name(checkpoint, hit)))
    }

    /// Where one of the pictures of a checkpoint is kept: `golden`, `actual` or `diff`; with `{…}` it stands for several.
    pub(crate) fn picture(&self, checkpoint: &str, hit: u64, kind: &str) -> PathBuf {
        self.file("images").join(format!("{}.{kind}.png", hit_name(checkpoint, hit)))
    }

    /// Waits until no other process works in this folder; the lock is held until the file is dropped.
    pub(crate) fn lock(&self) -> Result<File, FolderError> {
        lock(&self.file("lock"))
    }

    /// Removes everything but the lock, which the caller holds; the records first, which verdicts are made of.
    pub(crate) fn clear(&self) -> Result<(), FolderError> {
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

    /// Whether a process works in this folder.
    pub(crate) fn is_locked(&self) -> bool {
        regular::open(&self.file("lock")).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Replaces a file of the run by `value` as JSON.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let path = self.file(name);
        let text = serde_json::to_vec_pretty(value)
            .map_err(|source| FolderError::Parse { path: path.clone(), source })?;
        write_atomically(&path, |out| out.write_all(&text))
            .map_err(|source| FolderError::Write { path, source })
    }

    /// Reads a file that [`Folder::write_json`] wrote; `None` if there is none.
    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FolderError> {
        let path = self.file(name);
        let bytes = match regular::read(&path, regular::TEXT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|source| FolderError::Parse { path, source })
    }

    /// The lines so far. A last line without its end, which a killed worker can leave, does not count.
    pub(crate) fn lines(&self) -> Result<Vec<Line>, FolderError> {
        let path = self.file(RECORDS);
        let text = match regular::read_text(&path, regular::RECORDS) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: Vec<&str> = whole.lines().collect();
        let parse =
            |lines: &[&str]| lines.iter().map(|line| Line::parse(line)).collect::<Result<Vec<_>, _>>();
        // Reading thousands of records takes as long as a small forward pass.
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

const RECORDS: &str = "records.jsonl";
/// How the worker ended; its presence means that the run is over.
pub(crate) const EXIT: &str = "exit.json";
/// The id of the process that started the run.
pub(crate) const STARTED: &str = "started";

/// Opens `path` and waits until nobody else holds it.
pub(crate) fn lock(path: &Path) -> Result<File, FolderError> {
    let failed = |source| FolderError::Write { path: path.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Appends lines to `records.jsonl`.
pub(crate) struct Writer {
    path: PathBuf,
    file: File,
    /// The line that is being written, kept for its room.
    text: Vec<u8>,
}

impl Writer {
    pub(crate) fn create(folder: &Folder) -> Result<Self, FolderError> {
        let path = folder.file(RECORDS);
        let file = File::create(&path).map_err(|source| FolderError::Write { path: path.clone(), source })?;
        Ok(Self { path, file, text: Vec::new() })
    }

    /// Appends one line in a single write, so that an abort right after cannot tear it.
    pub(crate) fn write(&mut self, line: &Line) -> Result<(), FolderError> {
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
