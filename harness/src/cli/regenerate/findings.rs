//! What the exporter reports of a run: its lint's findings, and notes.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

/// The exporter's report; empty for a script that writes none.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Report {
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    kind: String,
    message: String,
    #[serde(default)]
    advice: String,
    /// The reason for which the script accepts it.
    accepted: Option<String>,
}

impl Report {
    pub(super) fn read(path: &Path) -> Self {
        let text = crate::regular::read(path, crate::regular::TEXT).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Whether there is a finding that the script does not accept.
    pub(super) fn refuses(&self) -> bool {
        self.findings.iter().any(|finding| finding.accepted.is_none())
    }

    /// The findings that the script does not accept, each with what to do about it.
    pub(super) fn refused(&self) -> String {
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

    /// What is good to know about a set that is accepted, a line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        let accepted = self.findings.iter().filter_map(|finding| {
            Some(format!("accepted: {}: {} ({})", finding.kind, finding.message, finding.accepted.as_ref()?))
        });
        accepted.chain(self.notes.iter().map(|note| format!("note: {note}")))
    }
}
