//! The order in which a port reaches the checkpoints of loops: one round after the other.
//!
//! A spec declares `layers.{i}.norm` in one line and `layers.{i}.out` in the next, but a port reaches `layers.0.norm`,
//! `layers.0.out`, `layers.1.norm`.

use std::collections::{BTreeMap, HashMap};

use super::checkpoints::Checkpoint;

/// A checkpoint, and the part of its name behind the rounds that were sorted before.
type Named<'c> = (&'c Checkpoint, &'c str);

/// Returns the checkpoints with the rounds of their loops one after the other. Loops belong together if their lines follow each
/// other and their names are equal up to the number.
///
/// `reached` returns when the port reached a checkpoint, if it did. Inside a round, lines keep the order in which the port first
/// reached them, and otherwise the order of the spec.
pub fn in_rounds<'c>(
    checkpoints: impl IntoIterator<Item = &'c Checkpoint>,
    reached: impl Fn(&Checkpoint) -> Option<u64>,
) -> Vec<&'c Checkpoint> {
    let named: Vec<Named<'c>> =
        checkpoints.into_iter().map(|checkpoint| (checkpoint, checkpoint.name.as_str())).collect();
    let mut first: HashMap<usize, u64> = HashMap::new();
    for (checkpoint, _) in &named {
        if let Some(place) = reached(checkpoint) {
            first.entry(checkpoint.line).and_modify(|old| *old = place.min(*old)).or_insert(place);
        }
    }
    let mut sorted = Vec::with_capacity(named.len());
    sort(named, &first, &mut sorted);
    sorted
}

/// Sorts the checkpoints of one round, or of the whole spec.
fn sort<'c>(named: Vec<Named<'c>>, first: &HashMap<usize, u64>, sorted: &mut Vec<&'c Checkpoint>) {
    let lines: Vec<&[Named<'c>]> = named.chunk_by(|(a, _), (b, _)| a.line == b.line).collect();
    // Per line, the prefix of its loop or of the next one: `layers.0.extra`, which only one layer has, may come first.
    let mut prefixes: Vec<Option<&str>> = lines.iter().map(|line| loop_prefix(line)).collect();
    for at in (1..prefixes.len()).rev() {
        prefixes[at - 1] = prefixes[at - 1].or(prefixes[at]);
    }
    let mut at = 0;
    while let (Some(&line), Some(&prefix)) = (lines.get(at), prefixes.get(at)) {
        let belongs =
            |line: &[Named<'c>], prefix: &str| line.iter().all(|(_, name)| round(name, prefix).is_some());
        let Some(prefix) = prefix.filter(|prefix| belongs(line, prefix)) else {
            sorted.extend(line.iter().map(|(checkpoint, _)| *checkpoint));
            at += 1;
            continue;
        };
        let count = lines[at..].iter().take_while(|line| belongs(line, prefix)).count();
        let mut rounds: BTreeMap<u64, Vec<Named<'c>>> = BTreeMap::new();
        for &(checkpoint, name) in lines[at..at + count].iter().copied().flatten() {
            if let Some((number, rest)) = round(name, prefix) {
                rounds.entry(number).or_default().push((checkpoint, rest));
            }
        }
        for members in rounds.into_values() {
            sort(in_reached_order(members, first), first, sorted);
        }
        at += count;
    }
}

/// Sorts the members of a round by when their lines were first reached. A line that was not reached stays behind the line
/// before it.
fn in_reached_order<'c>(members: Vec<Named<'c>>, first: &HashMap<usize, u64>) -> Vec<Named<'c>> {
    let mut latest = 0;
    let mut keyed: Vec<(u64, Named<'c>)> = Vec::with_capacity(members.len());
    for member in members {
        latest = first.get(&member.0.line).copied().unwrap_or(latest);
        keyed.push((latest, member));
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, member)| member).collect()
}

/// The text before the number of a loop: what all names of a line begin with. `None` if the line has one name, or if the names
/// do not differ in a number first.
fn loop_prefix<'c>(line: &[Named<'c>]) -> Option<&'c str> {
    let [(_, one), rest @ ..] = line else { return None };
    if rest.is_empty() {
        return None;
    }
    let mut common: &'c str = one;
    for (_, name) in rest {
        let equal = common.char_indices().zip(name.chars()).find(|((_, a), b)| a != b);
        let end = equal.map_or_else(|| common.len().min(name.len()), |((at, _), _)| at);
        common = common.get(..end)?;
    }
    let prefix = common.trim_end_matches(|c: char| c.is_ascii_digit());
    line.iter().all(|(_, name)| round(name, prefix).is_some()).then_some(prefix)
}

