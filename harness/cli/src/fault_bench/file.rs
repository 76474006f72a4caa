//! The file of a bench: the faults, the expected place and cause of each, and the required scores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use mlx_parity_core::diagnose::{CauseKind, FactKind};
use mlx_parity_core::gate::Class;
use mlx_parity_core::spec::Spec;
use mlx_parity_core::text::suggest::did_you_mean;

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Faults {
    /// Lower bounds of the score.
    pub(super) at_least: AtLeast,
    /// Upper bounds of the score.
    pub(super) at_most: AtMost,
    /// The faults, by the id of the spec that finds them.
    pub(super) faults: BTreeMap<String, Vec<Fault>>,
    /// Rewrites that compute the same, by the id of their spec. Anything that is red there is a false alarm.
    #[serde(default)]
    pub(super) harmless: BTreeMap<String, Vec<Rewrite>>,
}

/// A port that computes the same in another way.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewrite {
    /// The name; its port is registered as `<port of the spec>/<fault>`.
    #[serde(rename = "fault")]
    pub(super) name: String,
    /// What is written differently, for people.
    #[serde(default, rename = "about")]
    _about: Option<String>,
}

/// Counts that must not fall.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtLeast {
    pub(super) caught: usize,
    pub(super) placed: usize,
    pub(super) cause: usize,
    pub(super) facts: usize,
}

/// Counts that must not rise.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtMost {
    pub(super) wrong_causes: usize,
    pub(super) false_alarms: usize,
}

/// One fault with its expected result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The name; its port is registered as `<port of the spec>/<fault>`.
    #[serde(rename = "fault")]
    pub(super) name: String,
    /// The first faulty stage.
    pub(super) culprit: String,
    /// The class of its failure.
    pub(super) class: Class,
    /// The first red checkpoint of the free run; the first faulty stage by default.
    first: Option<String>,
    /// The expected cause; `None` where values cannot show it.
    #[serde(deserialize_with = "cause")]
    pub(super) cause: Option<CauseKind>,
    /// Other causes that are also correct.
    #[serde(default, rename = "or", deserialize_with = "kinds")]
    pub(super) also_true: Vec<CauseKind>,
    /// The expected fact, where no cause explains the error.
    #[serde(default, deserialize_with = "fact")]
    pub(super) fact: Option<FactKind>,
    /// A part of the text with which the trial of the adapters must fail.
    pub(super) adapters: Option<String>,
    /// What the mistake is, for people.
    #[serde(default, rename = "about")]
    _about: Option<String>,
}

impl Fault {
    /// The checkpoint that should be the first red one in the free run.
    pub(super) fn first(&self) -> &str {
        self.first.as_deref().unwrap_or(&self.culprit)
    }

