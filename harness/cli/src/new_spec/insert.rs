//! Inserts lines into the list of checkpoints in a spec's text. Comments and order of everything else stay.

use std::collections::BTreeSet;

/// A checkpoint to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewLine {
    /// The line, from 1, of the checkpoint after which it belongs; none for the start of the list.
    pub(super) after: Option<usize>,
    /// The line from its `-`, without indentation.
    pub(super) text: String,
}

/// Returns the text with the new lines. `starts` are the lines, from 1, at which checkpoints begin.
pub(super) fn insert(text: &str, starts: &BTreeSet<usize>, new: &[NewLine]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = starts.first().copied().unwrap_or(1);
    let depth = lines.get(first - 1).map_or(2, |line| indent(line));
    // A checkpoint ends before the first line that is empty or not indented more than its `-`.
    let end = |start: usize| {
        let continues = |line: &&&str| !line.trim().is_empty() && indent(line) > depth;
        start + lines[start.min(lines.len())..].iter().take_while(continues).count()
    };
    let mut at: Vec<(usize, &str)> =
        new.iter().map(|line| (line.after.map_or(first - 1, end), line.text.as_str())).collect();
    // A stable sort: lines for the same place keep their order.
    at.sort_by_key(|(place, _)| *place);
    let mut at = at.into_iter().peekable();
    let mut out = String::new();
    for (index, line) in lines.iter().map(Some).chain([None]).enumerate() {
        while let Some((_, new)) = at.next_if(|(place, _)| *place == index) {
            out += &format!("{}{new}\n", " ".repeat(depth));
        }
        if let Some(line) = line {
            out += line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_after_their_predecessors() {
        let text = "version: 1\ncheckpoints:\n  # first\n  - {name: a}\n  - name: b\n    dtype: float32\n\n  # last\n  - {name: c}\nlevel: 1\n";
        let starts = BTreeSet::from([4, 5, 9]);
        let new = |after, text: &str| NewLine { after, text: text.to_owned() };
        let found = insert(
            text,
            &starts,
            &[
                new(Some(5), "- b1"),
                new(Some(5), "- b2"),
                new(Some(9), "- c1"),
                new(None, "- z"),
                new(Some(4), "- a1"),
            ],
        );
        assert_eq!(
            found,
            "version: 1\ncheckpoints:\n  # first\n  - z\n  - {name: a}\n  - a1\n  - name: b\n    dtype: float32\n  - b1\n  - b2\n\n  # last\n  - {name: c}\n  - c1\nlevel: 1\n"
        );
    }
}
