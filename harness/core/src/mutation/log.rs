//! `mutations.jsonl`: the events of mutating one spec, one per line, so that a crash loses none that was written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::noticed::{Mutation, MutationResult};
use crate::files::regular;
use crate::record::Record;
use crate::run_folder::{Folder, FolderError};

/// Name of the file, in the folder of the spec below `mutations/`.
const FILE: &str = "mutations.jsonl";

/// One event. Events are written in the order in which they happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MutationEvent {
    /// The record of a checkpoint without any mutation.
    #[serde(rename = "clean")]
    Unmutated(Arc<Record>),
    /// The mutations were counted.
    Planned {
        /// How many mutations there will be.
        count: usize,
    },
    /// A mutation is about to be made.
    #[serde(rename = "planting")]
    Started(Mutation),
    /// The last mutation has its result.
    #[serde(rename = "came")]
    Finished(MutationResult),
}

/// The events of one spec's mutations. Worker and parent append to them in turn.
pub struct MutationLog(Folder);

impl MutationLog {
    /// The log in the folder of a spec.
    pub fn in_folder(folder: &Folder) -> Self {
        Self(folder.clone())
    }

    /// Appends one event in a single write.
    ///
    /// # Errors
    /// When the file cannot be opened or written.
    pub fn write(&self, event: &MutationEvent) -> Result<(), FolderError> {
        let path = self.0.file(FILE);
        let mut line =
            serde_json::to_vec(event).map_err(|source| FolderError::Parse { path: path.clone(), source })?;
        line.push(b'\n');
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened
            .and_then(|mut file| file.write_all(&line))
            .map_err(|source| FolderError::Write { path, source })
    }

    /// Returns all events so far. A line without its end was cut short and does not count; without a file there are none.
    ///
    /// # Errors
    /// When the file cannot be read, or a complete line is not an event.
    pub fn read(&self) -> Result<Vec<MutationEvent>, FolderError> {
        let path = self.0.file(FILE);
        let text = match regular::read_text(&path, regular::RECORDS) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(|source| FolderError::Parse { path, source })
    }

    /// Bytes written so far. A growing log shows that the worker is alive.
    pub fn length(&self) -> u64 {
        fs::metadata(self.0.file(FILE)).map_or(0, |found| found.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MutationKind, MutationResults, MutationScore, Noticed};
    use super::*;

    #[test]
    fn events_come_back_and_show_which_mutation_is_running() {
        let home = tempfile::tempdir().unwrap();
        let log = MutationLog::in_folder(&Folder::create(home.path().join("a/b")).unwrap());
        assert!(log.read().unwrap().is_empty());
        let mutation = |kind| Mutation { checkpoint: "x".to_owned(), kind };
        let finished = |kind, noticed| {
            MutationEvent::Finished(MutationResult { mutation: mutation(kind), noticed, used: Some(0.5) })
        };
        for event in [
            MutationEvent::Planned { count: 5 },
            MutationEvent::Started(mutation(MutationKind::Scaled)),
            finished(MutationKind::Scaled, Noticed::Never),
            finished(MutationKind::Rounded, Noticed::Later("y".to_owned())),
            finished(MutationKind::Rolled, Noticed::Itself),
            finished(MutationKind::Halves, Noticed::Equivalent),
            MutationEvent::Started(mutation(MutationKind::Zeroed)),
        ] {
            log.write(&event).unwrap();
        }
        let found = MutationResults::of(log.read().unwrap());
        assert_eq!((found.planned, found.running.as_ref()), (5, Some(&mutation(MutationKind::Zeroed))));
        let score = found.score();
        assert_eq!((score.noticed(), score.noticeable(), score.equivalent), (2, 3, 1));
        assert_eq!(score.percent().map(|percent| percent.round()), Some(67.0));
        assert_eq!(MutationScore::default().percent(), None);
        assert!(log.length() > 100);
    }

    #[test]
    fn a_line_keeps_its_form() {
        let mutation = Mutation { checkpoint: "x".to_owned(), kind: MutationKind::Scaled };
        let started = MutationEvent::Started(mutation.clone());
        assert_eq!(
            serde_json::to_value(started).unwrap(),
            serde_json::json!({"kind": "planting", "checkpoint": "x", "fault": "scaled"})
        );
        let result = MutationResult { mutation, noticed: Noticed::Itself, used: None };
        assert_eq!(
            serde_json::to_value(MutationEvent::Finished(result)).unwrap(),
            serde_json::json!({"kind": "came", "checkpoint": "x", "fault": "scaled", "noticed": "itself", "used": null})
        );
    }
}
