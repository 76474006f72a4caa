//! What planting faults into a spec's taps came to: `mutations.jsonl`, a line a step, which outlives a crash.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::folder::{Folder, FolderError};
use crate::record::Record;
use crate::regular;

/// The file, in the folder of the spec below `mutations/`.
const FILE: &str = "mutations.jsonl";

/// One step, in the order in which they are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Step {
    /// What a checkpoint was without any fault.
    Clean(Arc<Record>),
    /// How many faults there will be.
    Planned {
        /// All of them.
        count: usize,
    },
    /// A fault is about to be planted.
    Planting(Planted),
    /// What came of the fault that was planted last.
    Came(Mutation),
}

/// A fault at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planted {
    pub(crate) checkpoint: String,
    pub(crate) fault: Fault,
}

/// What came of a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mutation {
    #[serde(flatten)]
    pub(crate) planted: Planted,
    pub(crate) noticed: Noticed,
    /// How much of its own tap's gate it used; nothing without a gate, or with one that was not come to.
    pub(crate) used: Option<f64>,
}

/// Who noticed a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Noticed {
    /// The tensor was the same with it: nothing to notice.
    Equivalent,
    /// The checkpoint that it was planted at.
    Itself,
    /// A later one, this one first.
    Later(String),
    /// The port, which failed with these words or took its process with it.
    Port(String),
    /// Nobody.
    Never,
}

/// The steps of one spec's mutations, appended to by worker and parent in turn.
pub(crate) struct Steps(Folder);

impl Steps {
    pub(crate) fn in_folder(folder: &Folder) -> Self {
        Self(folder.clone())
    }

    /// Appends one line in a single write.
    pub(crate) fn write(&self, step: &Step) -> Result<(), FolderError> {
        let path = self.0.file(FILE);
        let mut line =
            serde_json::to_vec(step).map_err(|source| FolderError::Parse { path: path.clone(), source })?;
        line.push(b'\n');
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened
            .and_then(|mut file| file.write_all(&line))
            .map_err(|source| FolderError::Write { path, source })
    }

    /// All lines so far; one that was cut short does not count.
    pub(crate) fn read(&self) -> Result<Vec<Step>, FolderError> {
        let path = self.0.file(FILE);
        let text = match regular::read_text(&path, regular::RECORDS) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line: &str| serde_json::from_str(line);
        whole
            .lines()
            .map(parse)
            .collect::<Result<_, _>>()
            .map_err(|source| FolderError::Parse { path, source })
    }

    /// Bytes so far, by which a worker is seen to move.
    pub(crate) fn length(&self) -> u64 {
        fs::metadata(self.0.file(FILE)).map_or(0, |found| found.len())
    }
}

/// What all faults of a spec came to.
#[derive(Debug, Default)]
pub(crate) struct Mutations {
    /// The checkpoints without any fault, every hit.
    pub(crate) clean: Vec<Arc<Record>>,
    pub(crate) came: Vec<Mutation>,
    pub(crate) planned: usize,
    /// The fault that is planted and of which nothing has come yet.
    pub(crate) open: Option<Planted>,
}

impl Mutations {
    pub(crate) fn of(steps: Vec<Step>) -> Self {
        let mut made = Self::default();
        for step in steps {
            match step {
                Step::Clean(record) => made.clean.push(record),
                Step::Planned { count } => made.planned = count,
                Step::Planting(planted) => made.open = Some(planted),
                Step::Came(mutation) => {
                    made.open = None;
                    made.came.push(mutation);
                }
            }
        }
        made
    }

    /// The counts.
    pub(crate) fn score(&self) -> Score {
        let mut score = Score::default();
        for mutation in &self.came {
            match mutation.noticed {
                Noticed::Equivalent => score.equivalent += 1,
                Noticed::Itself => score.at_itself += 1,
                Noticed::Later(_) | Noticed::Port(_) => score.later += 1,
                Noticed::Never => score.survived += 1,
            }
        }
        score
    }
}

/// How many faults were noticed where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Score {
    pub(crate) at_itself: usize,
    pub(crate) later: usize,
    pub(crate) survived: usize,
    pub(crate) equivalent: usize,
}

impl Score {
    pub(crate) fn noticed(self) -> usize {
        self.at_itself + self.later
    }

    /// Faults that could be noticed.
    pub(crate) fn planted(self) -> usize {
        self.noticed() + self.survived
    }

    /// The part that was noticed, in percent; nothing without a fault that could be.
    pub(crate) fn percent(self) -> Option<f64> {
        (self.planted() > 0).then(|| 100.0 * self.noticed() as f64 / self.planted() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_and_tell_what_is_open() {
        let home = tempfile::tempdir().unwrap();
        let steps = Steps::in_folder(&Folder::create(home.path().join("a/b")).unwrap());
        assert!(steps.read().unwrap().is_empty());
        let planted = |fault| Planted { checkpoint: "x".to_owned(), fault };
        let came =
            |fault, noticed| Step::Came(Mutation { planted: planted(fault), noticed, used: Some(0.5) });
        for step in [
            Step::Planned { count: 5 },
            Step::Planting(planted(Fault::Scaled)),
            came(Fault::Scaled, Noticed::Never),
            came(Fault::Rounded, Noticed::Later("y".to_owned())),
            came(Fault::Rolled, Noticed::Itself),
            came(Fault::Halves, Noticed::Equivalent),
            Step::Planting(planted(Fault::Zeroed)),
        ] {
            steps.write(&step).unwrap();
        }
        let found = Mutations::of(steps.read().unwrap());
        assert_eq!((found.planned, found.open.as_ref()), (5, Some(&planted(Fault::Zeroed))));
        let score = found.score();
        assert_eq!((score.noticed(), score.planted(), score.equivalent), (2, 3, 1));
        assert_eq!(score.percent().map(|percent| percent.round()), Some(67.0));
        assert_eq!(Score::default().percent(), None);
        assert!(steps.length() > 100);
    }
}
