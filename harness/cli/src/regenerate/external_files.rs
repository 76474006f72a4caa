//! The external weights of a set, as its script is told about them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::error::RegenerateError;
use crate::Project;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::golden::{ChecksumMemory, ExternalRecord, FixtureError, FixtureSet, Trust};
use mlx_parity_core::preflight::{external_records, open_external};
use mlx_parity_core::runs::Out;
use mlx_parity_core::spec::External;

/// The variable that names the list of files.
const VARIABLE: &str = "PARITY_EXTERNAL";
/// The name of the list in a folder of a command's own.
pub(super) const LIST: &str = "external.json";

/// The verified files of a set's external weights, and the file that lists them for the script.
pub(super) struct ExternalFiles {
    records: Vec<ExternalRecord>,
    list: PathBuf,
}

impl ExternalFiles {
    /// Finds and verifies external weights, and lists them in the file `list`. `set` is for messages.
    ///
    /// # Errors
    /// When they are not on this machine, or are not the declared ones.
    pub(super) fn of(
        project: &Project,
        set: &str,
        external: &External,
        list: PathBuf,
    ) -> Result<Self, RegenerateError> {
        let mut memory = ChecksumMemory::load(Out::of(project.root()).checksums(), Trust::here());
        let (opened, records) = external_records(external, &mut memory)
            .map_err(|source| RegenerateError::External { set: set.to_owned(), source: source.into() })?;
        // If the checksums cannot be saved, the next command is slower but still right.
        let _ = memory.save();
        let files: Vec<Value> = (opened.located().iter())
            .filter_map(|file| {
                let record = records.iter().find(|record| record.name == file.name)?;
                let (name, size, sha256) = (&record.name, record.size, &record.sha256);
                Some(json!({"name": name, "path": file.path, "size": size, "sha256": sha256}))
            })
            .collect();
        let text = Value::from(files).to_string();
        write_atomically(&list, |out| out.write_all(text.as_bytes()))
            .map_err(|source| RegenerateError::write(&list, source))?;
        Ok(Self { records, list })
    }

    /// Tells a script about the files.
    pub(super) fn tell(&self, command: &mut Command) {
        command.env(VARIABLE, &self.list);
    }

    /// Returns why the set does not belong to these files; `None` if it does.
    pub(super) fn problem(&self, made: &FixtureSet) -> Option<String> {
        let recorded = made.manifest().external_weights.as_deref().unwrap_or_default();
        let mut recorded = recorded.to_vec();
        recorded.sort();
        (recorded != self.records).then(|| {
            format!(
                "its manifest does not record the external weights in `external_weights` as the file that {VARIABLE} names \
                 lists them"
            )
        })
    }
}

/// Returns the set with the external weights, so that the names in its recipes can be checked.
///
/// # Errors
/// When the weights cannot be opened, or the set holds one of them.
pub(super) fn with_weights(set: FixtureSet, external: &External) -> Result<FixtureSet, FixtureError> {
    set.with_external(open_external(external)?)
}
