//! Two sides of tensors, pair by pair: the ladder of a diff and what it says of a pair that differs.

use std::fmt::Write as _;

use super::columns::{Columns, first_divergence};
use super::failure::{headline, tensor_rows};
use super::finding::cause_rows;
use crate::Class;
use crate::printable::{clean, paint};
use crate::record::{Record, Status};
use crate::spec::list::counted;

/// Names of one side that are written out before the rest is counted.
const SHOWN: usize = 20;

/// One tensor of A with its counterpart in B.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// Under A's name.
    pub(crate) record: Record,
    /// B's name.
    pub(crate) actual: String,
    pub(crate) known: Known,
}

/// By what a counterpart was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has the same name, or is the only tensor on both sides.
    Name,
    /// A rule renames it.
    Rule,
    /// No other name is as near, and the shapes are equal.
    Nearness,
}

impl Pair {
    /// Whether the two agree.
    pub(crate) fn agrees(&self) -> bool {
        self.record.verdict.status == Status::Pass
    }

    fn other_name(&self) -> Option<String> {
        let how = match self.known {
            Known::Nearness => ", by a near name",
            Known::Name | Known::Rule => "",
        };
        (self.actual != self.record.checkpoint).then(|| format!("is `{}` in B{how}", self.actual))
    }
}

/// The pairs in their order with the first that differs marked, then what only one side has, then the counts.
pub(crate) fn pairs_ladder(pairs: &[Pair], only_a: &[String], only_b: &[String], colour: bool) -> String {
    let paint = |code: &str, text: &str| paint(colour, code, text);
    let width = pairs.iter().map(|pair| pair.record.checkpoint.len()).max().unwrap_or(0).clamp(10, 48);
    let columns = Columns { what: "tensor", width, timed: false };
    let mut text = String::new();
    if !pairs.is_empty() {
        let _ = writeln!(text, "  {:<9} {}", "", columns.heading());
    }
    let first_red = pairs.iter().position(|pair| !pair.agrees());
    for (position, pair) in pairs.iter().enumerate() {
        let (word, code) = match pair.record.verdict.class {
            None => ("ok", "32"),
            Some(class) => (class.name(), "31"),
        };
        let word = paint(code, &format!("{word:<9}"));
        let line = format!("  {word} {}", columns.row(&pair.record.checkpoint, Some(&pair.record), None));
        text.push_str(line.trim_end());
        if let Some(other) = pair.other_name() {
            let _ = write!(text, "  {}", clean(&other));
        }
        if first_red == Some(position) {
            let green = pairs[..position].last().map(|green| green.record.checkpoint.as_str());
            text.push_str(&paint("31", &first_divergence(green)));
        }
        text.push('\n');
    }
    for (side, names) in [("A", only_a), ("B", only_b)] {
        for name in names.iter().take(SHOWN) {
            let word = paint("33", &format!("{:<9}", format!("only in {side}")));
            let _ = writeln!(text, "  {word} {}", clean(name));
        }
        let more = names.len().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, "  {:<9} and {} only in {side}", "", counted(more, "other"));
        }
    }
    text
}

/// What the pair says that differs; empty for one that agrees.
pub(crate) fn pair_failure(pair: &Pair) -> String {
    let verdict = &pair.record.verdict;
    let Some(class) = verdict.class else { return String::new() };
    let what = if class == Class::Missing { "the floor is missing" } else { headline(class) };
    let mut text = format!("{}: {what}\n", clean(&pair.record.checkpoint));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    cause_rows(&pair.record.causes, &pair.record.facts, "it is ", &mut row);
    tensor_rows(&pair.record, class, &verdict.detail, &mut row);
    if let Some(other) = pair.other_name() {
        row("name", &other);
    }
    text
}
