//! External weights of a spec: found, opened and added to its fixture set.

use crate::external::{ExternalError, locate};
use crate::golden::{ChecksumMemory, ExternalRecord, ExternalWeights, FixtureError, FixtureSet};
use crate::spec::{External, Spec};

/// Opens the external weights where this process's environment variables say. Reads headers only, and hashes nothing.
///
/// # Errors
/// When they are not on this machine, or cannot be used.
pub fn open_external(external: &External) -> Result<ExternalWeights, ExternalError> {
    let located = locate(&external.path, &|name| std::env::var_os(name))?;
    ExternalWeights::open(&located.files, located.index.as_ref())
}

/// Returns the set with the external weights of the spec, if it has some. Reads headers only, and hashes nothing.
///
/// # Errors
/// As [`open_external`], and when the set has a weight of the same name.
pub fn with_external(spec: &Spec, set: FixtureSet) -> Result<FixtureSet, FixtureError> {
    match spec.external() {
        Some(external) => set.with_external(open_external(external)?),
        None => Ok(set),
    }
}

/// Opens and verifies the external weights, and returns what a manifest records about them.
///
/// # Errors
/// When they are not on this machine, cannot be used, or differ from the checksums of the spec.
pub fn external_records(
    external: &External,
    memory: &mut ChecksumMemory,
) -> Result<(ExternalWeights, Vec<ExternalRecord>), ExternalError> {
    let opened = open_external(external)?;
    let records = opened.records(memory)?;
    opened.check_declared(external.sha256.as_ref(), &records)?;
    Ok((opened, records))
}
