//! Pictures that a person approved by eye: the file beside a spec, and what an approval covers.
//!
//! An approval belongs to one hit of one checkpoint on one device, and to the exact elements of its golden and its actual.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::atomic::write_atomically;
use crate::files::hash::is_sha256;
use crate::files::regular;
use crate::gate::Class;
use crate::number;
use crate::record::{ByEye, Record, Status};
use crate::spec::{Stage, hit_name};

/// The lowest PSNR of a picture that a person can approve, in decibels: the rms of the error is then a tenth of the drawn
/// range.
pub const LOWEST_PSNR_DB: f64 = 20.0;

/// The version of the file.
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// The first lines of every file.
const ABOUT: &str = "Pictures that a person approved by eye, written by `cargo parity accept --picture`. An approval covers exactly \
    these elements of golden and actual, on this device: CPU and GPU round differently, so each has approvals of its own.";

/// The file with the approvals of one spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// What the file is, for people.
    #[serde(default)]
    about: String,
    version: u32,
    /// The approvals, sorted by checkpoint and device.
    pub pictures: Vec<Approval>,
}

/// The approval of one picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The checkpoint, with its hit after the first: `pixels`, `pixels@1`.
    pub checkpoint: String,
    /// The device of MLX, `cpu` or `gpu`.
    pub device: String,
    /// The SHA-256 of the actual: dtype, shape and elements.
    pub actual: String,
    /// The SHA-256 of the golden: dtype, shape and elements.
    pub golden: String,
    /// The distance of the two pictures when they were approved, in decibels.
    #[serde(with = "number")]
    pub psnr_db: f64,
    /// Who approved the picture.
    pub by: String,
    /// Why the picture is good enough.
    pub reason: String,
}

/// Why a file of approvals cannot be used.
#[derive(Debug, Error)]
pub enum ApprovalError {
    /// The file cannot be read.
    #[error(
        "the approvals in `{path}` cannot be read; restore the file from git, or remove it and approve again"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not what this version writes.
    #[error(
        "the approvals in `{path}` cannot be used: {problem}; restore the file from git, or remove it and approve again"
    )]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Approvals {
    /// The end of the name of every file of approvals.
    pub const SUFFIX: &str = ".approved.json";

    /// Returns the file of the spec `id`: `<spec root>/<id>.approved.json`.
    pub fn path(spec_root: &Path, id: &str) -> PathBuf {
        spec_root.join(format!("{id}{}", Self::SUFFIX))
    }

    /// Reads a file of approvals; without the file there are none.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what [`Approvals::write`] writes.
    pub fn read(path: &Path) -> Result<Self, ApprovalError> {
        let text = match regular::read_text(path, MOST_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(ApprovalError::Read { path: path.to_owned(), source }),
        };
        let wrong = |problem| ApprovalError::Wrong { path: path.to_owned(), problem };
        let read: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match read.problem() {
            Some(problem) => Err(wrong(problem)),
            None => Ok(read),
        }
    }

    /// What is wrong with the content.
    fn problem(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!("its version is {}, expected {VERSION}", self.version));
        }
        for (at, approval) in self.pictures.iter().enumerate() {
            let Approval { checkpoint, device, actual, golden, by, reason, .. } = approval;
            if let Some(hash) = [actual, golden].into_iter().find(|hash| !is_sha256(hash)) {
                return Some(format!(
                    "`{checkpoint}` has `{hash}`, expected a SHA-256 of 64 lowercase hexadecimal digits"
                ));
            }
            if !["cpu", "gpu"].contains(&device.as_str()) {
                return Some(format!("`{checkpoint}` has the device `{device}`, expected `cpu` or `gpu`"));
            }
            if let Some((key, _)) =
                [("by", by), ("reason", reason)].into_iter().find(|(_, text)| text.trim().is_empty())
            {
                return Some(format!("`{checkpoint}` has an empty `{key}`"));
            }
            if self.pictures[..at].iter().any(|other| other.key() == approval.key()) {
                return Some(format!("`{checkpoint}` is approved twice on {device}"));
            }
        }
        None
    }

    /// Adds an approval, and replaces an earlier one of the same hit on the same device.
    pub fn add(&mut self, approval: Approval) {
        self.pictures.retain(|other| other.key() != approval.key());
        self.pictures.push(approval);
        self.pictures.sort_by(|a, b| a.key().cmp(&b.key()));
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ApprovalError> {
        let failed = |source| ApprovalError::Write { path: path.to_owned(), source };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        write_atomically(path, |out| out.write_all(format!("{text}\n").as_bytes())).map_err(failed)
    }
}

