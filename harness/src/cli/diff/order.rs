//! In which order tensors come, so that the first that differs means something.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;

use super::DiffError;
use super::side::Side;

/// The places of A's names in their order, and a word on where that comes from.
pub(super) fn ordered(side: &Side, file: Option<&Path>) -> Result<(Vec<usize>, String), DiffError> {
    if let Some(path) = file {
        let text = crate::regular::read_text(path, crate::regular::TEXT)
            .map_err(|source| DiffError::Read { path: path.to_owned(), source })?;
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
    Ok((places, "names, numbers by value; `--order` knows better".to_owned()))
}

/// Those of the list first, in its order, then the others by name.
fn by_list(side: &Side, list: Vec<String>, path: &Path) -> Result<Vec<usize>, DiffError> {
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

/// By name, with whole numbers by their value: `blocks.2` before `blocks.10`.
fn natural(a: &str, b: &str) -> Ordering {
    let mut left = a;
    let mut right = b;
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            // Equal but for leading zeros, the names themselves decide.
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

/// The digits at the start, without leading zeros, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count() {
        let mut names = ["b.10.x", "b.9.x", "b.9.a", "a", "b.010.a", "b", "b.9"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "b", "b.9", "b.9.a", "b.9.x", "b.010.a", "b.10.x"]);
        assert_eq!(natural("x01", "x1"), Ordering::Less);
    }
}
