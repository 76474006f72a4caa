//! Names that somebody may have meant.

/// At most this many names are offered.
const OFFERED: usize = 3;

/// Up to three of `candidates` that `name` may be a slip of, nearest first, ties in the order given.
///
/// A candidate is near when no more than a third of the letters of the longer one have to change (a swap of
/// neighbours is one change), when they differ only in case or in `-`, `_` and `.`, or when one is the end of the
/// other's dotted path, as `attn.out` is of `blocks.3.attn.out`.
fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
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

/// The end of a message: `, did you mean …?` with the near names, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let found: Vec<String> = near(name, candidates).into_iter().map(|near| format!("`{near}`")).collect();
    if found.is_empty() { String::new() } else { format!(", did you mean {}?", found.join(" or ")) }
}

fn distance(name: &str, candidate: &str) -> Option<usize> {
    // Lengths alone settle most pairs, so that a spec of 100,000 names stays quick to search.
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
        assert_eq!(near(name, candidates.iter().copied()), expected);
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
    fn the_wording_joins_what_is_near() {
        assert_eq!(did_you_mean("norm", ["norm1", "norm2"]), ", did you mean `norm1` or `norm2`?");
        assert_eq!(did_you_mean("mlp", ["norm1"]), "");
    }
}
