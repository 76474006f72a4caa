//! Two sets of tensors, compared pair by pair: the ladder of a diff, and the text of a differing pair.

use std::fmt::Write as _;

use super::columns::{Columns, first_divergence};
use super::failure::tensor_rows;
use super::localisation::{cause_rows, cause_text, fact_text};
use crate::gate::Class;
use crate::record::{Record, Status};
use crate::spec::list::counted;
use crate::text::printable::{clean, paint};

/// How many names of one side a list shows; it counts the rest.
const SHOWN: usize = 20;
/// The words that begin a cause.
const IN_B: &str = "the tensor in B is ";

/// One tensor of A with its counterpart in B.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The comparison, under A's name.
    pub record: Record,
    /// The name in B.
    pub actual: String,
    /// How the counterpart was found.
    pub known: Known,
    /// Whether the tensors differ although everything that they are computed from agrees. Only a recipe can show that.
    pub inputs_agree: bool,
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

/// Returns one line per pair, then the tensors that only one side has. The first divergence is marked, and so is every
/// later one whose inputs agree.
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
        } else if pair.inputs_agree {
            text.push_str(&paint("31", "  <- its inputs agree"));
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
    let what = if class == Class::Missing { "the floor is missing" } else { class.headline() };
    let mut text = format!("{}: {what}\n", clean(&pair.record.checkpoint));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    cause_rows(&pair.record.causes, &pair.record.facts, IN_B, &mut row);
    tensor_rows(&pair.record, class, &verdict.detail, &mut row);
    if let Some(other) = pair.other_name() {
        row("name", &other);
    }
    text
}

/// Returns the causes of the divergences after the first: two lines for each that has a cause or a fact.
///
/// These are the best cause, or the first fact. A cause at the same line of the reference as an earlier one, and with the
/// same words, is one mistake that two tensors show, so it refers to the earlier one.
pub fn later_causes(pairs: &[Pair]) -> String {
    let mut text = String::new();
    let red: Vec<&Record> = pairs.iter().filter(|pair| !pair.agrees()).map(|pair| &pair.record).collect();
    for (index, record) in red.iter().enumerate().skip(1) {
        let (label, what) = match (record.causes.first(), record.facts.first()) {
            (Some(cause), _) => {
                let same = |other: &&&Record| {
                    let other = other.causes.first().filter(|other| other.place.is_some());
                    other.is_some_and(|other| (&other.place, &other.text) == (&cause.place, &cause.text))
                };
                let what = match red[..index].iter().find(same) {
                    Some(other) => format!("the same as for `{}`", other.checkpoint),
                    None => format!("{IN_B}{}", cause_text(cause)),
                };
                ("cause", what)
            }
            (None, Some(fact)) => ("fact", fact_text(fact)),
            (None, None) => continue,
        };
        let headline = record.verdict.class.map_or("differs", Class::headline);
        let _ = writeln!(text, "{}: {headline}, but its inputs agree", clean(&record.checkpoint));
        let _ = writeln!(text, "  {label:<9}{}", clean(&what));
    }
    text
}