    /// Whether this cause is correct for the fault.
    pub(super) fn allows(&self, kind: CauseKind) -> bool {
        self.cause == Some(kind) || self.also_true.contains(&kind)
    }
}

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}`{at}: {problem}")]
    Yaml { path: PathBuf, at: String, problem: String },
    #[error("`{path}` lists faults for spec `{spec}`, which does not exist{near}")]
    NoSpec { path: PathBuf, spec: String, near: String },
    #[error(
        "`{path}`: fault `{fault}` names checkpoint `{checkpoint}`, which spec `{spec}` does not have{near}"
    )]
    NoCheckpoint { path: PathBuf, spec: String, fault: String, checkpoint: String, near: String },
    #[error("`{path}`: fault `{fault}` of `{spec}` is listed twice")]
    Twice { path: PathBuf, spec: String, fault: String },
    #[error(
        "`{path}`: `{fault}` of `{spec}` is not a valid name for a fault: expected letters, digits, `_` and `-`"
    )]
    Name { path: PathBuf, spec: String, fault: String },
    #[error("`{path}` lists no faults")]
    Empty { path: PathBuf },
}

impl Faults {
    /// Reads the file and checks its names against `specs`.
    pub(super) fn read(path: &Path, specs: &[Spec]) -> Result<Self, FileError> {
        let owned = || path.to_owned();
        let text = mlx_parity_core::files::regular::read_text(path, mlx_parity_core::files::regular::TEXT)
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
        for id in faults.faults.keys().chain(faults.harmless.keys()) {
            let Some(spec) = specs.iter().find(|spec| spec.id == *id) else {
                let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
                return Err(FileError::NoSpec { path: owned(), spec: id.clone(), near });
            };
            check_names(path, spec, faults.names(id))?;
            check_rows(path, spec, faults.of(id))?;
        }
        Ok(faults)
    }

    /// The faults of a spec.
    pub(super) fn of(&self, spec: &str) -> &[Fault] {
        self.faults.get(spec).map_or(&[], Vec::as_slice)
    }

    /// The harmless rewrites of a spec.
    pub(super) fn harmless(&self, spec: &str) -> &[Rewrite] {
        self.harmless.get(spec).map_or(&[], Vec::as_slice)
    }

    /// The names of all faulty and rewritten ports of a spec.
    pub(super) fn names(&self, spec: &str) -> impl Iterator<Item = &str> {
        let harmless = self.harmless(spec).iter().map(|rewrite| rewrite.name.as_str());
        self.of(spec).iter().map(|fault| fault.name.as_str()).chain(harmless)
    }
}

/// Each fault names checkpoints that exist.
fn check_rows(path: &Path, spec: &Spec, rows: &[Fault]) -> Result<(), FileError> {
    for row in rows {
        if let Some(missing) = [&*row.culprit, row.first()].into_iter().find(|n| spec.checkpoint(n).is_none())
        {
            let near = did_you_mean(missing, spec.checkpoints.iter().map(|c| c.name.as_str()));
            let (path, fault, checkpoint) = (path.to_owned(), row.name.clone(), missing.to_owned());
            return Err(FileError::NoCheckpoint { path, spec: spec.id.clone(), fault, checkpoint, near });
        }
    }
    Ok(())
}

/// Names are plain, and each occurs once.
fn check_names<'a>(path: &Path, spec: &Spec, all: impl Iterator<Item = &'a str>) -> Result<(), FileError> {
    let mut names = BTreeSet::new();
    for name in all {
        let (path, spec, fault) = (path.to_owned(), spec.id.clone(), name.to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(FileError::Name { path, spec, fault });
        }
        if !names.insert(name) {
            return Err(FileError::Twice { path, spec, fault });
        }
    }
    Ok(())
}

/// The message of the parser without the place, which the error prints first.
fn error_text(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::MessageFormatter as _;
    let text = serde_saphyr::DefaultMessageFormatter.format_message(error.without_snippet());
    text.lines().next().unwrap_or("the YAML cannot be read").to_owned()
}

fn cause<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CauseKind>, D::Error> {
    let word = String::deserialize(from)?;
    if word == "none" { Ok(None) } else { kind(&word).map(Some).map_err(D::Error::custom) }
}

fn kinds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CauseKind>, D::Error> {
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

fn kind(word: &str) -> Result<CauseKind, String> {
    CauseKind::ALL.iter().copied().find(|kind| kind.name() == word).ok_or_else(|| {
        let names: Vec<&str> = CauseKind::ALL.iter().map(|kind| kind.name()).collect();
        let is_fact = FactKind::ALL.iter().any(|kind| kind.name() == word);
        let near = match is_fact {
            true => format!(" (a fact, not a cause: `fact: {word}`)"),
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
    fn a_row_allows_its_causes() {
        let faults =
            read("{fault: eps, culprit: norm, class: value, cause: norm_eps, or: [token_factor]}").unwrap();
        let row = &faults.faults["a/b"][0];
        assert_eq!((row.first(), row.class), ("norm", Class::Value));
        assert!(
            row.allows(CauseKind::NormEps)
                && row.allows(CauseKind::TokenFactor)
                && !row.allows(CauseKind::Factor)
        );
        let row = read("{fault: x, culprit: y, first: z, class: crash, cause: none}").unwrap();
        assert_eq!(row.faults["a/b"][0].first(), "z");
        assert!(!CauseKind::ALL.iter().any(|kind| row.faults["a/b"][0].allows(*kind)));
    }

    #[test]
    fn a_misspelt_word_is_reported_with_the_allowed_ones() {
        let message = |row: &str| error_text(&read(row).unwrap_err());
        let text = message("{fault: x, culprit: y, class: value, cause: facter}");
        assert!(text.starts_with("unknown cause `facter`, did you mean `factor`?"), "{text}");
        assert!(text.contains("expected `none` or one of axes_permuted, "), "{text}");
        let text = message("{fault: x, culprt: y, class: value, cause: none}");
        assert!(text.contains("culprt") && text.contains("culprit"), "{text}");
        let text = message("{fault: x, culprit: y, class: values, cause: none}");
        assert!(text.contains("values") && text.contains("crash"), "{text}");
        assert!(message("{fault: x, culprit: y, class: value}").contains("cause"));
        let text = message("{fault: x, culprit: y, class: value, cause: none, fact: constnt}");
        assert!(text.starts_with("unknown fact `constnt`, did you mean `constant`?"), "{text}");
        let text = message("{fault: x, culprit: y, class: value, cause: uncorrelated}");
        assert!(text.contains("a fact, not a cause: `fact: uncorrelated`"), "{text}");
    }
}
