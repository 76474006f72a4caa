//! Suggestions for misspelt names.

/// The most names in one suggestion.
const OFFERED: usize = 3;

/// Up to three of `candidates` that `name` may be a misspelling of, nearest first, ties in the order given.
///
/// A candidate is near in three cases. At most a third of the letters of the longer name differ, where a swap of
/// neighbours is one difference. The names differ only in case or in `-`, `_` and `.`. Or one is the end of the other's
/// dotted path, as `attn.out` is of `blocks.3.attn.out`.
fn suggestions<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter(|&candidate| candidate != name)
        .filter_map(|candidate| distance(name, candidate).map(|distance| (distance, candidate)))
        .collect();
    found.sort_by_key(|&(distance, _)| distance);
    found.dedup_by_key(|&mut (_, candidate)| candidate);
    found.truncate(OFFERED);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The end of a message: `, did you mean …?` with the near names, or the empty string.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let found: Vec<String> =
        suggestions(name, candidates).into_iter().map(|near| format!("`{near}`")).collect();
    if found.is_empty() { String::new() } else { format!(", did you mean {}?", found.join(" or ")) }
}

/// The nearest of `candidates` to `name`; `None` when no candidate is near or two are equally near.
///
/// Tensors are paired by this, so it is stricter than [`did_you_mean`]. Numbers must be equal: `blocks.0.out` is never
/// near `blocks.1.out`. At most a third of each part of a name may differ: `to_q` is not near `to_k`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    let alike = |candidate: &&str| numbers(candidate).eq(numbers(name)) && is_slip(name, candidate);
    for candidate in candidates.into_iter().filter(alike) {
        let Some(distance) = distance(name, candidate) else { continue };
        match best {
            Some((least, _)) if distance > least => {}
            Some((least, _)) if distance == least => tied = true,
            _ => (best, tied) = (Some((distance, candidate)), false),
        }
    }
    best.filter(|_| !tied).map(|(_, candidate)| candidate)
}

/// Whether at most a third of the letters of each part differ; names with different numbers of parts are compared whole.
fn is_slip(name: &str, other: &str) -> bool {
    let small = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|part| part.trim_start_matches('0'));
        a == b || 3 * strsim::osa_distance(a, b) <= a.len().max(b.len())
    };
    let [parts, others] = [name, other].map(|name| name.split(['.', '_', '-', '/']).collect::<Vec<_>>());
    match parts.len() == others.len() {
        true => parts.iter().zip(others).all(|(a, b)| small(a, b)),
        false => is_path_end(name, other) || is_path_end(other, name) || plain(name).eq(plain(other)),
    }
}

/// The whole numbers in a name, in order, as digits without leading zeros.
pub fn numbers(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.map(|part| part.trim_start_matches('0'))
}

fn distance(name: &str, candidate: &str) -> Option<usize> {
    // Lengths alone rule out most pairs, which keeps the search of 100,000 names quick.
    let longer = name.len().max(candidate.len());
    let allowed = (longer / 3).max(1);
    if plain(name).eq(plain(candidate)) {
        return Some(0);
    }
    if is_path_end(name, candidate) || is_path_end(candidate, name) {
        return Some(1);
    }
    if name.len().abs_diff(candidate.len()) > allowed || longer > 256 {
        return None;
    }
    let distance = strsim::osa_distance(name, candidate);
    (distance <= allowed && distance < longer).then_some(distance)
}

fn plain(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase())
}

fn is_path_end(end: &str, path: &str) -> bool {
    !end.is_empty() && path.strip_suffix(end).is_some_and(|head| head.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, candidates: &[&str], expected: &[&str]) {
        assert_eq!(suggestions(name, candidates.iter().copied()), expected);
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        check("polcy", &["policy", "port"], &["policy"]);
        check("nrom1", &["norm2", "norm1", "attn.out"], &["norm1"]);
        check("norm_3", &["norm_1", "norm_2"], &["norm_1", "norm_2"]);
        check("checkPoints", &["checkpoints"], &["checkpoints"]);
        check("allow-missing", &["allow_missing"], &["allow_missing"]);
        check("attn.out", &["blocks.0.attn.out", "mlp"], &["blocks.0.attn.out"]);
        check("x", &["y", "layout"], &[]);
        check("zzz", &["policy"], &[]);
        check("", &["policy"], &[]);
        check("norm1", &["norm1"], &[]);
    }

    #[test]
    fn the_nearest_is_one_and_counts_the_same() {
        let names = ["blocks.0.out", "blocks.1.out", "block.1.attn"];
        assert_eq!(nearest("block.1.out", names), Some("blocks.1.out"));
        assert_eq!(nearest("blocks.01.out", names), Some("blocks.1.out"));
        assert_eq!(nearest("blocks.2.out", names), None);
        assert_eq!(nearest("norm", ["norma", "normb"]), None, "two are as near");
        assert_eq!(nearest("attn.to_q", ["attn.to_k"]), None);
        assert_eq!(nearest("attn.toq", ["attn.to_q"]), Some("attn.to_q"));
    }

    #[test]
    fn the_wording_joins_what_is_near() {
        assert_eq!(did_you_mean("norm", ["norm1", "norm2"]), ", did you mean `norm1` or `norm2`?");
        assert_eq!(did_you_mean("mlp", ["norm1"]), "");
    }
}
