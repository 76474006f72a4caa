//! The exporter's report on a run: findings of its own lint, and notes.

use std::fmt::Write as _;
use std::path::Path;

use mlx_parity_core::files::regular;
use serde::Deserialize;

/// The exporter's report; empty for a script that writes none.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ExporterReport {
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    findings: Vec<ExporterFinding>,
}

#[derive(Debug, Deserialize)]
struct ExporterFinding {
    kind: String,
    message: String,
    #[serde(default)]
    advice: String,
    /// Why the script accepts the finding.
    accepted: Option<String>,
}

impl ExporterReport {
    pub(super) fn read(path: &Path) -> Self {
        let text = regular::read(path, regular::TEXT).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Whether there is a finding that the script does not accept.
    pub(super) fn has_unaccepted(&self) -> bool {
        self.findings.iter().any(|finding| finding.accepted.is_none())
    }

    /// The findings that the script does not accept, each with what to do about it.
    pub(super) fn unaccepted(&self) -> String {
        let mut text = String::new();
        for finding in self.findings.iter().filter(|finding| finding.accepted.is_none()) {
            let _ = write!(text, "  {:<16} {}", finding.kind, finding.message);
            if !finding.advice.is_empty() {
                let _ = write!(text, "\n  {:<16} {}", "", finding.advice);
            }
            text.push('\n');
        }
        text.trim_end().to_owned()
    }

    /// Accepted findings and notes, one line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        let accepted = self.findings.iter().filter_map(|finding| {
            Some(format!("accepted: {}: {} ({})", finding.kind, finding.message, finding.accepted.as_ref()?))
        });
        accepted.chain(self.notes.iter().map(|note| format!("note: {note}")))
    }
}
