//! Rules for `rename` that would turn the names of weights in a file into the names that a port asks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::weights::renamed;

/// The most rules that are offered.
const MOST_RULES: usize = 4;
/// How many missing names, and how many names that no one asked for, are looked at. A rule needs few examples.
const MOST_MISSING: usize = 64;
const MOST_UNUSED: usize = 4096;

/// Returns rules from parts of the `unused` names to parts of the port's `missing` names.
///
/// There are at most four rules, and each explains missing names that no other rule explains. A rule that replaces a part by
/// another needs two names that it explains: `self_attn` and `attn` in all layers, but not a single `b` for `a`. A rule that adds
/// or removes a prefix needs one. Returns no rule if more would be needed.
pub fn rename_rules(missing: &[String], unused: &[String]) -> BTreeMap<String, String> {
    let missing: BTreeSet<&str> = missing.iter().take(MOST_MISSING).map(String::as_str).collect();
    let unused: Vec<&str> = unused.iter().take(MOST_UNUSED).map(String::as_str).collect();
    let mut explained: BTreeMap<Rule, BTreeSet<&str>> = BTreeMap::new();
    for &name in &missing {
        for other in &unused {
            if let Some(rule) = Rule::between(other, name) {
                explained.entry(rule).or_default().insert(name);
            }
        }
    }
    let mut rules = BTreeMap::new();
    let mut left = missing;
    loop {
        explained.retain(|rule, names| {
            names.retain(|name| left.contains(name));
            names.len() >= rule.fewest() && !rules.contains_key(&rule.from)
        });
        let Some((rule, names)) = explained.iter().max_by_key(|(rule, names)| (names.len(), !rule.replaces))
        else {
            break;
        };
        left = left.difference(names).copied().collect();
        rules.insert(rule.from.clone(), rule.to.clone());
    }
    // Rules act on each other's results only if one name holds the parts of two.
    let is_right = rules.len() <= MOST_RULES
        && unused
            .iter()
            .map(|name| (name, renamed(name, &rules)))
            .all(|(name, new)| new == **name || !unused.contains(&new.as_str()));
    if is_right { rules } else { BTreeMap::new() }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    from: String,
    to: String,
    /// Replaces a part by another. Otherwise a prefix is added or removed.
    replaces: bool,
}

impl Rule {
    /// Returns the rule that turns the first name into the second: what is left without the parts that both begin and end with.
    fn between(name: &str, wanted: &str) -> Option<Self> {
        let (name, wanted): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), wanted.split('.').collect());
        let least = name.len().min(wanted.len());
        let mut end = name.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count();
        let start = name.iter().zip(&wanted).take(least - end).take_while(|(a, b)| a == b).count();
        // Names that share no end, such as `weight`, are of different parameters.
        if end == 0 || name == wanted {
            return None;
        }
        let replaces = start + end < least;
        if !replaces {
            if start > 0 {
                return None;
            }
            // A part added in front, or removed: the part behind it says where.
            end -= 1;
        }
        let middle = |parts: &[&str]| parts[start..parts.len() - end].join(".");
        let (from, to) = (middle(&name), middle(&wanted));
        let has_number = |text: &str| text.split('.').any(|part| part.parse::<usize>().is_ok());
        (!has_number(&from) && !has_number(&to)).then_some(Self { from, to, replaces })
    }

    fn fewest(&self) -> usize {
        if self.replaces { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(missing: &[&str], unused: &[&str], rules: &[(&str, &str)]) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let rules = rules.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect();
        assert_eq!(rename_rules(&owned(missing), &owned(unused)), rules);
    }

    #[test]
    fn names_that_differ_in_their_first_parts_give_rules() {
        let (long, short) =
            (["model.layers.0.q.weight", "model.norm.weight"], ["layers.0.q.weight", "norm.weight"]);
        check(&short, &long, &[("model.layers", "layers"), ("model.norm", "norm")]);
        check(&long, &short, &[("layers", "model.layers"), ("norm", "model.norm")]);
        // `aq.weight` ends in `q.weight`, but not in the part `q`.
        check(&["q.weight"], &["aq.weight"], &[]);
    }

    #[test]
    fn a_part_in_the_middle_gives_a_rule_if_several_names_agree() {
        let names = |part: &str| -> Vec<String> {
            let names = ["q", "k"].iter().flat_map(|weight| {
                (0..2).map(move |layer| format!("model.layers.{layer}.{part}.{weight}.weight"))
            });
            names.collect()
        };
        let (attn, self_attn) = (names("attn"), names("self_attn"));
        assert_eq!(
            rename_rules(&attn, &self_attn),
            BTreeMap::from([("self_attn".to_owned(), "attn".to_owned())])
        );
        assert_eq!(rename_rules(&attn[..1], &self_attn[..1]), BTreeMap::new(), "one name is no evidence");
        check(&["a.weight"], &["b.weight"], &[]);
    }

    #[test]
    fn numbers_and_other_parameters_give_no_rule() {
        check(&["layers.2.q.weight", "layers.2.k.weight"], &["layers.1.q.weight", "layers.1.k.weight"], &[]);
        check(&["norm.scale", "out.scale"], &["norm.bias", "out.bias"], &[]);
        check(&[], &["a"], &[]);
    }

    #[test]
    fn no_rule_turns_a_name_into_one_that_exists() {
        // `b` to `a` would explain both, but `a.x.w` is a weight that no one asked for.
        check(&["a.p.w", "a.q.w"], &["b.p.w", "b.q.w", "b.x.w", "a.x.w"], &[]);
    }
}
