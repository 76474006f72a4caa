//! The file of a bench: which faults there are, where each is, what should be said of it, and what has to be held.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::Class;
use crate::diagnose::{FactKind, Kind};
use crate::near::did_you_mean;
use crate::spec::Spec;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Faults {
    pub(super) at_least: AtLeast,
    pub(super) at_most: AtMost,
    /// By the id of the spec whose port they are faults of.
    pub(super) faults: BTreeMap<String, Vec<Fault>>,
}

/// What must not fall.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtLeast {
    pub(super) caught: usize,
    pub(super) placed: usize,
    pub(super) cause: usize,
    pub(super) facts: usize,
}

/// What must not rise.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtMost {
    pub(super) wrong_causes: usize,
    pub(super) false_alarms: usize,
}

/// One fault, and what is expected of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// Its port is registered as `<port of the spec>/<fault>`.
    #[serde(rename = "fault")]
    pub(super) name: String,
    /// The first faulty checkpoint, on golden inputs.
    pub(super) culprit: String,
    /// Of the culprit.
    pub(super) class: Class,
    /// The first red checkpoint of a free run; the culprit unless it says otherwise.
    first: Option<String>,
    /// What should be said of it; nothing where values cannot tell.
    #[serde(deserialize_with = "cause")]
    pub(super) cause: Option<Kind>,
    /// What is as true.
    #[serde(default, rename = "or", deserialize_with = "kinds")]
    pub(super) also_true: Vec<Kind>,
    /// What can be seen of it, where nothing explains it.
    #[serde(default, deserialize_with = "fact")]
    pub(super) fact: Option<FactKind>,
}

impl Fault {
    pub(super) fn first(&self) -> &str {
        self.first.as_deref().unwrap_or(&self.culprit)
    }

