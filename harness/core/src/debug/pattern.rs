//! Patterns of taps: names with `*`, and with `{i}` for a number.

use thiserror::Error;

use crate::text::glob;

/// The most characters of a pattern.
const MOST_CHARACTERS: usize = 500;
/// The most axes of a pattern.
const MOST_AXES: usize = 4;
/// The most numbers of a name that are tried. Names have one or two.
const MOST_NUMBERS: usize = 8;

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The pattern is empty or too long.
    #[error("the pattern has {0} characters, expected 1 to {MOST_CHARACTERS}")]
    Length(usize),
    /// A brace is not closed, or does not name an axis.
    #[error("the pattern `{0}` has a brace that names no axis, expected a name such as `{{i}}`")]
    Brace(String),
    /// The pattern has too many axes, or one twice.
    #[error("the pattern `{0}` has an axis twice, or more than {MOST_AXES} axes")]
    Axes(String),
}

/// A pattern of names of taps. `*` stands for any characters, `?` for one, and `{i}` for a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapPattern {
    /// The text between the axes; one more than there are axes.
    parts: Vec<String>,
    axes: Vec<String>,
}

impl TapPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When the text is empty or too long, or when a brace names no axis.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let length = text.chars().count();
        if length == 0 || length > MOST_CHARACTERS {
            return Err(PatternError::Length(length));
        }
        let (mut parts, mut axes) = (Vec::new(), Vec::<String>::new());
        let mut rest = text;
        let is_word = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        while let Some((before, after)) = rest.split_once('{') {
            let axis = after.split_once('}').filter(|(axis, _)| is_word(axis) && !before.contains('}'));
            let Some((axis, after)) = axis else { return Err(PatternError::Brace(text.to_owned())) };
            if axes.iter().any(|known| known == axis) || axes.len() == MOST_AXES {
                return Err(PatternError::Axes(text.to_owned()));
            }
            parts.push(before.to_owned());
            axes.push(axis.to_owned());
            rest = after;
        }
        if rest.contains('}') {
            return Err(PatternError::Brace(text.to_owned()));
        }
        parts.push(rest.to_owned());
        Ok(Self { parts, axes })
    }

    /// Returns whether the pattern is a plain name.
    pub fn is_name(&self) -> bool {
        self.axes.is_empty() && !self.parts.iter().any(|part| part.contains(['*', '?']))
    }

    /// Matches a whole name, and returns the numbers of the axes; `None` if the name does not match.
    ///
    /// If an axis can be several numbers of the name, the leftmost ones count.
    pub fn matches(&self, name: &str) -> Option<Vec<(&str, u64)>> {
        if !glob::matches(&self.parts.join("*"), name) {
            return None;
        }
        let numbers = numbers(name);
        let mut chosen = Vec::with_capacity(self.axes.len());
        if !self.choose(name, &numbers, 0, &mut chosen) {
            return None;
        }
        self.axes
            .iter()
            .map(String::as_str)
            .zip(chosen.into_iter().map(|number| number.parse().ok()))
            .map(|(axis, number)| Some((axis, number?)))
            .collect()
    }

    /// Chooses a number of the name for each axis, from left to right.
    fn choose<'n>(&self, name: &str, numbers: &[&'n str], from: usize, chosen: &mut Vec<&'n str>) -> bool {
        if chosen.len() == self.axes.len() {
            let mut pattern = self.parts[0].clone();
            for (number, part) in chosen.iter().zip(&self.parts[1..]) {
                pattern.push_str(number);
                pattern.push_str(part);
            }
            return glob::matches(&pattern, name);
        }
        (from..numbers.len()).any(|index| {
            chosen.push(numbers[index]);
            let found = self.choose(name, numbers, index + 1, chosen);
            if !found {
                chosen.pop();
            }
            found
        })
    }
}

/// Returns the loops that a name is in: `step` 2 and `layers` 0 for `step.2.layers.0.out`.
///
/// A loop is a word with only a number in the part behind it. The number of an inner loop comes later.
pub fn loops(name: &str) -> Vec<(&str, u64)> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let number = |part: &str| part.chars().all(|c| c.is_ascii_digit()).then(|| part.parse().ok())?;
    parts
        .windows(2)
        .filter(|pair| is_word(pair[0]))
        .filter_map(|pair| Some((pair[0], number(pair[1])?)))
        .collect()
}

/// The runs of digits in a name.
fn numbers(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).take(MOST_NUMBERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, axes: Option<&[(&str, u64)]>) {
        let pattern = TapPattern::new(pattern).unwrap();
        assert_eq!(pattern.matches(name).as_deref(), axes);
    }

    #[test]
    fn an_axis_is_a_whole_number_of_the_name() {
        check("gated", "gated", Some(&[]));
        check("gated", "gated2", None);
        check("blocks.*.out", "blocks.3.out", Some(&[]));
        check("blocks.{i}.out", "blocks.13.out", Some(&[("i", 13)]));
        check("blocks.{i}.out", "blocks.x.out", None);
        check("{a}.{b}", "1.2", Some(&[("a", 1), ("b", 2)]));
        check("*.{i}.*", "h1.2.q", Some(&[("i", 2)]));
        check("norm{i}", "norm1", Some(&[("i", 1)]));
        check("norm{i}", "norm", None);
    }

    #[test]
    fn a_word_before_a_number_is_a_loop() {
        assert_eq!(loops("step.2.layers.0.out"), [("step", 2), ("layers", 0)]);
        assert_eq!(loops("h.7"), [("h", 7)]);
        for none in ["gated", "blocks.x.out", "blocks3.out", "3.out", "a-b.3", "h.", "h.99999999999999999999"]
        {
            assert_eq!(loops(none), [], "{none}");
        }
    }

    #[test]
    fn a_wrong_pattern_is_an_error() {
        for text in ["", "a{", "a}", "{}", "{1}", "{i}{i}", "}{i}", &"x".repeat(501)] {
            assert!(TapPattern::new(text).is_err(), "{text}");
        }
        assert!(TapPattern::new("blocks.3").unwrap().is_name());
        assert!(!TapPattern::new("blocks.{i}").unwrap().is_name());
    }

    #[test]
    fn many_stars_end_at_once() {
        let pattern = TapPattern::new(&("*a".repeat(100) + "{i}")).unwrap();
        assert_eq!(pattern.matches(&("a".repeat(3000) + "1.2.3.4.5.6.7.8.9x")), None);
    }
}
