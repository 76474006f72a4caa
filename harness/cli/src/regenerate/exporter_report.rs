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
    #[serde(default)]
    name: String,
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

    /// The findings that the script does not accept. Those of one loop are one line, and each kind has what to do about it
    /// once, after its last line.
    pub(super) fn unaccepted(&self) -> String {
        let mut loops: Vec<(&ExporterFinding, usize)> = Vec::new();
        for finding in self.findings.iter().filter(|finding| finding.accepted.is_none()) {
            match loops.iter_mut().find(|(first, _)| first.is_in_loop_with(finding)) {
                Some((_, others)) => *others += 1,
                None => loops.push((finding, 0)),
            }
        }
        let mut text = String::new();
        for (index, (finding, others)) in loops.iter().enumerate() {
            let _ = write!(text, "  {:<16} {}", finding.kind, finding.message);
            if *others > 0 {
                let _ = write!(text, " (and {others} more like it)");
            }
            let is_last = loops.get(index + 1).is_none_or(|(next, _)| next.advice != finding.advice);
            if is_last && !finding.advice.is_empty() {
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

impl ExporterFinding {
    /// Whether two findings are about tensors of one loop: their names differ only in numbers.
    fn is_in_loop_with(&self, other: &Self) -> bool {
        !self.name.is_empty() && self.kind == other.kind && pattern(&self.name) == pattern(&other.name)
    }
}

/// The name with `#` for each number.
fn pattern(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_loop_are_one_line() {
        let finding = |kind: &str, name: &str| ExporterFinding {
            kind: kind.to_owned(),
            name: name.to_owned(),
            message: format!("golden `{name}` is wrong"),
            advice: format!("correct {kind}"),
            accepted: None,
        };
        let findings = vec![
            finding("missing", "layers.0.q"),
            finding("missing", "norm"),
            finding("missing", "layers.11.q"),
            finding("zero", "layers.2.q"),
        ];
        let report = ExporterReport { notes: Vec::new(), findings };
        let expected = "  missing          golden `layers.0.q` is wrong (and 1 more like it)\n  \
            missing          golden `norm` is wrong\n                   correct missing\n  \
            zero             golden `layers.2.q` is wrong\n                   correct zero";
        assert_eq!(report.unaccepted(), expected);
    }
}