    /// Whether that may be said of it.
    pub(super) fn allows(&self, kind: Kind) -> bool {
        self.cause == Some(kind) || self.also_true.contains(&kind)
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}`{at}: {problem}")]
    Yaml { path: PathBuf, at: String, problem: String },
    #[error("`{path}` has faults of the spec `{spec}`, which there is not{near}")]
    NoSpec { path: PathBuf, spec: String, near: String },
    #[error("`{path}`: the spec `{spec}` has no checkpoint `{checkpoint}`, which `{fault}` names{near}")]
    NoCheckpoint { path: PathBuf, spec: String, fault: String, checkpoint: String, near: String },
    #[error("`{path}`: the fault `{fault}` of `{spec}` is there twice")]
    Twice { path: PathBuf, spec: String, fault: String },
    #[error("`{path}`: `{fault}` of `{spec}` is no name for a fault: expected letters, digits, `_` and `-`")]
    Name { path: PathBuf, spec: String, fault: String },
    #[error("`{path}` has no faults")]
    Empty { path: PathBuf },
}

impl Faults {
    /// Reads the file and holds it against the specs that there are.
    pub(super) fn read(path: &Path, specs: &[Spec]) -> Result<Self, FileError> {
        let owned = || path.to_owned();
        let text = crate::regular::read_text(path, crate::regular::TEXT)
            .map_err(|source| FileError::Read { path: owned(), source })?;
        let faults: Self = serde_saphyr::from_str_with_options(
            &text,
            serde_saphyr::options! {
                with_snippet: false,
            },
        )
        .map_err(|error| FileError::Yaml {
            path: owned(),
            at: error.location().map(|at| format!(", line {}", at.line())).unwrap_or_default(),
            problem: error_text(&error),
        })?;
        if faults.faults.values().all(Vec::is_empty) {
            return Err(FileError::Empty { path: owned() });
        }
        for (id, rows) in &faults.faults {
            let Some(spec) = specs.iter().find(|spec| spec.id == *id) else {
                let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
                return Err(FileError::NoSpec { path: owned(), spec: id.clone(), near });
            };
            check_rows(path, spec, rows)?;
        }
        Ok(faults)
    }
}

fn check_rows(path: &Path, spec: &Spec, rows: &[Fault]) -> Result<(), FileError> {
    let mut names = BTreeSet::new();
    for row in rows {
        let (path, fault) = (path.to_owned(), row.name.clone());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if row.name.is_empty() || !row.name.chars().all(is_plain) {
            return Err(FileError::Name { path, spec: spec.id.clone(), fault });
        }
        if !names.insert(&row.name) {
            return Err(FileError::Twice { path, spec: spec.id.clone(), fault });
        }
        if let Some(missing) = [&*row.culprit, row.first()].into_iter().find(|n| spec.checkpoint(n).is_none())
        {
            let near = did_you_mean(missing, spec.checkpoints.iter().map(|c| c.name.as_str()));
            let checkpoint = missing.to_owned();
            return Err(FileError::NoCheckpoint { path, spec: spec.id.clone(), fault, checkpoint, near });
        }
    }
    Ok(())
}

/// What the parser says, without where: that is told first.
fn error_text(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::MessageFormatter as _;
    let text = serde_saphyr::DefaultMessageFormatter.format_message(error.without_snippet());
    text.lines().next().unwrap_or("the YAML cannot be read").to_owned()
}

fn cause<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Kind>, D::Error> {
    let word = String::deserialize(from)?;
    if word == "none" { Ok(None) } else { kind(&word).map(Some).map_err(D::Error::custom) }
}

fn kinds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Kind>, D::Error> {
    Vec::<String>::deserialize(from)?.iter().map(|word| kind(word).map_err(D::Error::custom)).collect()
}

fn fact<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FactKind>, D::Error> {
    let word = String::deserialize(from)?;
    let found = FactKind::ALL.iter().copied().find(|kind| kind.name() == word);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = FactKind::ALL.iter().map(|kind| kind.name()).collect();
        let near = did_you_mean(&word, names.iter().copied());
        D::Error::custom(format!("unknown fact `{word}`{near}, expected one of {}", names.join(", ")))
    })
}

fn kind(word: &str) -> Result<Kind, String> {
    Kind::ALL.iter().copied().find(|kind| kind.name() == word).ok_or_else(|| {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let is_fact = FactKind::ALL.iter().any(|kind| kind.name() == word);
        let near = match is_fact {
            true => format!(" (a fact, which is no cause: `fact: {word}`)"),
            false => did_you_mean(word, names.iter().copied()),
        };
        format!("unknown cause `{word}`{near}, expected `none` or one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(row: &str) -> Result<Faults, serde_saphyr::Error> {
        let head = "at_least: {caught: 1, placed: 1, cause: 0, facts: 0}\nat_most: {wrong_causes: 0, false_alarms: 0}\n";
        serde_saphyr::from_str(&format!("{head}faults:\n  a/b:\n    - {row}\n"))
    }

    #[test]
    fn a_row_says_what_may_be_said() {
        let faults =
            read("{fault: eps, culprit: norm, class: value, cause: norm_eps, or: [token_factor]}").unwrap();
        let row = &faults.faults["a/b"][0];
        assert_eq!((row.first(), row.class), ("norm", Class::Value));
        assert!(row.allows(Kind::NormEps) && row.allows(Kind::TokenFactor) && !row.allows(Kind::Factor));
        let row = read("{fault: x, culprit: y, first: z, class: crash, cause: none}").unwrap();
        assert_eq!(row.faults["a/b"][0].first(), "z");
        assert!(!Kind::ALL.iter().any(|kind| row.faults["a/b"][0].allows(*kind)));
    }

    #[test]
    fn what_is_misspelt_is_told_with_what_is_allowed() {
        let said = |row: &str| error_text(&read(row).unwrap_err());
        let text = said("{fault: x, culprit: y, class: value, cause: facter}");
        assert!(text.starts_with("unknown cause `facter`, did you mean `factor`?"), "{text}");
        assert!(text.contains("expected `none` or one of axes_permuted, "), "{text}");
        let text = said("{fault: x, culprt: y, class: value, cause: none}");
        assert!(text.contains("culprt") && text.contains("culprit"), "{text}");
        let text = said("{fault: x, culprit: y, class: values, cause: none}");
        assert!(text.contains("values") && text.contains("crash"), "{text}");
        assert!(said("{fault: x, culprit: y, class: value}").contains("cause"));
        let text = said("{fault: x, culprit: y, class: value, cause: none, fact: constnt}");
        assert!(text.starts_with("unknown fact `constnt`, did you mean `constant`?"), "{text}");
        let text = said("{fault: x, culprit: y, class: value, cause: constant}");
        assert!(text.contains("a fact, which is no cause: `fact: constant`"), "{text}");
    }
}
