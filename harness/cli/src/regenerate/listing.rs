//! What a script would record, without making a set: its goldens in call order, its inputs and its weights.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::RegenerateError;
use super::external_files::{ExternalFiles, LIST};
use super::script_call::{ScriptCall, duration};
use crate::Project;
use crate::references::Runner;
use crate::script;
use mlx_parity_core::files::regular;
use mlx_parity_core::files::size;
use mlx_parity_core::spec::{External, Reference};
use mlx_parity_core::tensor::Dtype;

/// Everything that one run of a script recorded.
#[derive(Debug, Deserialize)]
pub(crate) struct Listing {
    /// The params of the run, with the defaults of the script.
    pub(crate) params: Map<String, Value>,
    /// Every golden and every point that hooks can record, in call order.
    pub(crate) points: Vec<ListedPoint>,
    /// The goldens in call order. The second hit of `name` is `name@1`.
    pub(crate) goldens: Vec<ListedTensor>,
    /// Points whose tensors equal an earlier golden, with that golden.
    #[serde(default)]
    pub(crate) skipped: BTreeMap<String, String>,
    /// A message per name that the script hooks and that recorded nothing.
    #[serde(default)]
    pub(crate) unmatched: Vec<String>,
    pub(crate) inputs: Vec<ListedTensor>,
    pub(crate) weights: Vec<ListedTensor>,
    /// The files among those of the weights that hold adapters.
    #[serde(default)]
    pub(crate) adapters: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListedPoint {
    pub(crate) name: String,
    /// Dtype and shape, as the exporter prints them.
    pub(crate) kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ListedTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The kind of the finding that the exporter's lint has about a golden.
    pub(crate) finding: Option<String>,
    /// What the finding says.
    pub(crate) why: Option<String>,
    /// The file of a weight, if the script names one.
    pub(crate) file: Option<String>,
}

/// The script to list, and the limits of the run.
pub(crate) struct ListingRequest<'a> {
    /// From the project's root.
    pub(crate) script: &'a str,
    pub(crate) source: Option<&'a str>,
    pub(crate) params: &'a Map<String, Value>,
    pub(crate) env: &'a [String],
    /// The external weights that the script reads.
    pub(crate) external: Option<&'a External>,
    pub(crate) timeout: Duration,
    /// In bytes.
    pub(crate) memory: u64,
}

impl<'a> ListingRequest<'a> {
    /// Lists the script of a spec, with its params and its external weights.
    pub(crate) fn of(reference: &'a Reference, external: Option<&'a External>, memory: u64) -> Self {
        Self {
            script: &reference.script,
            source: reference.source.as_deref(),
            params: &reference.params,
            env: &reference.env,
            external,
            timeout: reference.timeout,
            memory,
        }
    }

    /// Runs the script with `--list`. It makes no set.
    pub(crate) fn run(&self, project: &Project, runner: &Runner) -> Result<Listing, RegenerateError> {
        let script = project.root().join(self.script);
        // If the script were a pipe, Python would wait for it forever.
        regular::open(&script).map_err(|source| RegenerateError::read(&script, source))?;
        let home = project.private_folder();
        fs::create_dir_all(&home)
            .and_then(|()| project.keep_git_away())
            .map_err(|source| RegenerateError::write(&home, source))?;
        let folder = tempfile::Builder::new().prefix("listing-").tempdir_in(&home);
        let folder = folder.map_err(|source| RegenerateError::write(&home, source))?;
        let mut block = json!({"script": self.script, "params": self.params});
        if let Some(source) = self.source {
            block["source"] = source.into();
        }
        let call = ScriptCall { project, runner, script: self.script, reference: &block, env: self.env };
        let in_use = folder.path().join(script::IN_USE);
        let mut command = call
            .command(&in_use, Some(self.memory))
            .map_err(|source| RegenerateError::write(&in_use, source))?;
        let report = folder.path().join("listing.json");
        command.arg("--list").env("PARITY_REPORT", &report);
        if let Some(external) = self.external {
            ExternalFiles::of(project, self.script, external, folder.path().join(LIST))?.tell(&mut command);
        }
        let ended = script::run(&mut command, self.timeout).map_err(|error| call.not_started(&error))?;
        match ended.code {
            Some(0) => {}
            None => {
                let (script, after) = (self.script.to_owned(), duration(self.timeout));
                return Err(RegenerateError::TimedOut { script, after });
            }
            Some(code) if is_out_of_memory(code, &ended.stderr) => {
                let (script, limit) = (self.script.to_owned(), size::words(self.memory));
                return Err(RegenerateError::Memory { script, limit });
            }
            Some(code) => return Err(call.failed(&ended, code)),
        }
        let unusable =
            |problem: String| RegenerateError::NoListing { script: self.script.to_owned(), problem };
        let bytes = regular::read(&report, regular::TEXT).map_err(|error| unusable(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))
    }
}

/// Whether a script most likely ended because it could not get more memory.
fn is_out_of_memory(code: i32, stderr: &[u8]) -> bool {
    const WORDS: [&str; 5] =
        ["MemoryError", "can't allocate memory", "Cannot allocate memory", "bad_alloc", "Unable to allocate"];
    let text = String::from_utf8_lossy(stderr);
    // 137: ended by SIGKILL, as the kernel does when memory ends.
    code == 137 || WORDS.iter().any(|word| text.contains(word))
}

/// Half of the machine's memory, or 8 GB if that is unknown.
pub(crate) fn default_memory() -> u64 {
    const UNKNOWN: u64 = 8_000_000_000;
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    total.and_then(|total| total.trim().parse::<u64>().ok()).map_or(UNKNOWN, |total| total * 1024 / 2)
}

/// Reads the value of `--memory`.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    let found = size::parse(text).filter(|bytes| *bytes >= 100_000_000);
    found.ok_or_else(|| "expected a size of at least 100 MB, such as `16GB`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_a_listing_may_use() {
        assert_eq!(parse_memory("16GB"), Ok(16_000_000_000));
        assert!(parse_memory("16").unwrap_err().contains("at least 100 MB"));
        assert!(parse_memory("much").is_err());
        assert!(default_memory() >= 100_000_000);
    }

    #[test]
    fn the_end_of_memory_is_recognised() {
        assert!(is_out_of_memory(1, b"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7 GiB"));
        assert!(is_out_of_memory(137, b""));
        assert!(!is_out_of_memory(1, b"ValueError: no"));
    }
}
