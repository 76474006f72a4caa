//! Which names get no line, and why, in words.

use crate::regenerate::ListedTensor;

/// Goldens that prove something, and the names of the others with the exporter's finding.
pub(super) fn usable(goldens: &[ListedTensor]) -> (Vec<ListedTensor>, Vec<&ListedTensor>) {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for golden in goldens {
        match golden.finding {
            None => kept.push(golden.clone()),
            Some(_) => left.push(golden),
        }
    }
    (kept, left)
}

/// One line per loop of names that are left out, with the reason of its first one.
pub(super) fn left_out(left: &[&ListedTensor]) -> Vec<String> {
    let lines = per_loop(left.iter().map(|tensor| {
        let finding = tensor.finding.as_deref().unwrap_or_default();
        let why = tensor.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        (tensor.name.split('.').collect(), format!("{finding}{why}"))
    }));
    lines.into_iter().map(|(name, why)| format!("{}  ({why})", name.join("."))).collect()
}

/// One line per loop of points whose tensors equal an earlier golden.
pub(super) fn same_again<'a>(skipped: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    // Not in any name, since it is not a segment.
    const TWIN: &str = "";
    let lines =
        per_loop(skipped.map(|(name, twin)| {
            (name.split('.').chain([TWIN]).chain(twin.split('.')).collect(), String::new())
        }));
    let line = |(parts, _): (Vec<&str>, String)| {
        let mut names = parts.split(|part| *part == TWIN).map(|name| name.join("."));
        let (name, twin) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        format!("{name}  (the same elements as `{twin}`)")
    };
    lines.into_iter().map(line).collect()
}

/// One line per loop, with the reason of its first name. A `*` stands for a number that differs between the names.
fn per_loop<'a>(names: impl Iterator<Item = (Vec<&'a str>, String)>) -> Vec<(Vec<&'a str>, String)> {
    let is_number = |part: &str| part.parse::<usize>().is_ok();
    let are_one_loop = |a: &[&str], b: &[&str]| {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| a == b || (*a == "*" || is_number(a)) && is_number(b))
    };
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for (parts, why) in names {
        match lines.iter_mut().find(|(known, _)| are_one_loop(known, &parts)) {
            Some((known, _)) => {
                known.iter_mut().zip(&parts).filter(|(a, b)| a != b).for_each(|(a, _)| *a = "*")
            }
            None => lines.push((parts, why)),
        }
    }
    lines
}
