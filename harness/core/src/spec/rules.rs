//! Rules for single values that more than one kind of file or key has.

use std::collections::HashMap;
use std::sync::Arc;

use super::bounds;
use super::decode::{At, Maybe, Reader};
use super::problem::{Problem, SourceSpan, quoted};

/// Reports a version of the grammar other than 1.
pub(super) fn version(version: &Maybe<u32>, reader: &mut Reader<'_>) {
    if let Some(at) = version.get()
        && at.value != 1
    {
        reader.problem(&at.place, format!("found version {}", at.value), "expected 1");
    }
}

/// Whether a number can be a tolerance; reports it otherwise.
pub(super) fn tolerance(at: &At<f64>, reader: &mut Reader<'_>) -> bool {
    let right = at.value.is_finite() && at.value >= 0.0;
    if !right {
        reader.problem(&at.place, format!("found {}", at.value), "expected a finite number, 0 or more");
    }
    right
}

/// Reports a path that is not inside `root`.
pub(super) fn relative(at: &At<String>, root: &str, reader: &mut Reader<'_>) {
    let path = &at.value;
    let part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']);
    if path.len() > 1_000 || !path.split('/').all(part) {
        let allowed = format!("expected a path inside {root}, with `/` and without `.` or `..`");
        reader.problem(&at.place, format!("path {} is not allowed", quoted(path)), allowed);
    }
}

/// The level; 0 when the key is absent or its value is too large, which is then reported.
pub(super) fn level(level: &Maybe<u32>, reader: &mut Reader<'_>) -> u8 {
    let Some(at) = level.get() else { return 0 };
    match u8::try_from(at.value) {
        Ok(level) if level <= bounds::LEVEL => level,
        _ => {
            let allowed = format!("expected 0 to {}", bounds::LEVEL);
            reader.problem(&at.place, format!("found level {}", at.value), allowed);
            0
        }
    }
}

/// Why `name` cannot name a tap or a tensor.
pub(super) fn name_fault(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.@-".contains(c);
    if name.is_empty() || name.len() > bounds::NAME {
        return Some(format!("expected 1 to {} characters", bounds::NAME));
    }
    if !name.chars().all(fits) {
        return Some("expected letters, digits and `_`, `.`, `@`, `-`".to_owned());
    }
    // Checkpoint names become parts of file names.
    if name.split('.').any(str::is_empty) {
        return Some("expected no empty part between dots".to_owned());
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Some("expected a letter, a digit or `_` at the start".to_owned());
    }
    None
}

/// Text that all checkpoints of a loop share.
pub(super) fn shared(text: &Maybe<String>) -> Option<Arc<str>> {
    text.value().map(|text| Arc::from(text.trim()))
}

/// The names in a list. Reports invalid names and names that occur twice.
pub(super) fn names(list: &Maybe<Vec<At<String>>>, what: &str, reader: &mut Reader<'_>) -> Vec<String> {
    let mut seen: HashMap<&str, &SourceSpan> = HashMap::new();
    for at in list.value().into_iter().flatten() {
        if let Some(allowed) = name_fault(&at.value) {
            reader.problem(&at.place, format!("{} cannot be an {what}'s name", quoted(&at.value)), allowed);
        }
        if let Some(first) = seen.insert(&at.value, &at.place) {
            let message = format!("{what} {} is declared twice", quoted(&at.value));
            reader.problems.push(Problem::new(&at.place, message, "").related(first, "first declared here"));
        }
    }
    seen.clear();
    list.value().map_or_else(Vec::new, |list| list.iter().map(|at| at.value.clone()).collect())
}
