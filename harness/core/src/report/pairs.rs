//! Two sets of tensors, compared pair by pair: the ladder of a diff, and the text of a differing pair.

use std::fmt::Write as _;

use super::columns::{Columns, first_divergence};
use super::failure::tensor_rows;
use super::localisation::cause_rows;
use super::words::headline;
use crate::gate::Class;
use crate::record::{Record, Status};
use crate::spec::list::counted;
use crate::text::printable::{clean, paint};

/// How many names of one side a list shows; it counts the rest.
const SHOWN: usize = 20;

/// One tensor of A with its counterpart in B.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The comparison, under A's name.
    pub record: Record,
    /// The name in B.
    pub actual: String,
    /// How the counterpart was found.
    pub known: Known,
}

/// How a counterpart was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Both have the same name, or each side has only one tensor.
    Name,
    /// A rename rule maps one name to the other.
    Rule,
    /// The names are similar, no other name is as similar, and the shapes are equal.
    Nearness,
}

impl Pair {
    /// Returns whether the two tensors agree.
    pub fn agrees(&self) -> bool {
        self.record.verdict.status == Status::Pass
    }

    fn other_name(&self) -> Option<String> {
        let how = match self.known {
            Known::Nearness => ", matched by a similar name",
            Known::Name | Known::Rule => "",
        };
        (self.actual != self.record.checkpoint).then(|| format!("is `{}` in B{how}", self.actual))
    }
}

/// Returns one line per pair with the first divergence marked, then the tensors that only one side has.
pub fn pairs_ladder(pairs: &[Pair], only_a: &[String], only_b: &[String], colour: bool) -> String {
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

/// Returns the text of a differing pair, and an empty text for a pair that agrees.
pub fn pair_failure(pair: &Pair) -> String {
    let verdict = &pair.record.verdict;
    let Some(class) = verdict.class else { return String::new() };
    let what = if class == Class::Missing { "the floor is missing" } else { headline(class) };
    let mut text = format!("{}: {what}\n", clean(&pair.record.checkpoint));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    cause_rows(&pair.record.causes, &pair.record.facts, "the tensor in B is ", &mut row);
    tensor_rows(&pair.record, class, &verdict.detail, &mut row);
    if let Some(other) = pair.other_name() {
        row("name", &other);
    }
    text
}