/// The number behind `prefix`, and the rest of the name.
fn round<'c>(name: &'c str, prefix: &str) -> Option<(u64, &'c str)> {
    let rest = name.strip_prefix(prefix)?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Policies, Spec, parse_spec};
    use super::*;

    fn spec(checkpoints: &[&str]) -> Spec {
        let lines: Vec<String> =
            checkpoints.iter().map(|line| format!("  - {{{line}, shape: []}}\n")).collect();
        let text = format!("version: 1\nport: p\ncheckpoints:\n{}", lines.concat());
        let (policies, _) = Policies::load(Path::new("/nowhere"));
        parse_spec("m/x", Path::new("x.yaml"), &text, &policies).unwrap_or_else(|error| panic!("{error}"))
    }

    fn sorted(checkpoints: &[&str], reached: &[&str]) -> String {
        let spec = spec(checkpoints);
        let place = |checkpoint: &Checkpoint| {
            reached.iter().position(|name| *name == checkpoint.name).map(|place| place as u64)
        };
        let names: Vec<&str> = in_rounds(&spec.checkpoints, place)
            .into_iter()
            .map(|checkpoint| checkpoint.name.as_str())
            .collect();
        names.join(" ")
    }

    #[test]
    fn the_rounds_of_a_loop_follow_each_other() {
        let layers = [
            "name: embed",
            "name: \"l.{i}.q\", for: {i: 0..2}",
            "name: \"l.{i}.k\", for: {i: 0..2}",
            "name: out",
        ];
        assert_eq!(sorted(&layers, &[]), "embed l.0.q l.0.k l.1.q l.1.k out");
        // Numbers are sorted as numbers, and their first digits may be equal.
        let many = ["name: \"l.{i}.q\", for: {i: 9..12}", "name: \"l.{i}.k\", for: {i: 10..12}"];
        assert_eq!(sorted(&many, &[]), "l.9.q l.10.q l.10.k l.11.q l.11.k");
        let nested = [
            "name: \"s{s}.l.{i}.q\", for: {s: 0..2, i: 0..2}",
            "name: \"s{s}.l.{i}.k\", for: {s: 0..2, i: 0..2}",
        ];
        assert_eq!(
            sorted(&nested, &[]),
            "s0.l.0.q s0.l.0.k s0.l.1.q s0.l.1.k s1.l.0.q s1.l.0.k s1.l.1.q s1.l.1.k"
        );
    }

    #[test]
    fn a_checkpoint_of_one_round_belongs_to_it() {
        let before = ["name: l.1.extra", "name: \"l.{i}.q\", for: {i: 0..2}"];
        assert_eq!(sorted(&before, &[]), "l.0.q l.1.extra l.1.q");
        let after = ["name: \"l.{i}.q\", for: {i: 0..2}", "name: l.0.extra"];
        assert_eq!(sorted(&after, &[]), "l.0.q l.0.extra l.1.q");
    }

    #[test]
    fn other_names_keep_the_order_of_the_spec() {
        assert_eq!(sorted(&["name: fc2", "name: fc1"], &[]), "fc2 fc1");
        let apart = ["name: \"l.{i}\", for: {i: 0..2}", "name: mid", "name: \"l.{i}.k\", for: {i: 0..2}"];
        assert_eq!(sorted(&apart, &[]), "l.0 l.1 mid l.0.k l.1.k");
    }

    #[test]
    fn a_later_round_has_the_order_in_which_an_earlier_one_ran() {
        let layers = [
            "name: \"l.{i}.q\", for: {i: 0..2}",
            "name: \"l.{i}.k\", for: {i: 0..2}",
            "name: \"l.{i}.v\", for: {i: 0..2}",
        ];
        assert_eq!(sorted(&layers, &["l.0.k", "l.0.v", "l.0.q"]), "l.0.k l.0.v l.0.q l.1.k l.1.v l.1.q");
        assert_eq!(sorted(&layers, &["l.0.k", "l.0.q"]), "l.0.k l.0.v l.0.q l.1.k l.1.v l.1.q");
    }
}
