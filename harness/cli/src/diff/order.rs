//! The order in which tensors are compared, so that the first difference is the first in the computation.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;

use super::DiffError;
use super::side::DiffSide;
use mlx_parity_core::files::regular::{TEXT, read_text};

/// Returns the positions of A's names in the order of comparison, and a description of where the order comes from.
pub(super) fn ordered(side: &DiffSide, file: Option<&Path>) -> Result<(Vec<usize>, String), DiffError> {
    if let Some(path) = file {
        let text =
            read_text(path, TEXT).map_err(|source| DiffError::Read { path: path.to_owned(), source })?;
        let names = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
        return Ok((by_list(side, names, path)?, format!("`{}`", path.display())));
    }
    if side.is_set() {
        return Ok(((0..side.len()).collect(), "the manifest's sequence".to_owned()));
    }
    if let Some((path, list)) =
        side.file().and_then(|file| Some((file.path(), file.metadata().get("order")?)))
    {
        let names: Vec<String> = serde_json::from_str(list)
            .map_err(|source| DiffError::OrderMetadata { path: path.to_owned(), source })?;
        return Ok((by_list(side, names, path)?, "`order` in the file's metadata".to_owned()));
    }
    let names: Vec<&str> = side.names().collect();
    let mut places: Vec<usize> = (0..names.len()).collect();
    places.sort_by(|a, b| natural(names[*a], names[*b]));
    Ok((places, "by name, with numbers by value; `--order` sets another".to_owned()))
}

/// Returns the positions of the names in the list, in its order, then the other positions, sorted by name.
fn by_list(side: &DiffSide, list: Vec<String>, path: &Path) -> Result<Vec<usize>, DiffError> {
    let rank: HashMap<&str, usize> = list.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let names: Vec<&str> = side.names().collect();
    if !names.iter().any(|name| rank.contains_key(name)) {
        return Err(DiffError::Order { path: path.to_owned(), side: side.path().to_owned() });
    }
    let mut places: Vec<usize> = (0..names.len()).collect();
    let rank = |at: usize| rank.get(names[at]).copied().unwrap_or(usize::MAX);
    places.sort_by(|a, b| rank(*a).cmp(&rank(*b)).then_with(|| natural(names[*a], names[*b])));
    Ok(places)
}

/// Compares names, with integers by their value: `blocks.2` comes before `blocks.10`.
fn natural(a: &str, b: &str) -> Ordering {
    let mut left = a;
    let mut right = b;
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            // Names that differ in leading zeros only are compared as text.
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (number, rest) = digits(left);
            let (other, other_rest) = digits(right);
            (left, right) = (rest, other_rest);
            number.len().cmp(&other.len()).then_with(|| number.cmp(other))
        } else {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
            x.cmp(&y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Returns the digits at the start, without leading zeros, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_by_value() {
        let mut names = ["b.10.x", "b.9.x", "b.9.a", "a", "b.010.a", "b", "b.9"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "b", "b.9", "b.9.a", "b.9.x", "b.010.a", "b.10.x"]);
        assert_eq!(natural("x01", "x1"), Ordering::Less);
    }
}