impl Default for Approvals {
    fn default() -> Self {
        Self { about: ABOUT.to_owned(), version: VERSION, pictures: Vec::new() }
    }
}

impl Approval {
    /// Returns the approval of the picture in a failed record.
    ///
    /// # Errors
    /// Why no person can approve it, in one line.
    pub fn of(record: &Record, device: &str, by: &str, reason: &str) -> Result<Self, String> {
        if let Some(why) = not_a_matter_of_looks(record) {
            return Err(why);
        }
        let image = record.image.as_ref();
        let hashes =
            image.and_then(|image| Some((image.actual_sha256.clone()?, image.golden_sha256.clone()?)));
        let (Some(image), Some((actual, golden))) = (image, hashes) else {
            return Err("the run has no hash of its picture; run the spec again".to_owned());
        };
        Ok(Self {
            checkpoint: hit_name(&record.checkpoint, record.hit).into_owned(),
            device: device.to_owned(),
            actual,
            golden,
            psnr_db: image.psnr_db,
            by: by.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn key(&self) -> (&str, &str) {
        (&self.checkpoint, &self.device)
    }

    /// Why this approval, made on the device of the run, does not cover the record.
    fn problem(&self, record: &Record) -> Option<String> {
        if let Some(why) = not_a_matter_of_looks(record) {
            return Some(why);
        }
        let image = record.image.as_ref();
        let is = |found: Option<&String>, approved: &String| found == Some(approved);
        if !is(image.and_then(|image| image.golden_sha256.as_ref()), &self.golden) {
            return Some("the golden has changed since".to_owned());
        }
        (!is(image.and_then(|image| image.actual_sha256.as_ref()), &self.actual))
            .then(|| "the actual has changed since".to_owned())
    }
}

/// Why the failure of a record cannot be approved by eye; `None` for a picture whose values are off, and not by much.
pub fn not_a_matter_of_looks(record: &Record) -> Option<String> {
    match record.verdict.class {
        Some(Class::Value | Class::Systematic) => {}
        Some(class) => return Some(format!("an approval covers values only, and this failure is `{class}`")),
        None => return Some("it did not fail".to_owned()),
    }
    if record.stage.as_deref() != Some(Stage::Image.name()) {
        return Some("the spec does not declare it as a picture, with `stage: image`".to_owned());
    }
    let Some(image) = &record.image else { return Some("it could not be drawn".to_owned()) };
    // A NaN is too low as well.
    let is_close = image.psnr_db >= LOWEST_PSNR_DB;
    (!is_close).then(|| {
        format!(
            "its PSNR is {:.1} dB, and below {LOWEST_PSNR_DB} dB a picture is wrong, however it looks",
            image.psnr_db
        )
    })
}

/// Applies the approvals of a spec to a record of a run on `device`.
///
/// A failed hit whose picture is approved gets the status [`Status::Approved`]. If its approval does not cover it, the hit
/// stays red, and its detail states why.
pub fn judge(approvals: &[Approval], device: &str, record: &mut Record) {
    if record.verdict.status != Status::Fail {
        return;
    }
    let name = hit_name(&record.checkpoint, record.hit).into_owned();
    let named: Vec<&Approval> = approvals.iter().filter(|approval| approval.checkpoint == name).collect();
    let here = named.iter().find(|approval| approval.device == device);
    let Some(approval) = here.or(named.first()) else { return };
    let stale = match here {
        Some(approval) => approval.problem(record),
        None => Some(format!("it was made on {}, and this run is on {device}", approval.device)),
    };
    match &stale {
        None => record.verdict.status = Status::Approved,
        Some(why) => {
            record.verdict.detail += &format!("; {} approved this picture by eye, but {why}", approval.by);
        }
    }
    record.by_eye = Some(ByEye { by: approval.by.clone(), reason: approval.reason.clone(), stale });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Comparison;
    use crate::record::Image;

    const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222222222222222222222222222";

    fn record() -> Record {
        Record {
            stage: Some("image".to_owned()),
            image: Some(Image {
                psnr_db: 31.5,
                pixels: 4,
                mismatched_pixels: 1,
                golden_sha256: Some(ONE.to_owned()),
                actual_sha256: Some(TWO.to_owned()),
            }),
            ..Record::new("a/b", "pixels", Comparison::failed(Class::Value, "off"), true)
        }
    }

    fn approval() -> Approval {
        Approval::of(&record(), "cpu", "Ada", "one pixel of grain").unwrap()
    }

    /// Judges a changed record by a changed approval; returns why the approval does not cover it.
    fn judged(on: &str, change: impl FnOnce(&mut Approval, &mut Record)) -> (Status, String) {
        let (mut approval, mut record) = (approval(), record());
        change(&mut approval, &mut record);
        judge(&[approval], on, &mut record);
        (record.verdict.status, record.by_eye.and_then(|by_eye| by_eye.stale).unwrap_or_default())
    }

    #[test]
    fn an_approval_covers_exactly_what_was_seen() {
        assert_eq!(judged("cpu", |_, _| ()), (Status::Approved, String::new()));
        type Change = fn(&mut Approval, &mut Record);
        let faults: [(&str, Change, &str); 9] = [
            ("cpu", |approval, _| approval.actual = ONE.to_owned(), "the actual has changed since"),
            ("cpu", |approval, _| approval.golden = TWO.to_owned(), "the golden has changed since"),
            ("gpu", |_, _| (), "it was made on cpu, and this run is on gpu"),
            ("cpu", |_, record| record.verdict.class = Some(Class::Finite), "this failure is `finite`"),
            ("cpu", |_, record| record.verdict.class = Some(Class::Shape), "this failure is `shape`"),
            ("cpu", |_, record| record.verdict.class = Some(Class::Dtype), "this failure is `dtype`"),
            ("cpu", |_, record| record.stage = Some("vae".to_owned()), "does not declare it as a picture"),
            ("cpu", |_, record| record.image = None, "could not be drawn"),
            ("cpu", |_, record| record.image.as_mut().unwrap().psnr_db = f64::NAN, "PSNR is NaN dB"),
        ];
        for (device, change, why) in faults {
            let (status, stale) = judged(device, change);
            assert_eq!(status, Status::Fail, "{why}");
            assert!(stale.contains(why), "{stale} is not {why}");
        }
        let other = judged("cpu", |approval, _| approval.checkpoint = "pixels@1".to_owned());
        assert_eq!(other, (Status::Fail, String::new()), "the approval of another hit says nothing");
    }

    #[test]
    fn a_file_comes_back_as_it_was_and_an_edited_one_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = Approvals::path(home.path(), "b");
        assert_eq!(Approvals::read(&path).unwrap(), Approvals::default());
        let mut approvals = Approvals::default();
        approvals.add(approval());
        approvals.add(Approval { device: "gpu".to_owned(), ..approval() });
        approvals.add(Approval { reason: "again".to_owned(), ..approval() });
        assert_eq!(approvals.pictures.len(), 2);
        approvals.write(&path).unwrap();
        assert_eq!(Approvals::read(&path).unwrap(), approvals);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, why) in [
            (TWO, "22", "expected a SHA-256"),
            ("\"gpu\"", "\"cpu\"", "approved twice on cpu"),
            ("\"gpu\"", "\"tpu\"", "expected `cpu` or `gpu`"),
            ("\"again\"", "\" \"", "has an empty `reason`"),
            ("\"version\": 1", "\"version\": 2", "its version is 2, expected 1"),
            ("\"by\"", "\"bye\"", "unknown field `bye`"),
        ] {
            assert!(text.contains(from), "{from}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
            let error = Approvals::read(&path).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("approve again"), "{error}");
        }
    }
}
