//! Breakpoints: where and at which results a session stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::TapPattern;
use crate::calculate::check_syntax;

/// The most breakpoints of a session.
const MOST: usize = 1000;

/// The results at which a breakpoint stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// At any result, and at taps without one.
    #[default]
    Any,
    /// At a checkpoint that fails.
    Failed,
    /// At a checkpoint whose actual has a NaN.
    Nan,
}

/// One breakpoint, with its number and the hits that it counted in this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakpoint {
    /// The number, from 1. Numbers are not used again.
    pub number: u32,
    /// The pattern of names.
    pub pattern: String,
    /// The results.
    pub on: On,
    /// The condition.
    pub when: Option<String>,
    /// Stops only at this one of the matching hits, from 1.
    pub hit: Option<u64>,
    /// Matching hits in this run so far.
    pub hits: u64,
    /// The breakpoint as a person writes it, without `break`.
    pub text: String,
}

/// The breakpoints of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakpoints {
    /// In the order of their numbers.
    pub list: Vec<Breakpoint>,
    /// The highest number that was used.
    last: u32,
}

impl Breakpoints {
    /// Adds a breakpoint and returns its number.
    ///
    /// # Errors
    /// When the pattern is wrong, the condition is no expression, the hit is 0, or there are too many breakpoints, in words.
    pub fn add(
        &mut self,
        pattern: &str,
        on: On,
        when: Option<&str>,
        hit: Option<u64>,
    ) -> Result<u32, String> {
        TapPattern::new(pattern).map_err(|error| error.to_string())?;
        if let Some(Err(error)) = when.map(check_syntax) {
            return Err(format!("the condition is no expression: {error}"));
        }
        if hit == Some(0) {
            return Err("hits count from 1".to_owned());
        }
        if self.list.len() >= MOST {
            return Err(format!("there are {MOST} breakpoints already; remove some"));
        }
        self.last += 1;
        self.list.push(Breakpoint {
            number: self.last,
            pattern: pattern.to_owned(),
            on,
            when: when.map(str::to_owned),
            hit,
            hits: 0,
            text: describe(pattern, on, when, hit),
        });
        Ok(self.last)
    }

    /// Removes the breakpoints with this number or pattern, and returns how many there were.
    pub fn remove(&mut self, which: &str) -> usize {
        let before = self.list.len();
        self.list.retain(|one| one.number.to_string() != which && one.pattern != which && one.text != which);
        before - self.list.len()
    }

    /// Removes every breakpoint, and returns how many there were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.list).len()
    }

    /// Counts hits from zero, for a new run.
    pub fn reset(&mut self) {
        self.list.iter_mut().for_each(|one| one.hits = 0);
    }
}

/// A breakpoint as a person writes it, without `break`.
pub(super) fn describe(pattern: &str, on: On, when: Option<&str>, hit: Option<u64>) -> String {
    // A tap may have the name of a result.
    let is_plain = !pattern.contains(char::is_whitespace) && !["failed", "nan", "used"].contains(&pattern);
    let name = if is_plain { pattern.to_owned() } else { format!("\"{pattern}\"") };
    let mut text = match (on, pattern, when) {
        (On::Any, "*", Some(when)) if when.starts_with("used") => when.to_owned(),
        (On::Any, _, None) => name,
        (On::Any, _, Some(when)) => format!("{name} when {when}"),
        (On::Failed, "*", _) => "failed".to_owned(),
        (On::Nan, "*", _) => "nan".to_owned(),
        (On::Failed, _, _) => format!("{name} failed"),
        (On::Nan, _, _) => format!("{name} nan"),
    };
    if let (On::Failed | On::Nan, Some(when)) = (on, when) {
        text += &format!(" when {when}");
    }
    match hit {
        Some(1) => text += " first",
        Some(hit) => text += &format!(" hit {hit}"),
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_used_again() {
        let mut all = Breakpoints::default();
        assert_eq!(all.add("a", On::Any, None, None), Ok(1));
        assert_eq!(all.add("b", On::Any, None, Some(2)), Ok(2));
        assert_eq!(all.remove("2"), 1);
        assert_eq!(all.remove("2"), 0);
        assert_eq!(all.remove("a"), 1);
        assert_eq!(all.add("*", On::Failed, None, Some(1)), Ok(3));
        assert_eq!(all.list[0].text, "failed first");
        assert_eq!(all.clear(), 1);
        let error = all.add("a", On::Any, Some("i % "), None).unwrap_err();
        assert!(error.starts_with("the condition is no expression: found the end"), "{error}");
        assert!(all.add("{", On::Any, None, None).is_err() && all.add("a", On::Any, None, Some(0)).is_err());
    }
}
