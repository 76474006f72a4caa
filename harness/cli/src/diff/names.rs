//! Which tensor of B belongs to which tensor of A.

use std::collections::{BTreeMap, HashMap};

use super::DiffError;
use mlx_parity_core::report::Known;
use mlx_parity_core::text::suggest::{nearest, numbers};
use mlx_parity_core::weights::renamed;

/// Rules that rename tensors of A to their names in B.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Rules as in a spec's `weights.rename`: each replaces a sequence of whole segments wherever it occurs in a name.
    parts: BTreeMap<String, String>,
    /// Rules `^OLD$=NEW`: each replaces a whole name.
    whole: BTreeMap<String, String>,
}

impl Rules {
    pub(super) fn parse(rules: &[String]) -> Result<Self, DiffError> {
        let mut made = Self::default();
        for rule in rules {
            let wrong = || DiffError::Rename { rule: rule.clone() };
            let (old, new) = rule.split_once('=').filter(|(old, _)| !old.is_empty()).ok_or_else(wrong)?;
            match old.strip_prefix('^').map(|old| old.strip_suffix('$')) {
                Some(Some(old)) if !old.is_empty() && !new.is_empty() => {
                    made.whole.insert(old.to_owned(), new.to_owned());
                }
                Some(_) => return Err(wrong()),
                None => {
                    made.parts.insert(old.to_owned(), new.to_owned());
                }
            }
        }
        Ok(made)
    }

    fn apply(&self, name: &str) -> String {
        self.whole.get(name).cloned().unwrap_or_else(|| renamed(name, &self.parts))
    }
}

/// Pairs of names, and names without a counterpart. A name is given by its position in the list of its side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// In the order of A.
    pub(super) pairs: Vec<(usize, usize, Known)>,
    pub(super) only_a: Vec<usize>,
    pub(super) only_b: Vec<usize>,
}

/// Returns the shape of a tensor; for A, in the layout in which it is compared.
pub(super) type Shapes<'a> = &'a mut dyn FnMut(SideName, usize) -> Result<Vec<usize>, DiffError>;

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideName {
    A,
    B,
}

/// Matches names in three steps: equal names, then names that the rules make equal, then names that are most similar to each
/// other. The last step only pairs tensors of the same shape with the same numbers in their names, and needs `near`.
pub(super) fn matched(
    a: &[&str],
    b: &[&str],
    rules: &Rules,
    near: Option<Shapes<'_>>,
) -> Result<Matched, DiffError> {
    let places: HashMap<&str, usize> = b.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut found: Vec<Option<(usize, Known)>> =
        a.iter().map(|name| Some((*places.get(name)?, Known::Name))).collect();
    let mut taken: HashMap<usize, usize> =
        found.iter().enumerate().filter_map(|(at, found)| Some((found.as_ref()?.0, at))).collect();
    for (at, name) in a.iter().enumerate().filter(|(at, _)| found[*at].is_none()).collect::<Vec<_>>() {
        let new = rules.apply(name);
        let Some(&counterpart) = places.get(new.as_str()) else { continue };
        if let Some(&first) = taken.get(&counterpart) {
            let (first, second) = (a[first].to_owned(), (*name).to_owned());
            return Err(DiffError::TwoNames { name: new, first, second });
        }
        taken.insert(counterpart, at);
        found[at] = Some((counterpart, Known::Rule));
    }
    if let Some(shapes) = near {
        let left_a: Vec<usize> = (0..a.len()).filter(|at| found[*at].is_none()).collect();
        let left_b: Vec<usize> = (0..b.len()).filter(|at| !taken.contains_key(at)).collect();
        for (at, counterpart) in nearest_pairs((a, &left_a), (b, &left_b), rules, shapes)? {
            found[at] = Some((counterpart, Known::Nearness));
            taken.insert(counterpart, at);
        }
    }
    let pairs =
        found.iter().enumerate().filter_map(|(at, found)| found.map(|(b, known)| (at, b, known))).collect();
    Ok(Matched {
        pairs,
        only_a: (0..a.len()).filter(|at| found[*at].is_none()).collect(),
        only_b: (0..b.len()).filter(|at| !taken.contains_key(at)).collect(),
    })
}

type Names<'a> = (&'a [&'a str], &'a [usize]);
type Named = (usize, String);
/// The numbers in a name, and the shape.
type Alike = (Vec<String>, Vec<usize>);

/// Returns the pairs of names that are most similar to each other.
fn nearest_pairs(
    (a, left_a): Names<'_>,
    (b, left_b): Names<'_>,
    rules: &Rules,
    shapes: Shapes<'_>,
) -> Result<Vec<(usize, usize)>, DiffError> {
    if left_a.is_empty() || left_b.is_empty() {
        return Ok(Vec::new());
    }
    let count = |name: &str| numbers(name).map(str::to_owned).collect::<Vec<String>>();
    // Only names that could be a pair are compared with each other. This also saves time with long lists.
    let mut groups: HashMap<Alike, [Vec<Named>; 2]> = HashMap::new();
    for &at in left_a {
        let name = rules.apply(a[at]);
        groups.entry((count(&name), shapes(SideName::A, at)?)).or_default()[0].push((at, name));
    }
    for &at in left_b {
        groups.entry((count(b[at]), shapes(SideName::B, at)?)).or_default()[1].push((at, b[at].to_owned()));
    }
    let names = |side: &[Named]| side.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    for [ours, theirs] in groups.values() {
        let (our_names, their_names) = (names(ours), names(theirs));
        for (at, name) in ours {
            let Some(best) = nearest(name, their_names.iter().map(String::as_str)) else { continue };
            if nearest(best, our_names.iter().map(String::as_str)) == Some(name) {
                pairs.extend(theirs.iter().find(|(_, name)| name == best).map(|(other, _)| (*at, *other)));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[&str]) -> Result<Rules, DiffError> {
        Rules::parse(&rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>())
    }

    /// Expects these pairs: `a=b`, or `a~b` if the names are only similar. All shapes are equal.
    #[track_caller]
    fn check(a: &[&str], b: &[&str], with: &[&str], expected: &[&str]) {
        let mut shapes = |_: SideName, _: usize| Ok(vec![2]);
        let found = matched(a, b, &rules(with).unwrap(), Some(&mut shapes)).unwrap();
        let pairs: Vec<String> = found
            .pairs
            .iter()
            .map(|(at, other, known)| {
                let sign = if *known == Known::Nearness { "~" } else { "=" };
                format!("{}{sign}{}", a[*at], b[*other])
            })
            .collect();
        assert_eq!(pairs, expected);
        assert_eq!(found.only_a.len() + pairs.len(), a.len());
        assert_eq!(found.only_b.len() + pairs.len(), b.len());
    }

    #[test]
    fn names_are_equal_then_renamed_then_near() {
        check(&["norm", "out"], &["out", "norm"], &[], &["norm=norm", "out=out"]);
        check(
            &["blocks.0.attn.proj"],
            &["layers.0.attn.proj"],
            &["blocks=layers"],
            &["blocks.0.attn.proj=layers.0.attn.proj"],
        );
        check(&["x", "xy"], &["z", "zy"], &["^x$=z"], &["x=z"]);
        check(&["nrom", "other"], &["norm", "far_away"], &[], &["nrom~norm"]);
        check(&["model.norm"], &["norm"], &[], &["model.norm~norm"]);
        check(&["blocks.0.out"], &["blocks.1.out"], &[], &[]);
        check(&["norm"], &["norma", "normb"], &[], &[]);
        check(&["norma", "normb"], &["norm"], &[], &[]);
    }

    #[test]
    fn near_names_need_equal_shapes_and_can_be_left_out() {
        let mut shapes = |of: SideName, _: usize| Ok(if of == SideName::A { vec![2] } else { vec![3] });
        let none = Rules::default();
        assert_eq!(matched(&["nrom"], &["norm"], &none, Some(&mut shapes)).unwrap().pairs, []);
        assert_eq!(matched(&["nrom"], &["norm"], &none, None).unwrap().only_a, [0]);
    }

    #[test]
    fn malformed_and_colliding_rules_are_refused() {
        for rule in ["norm", "=x", "^a=b", "^$=b", "^a$="] {
            assert!(matches!(rules(&[rule]), Err(DiffError::Rename { .. })), "{rule}");
        }
        let error = matched(&["a.x", "b.x"], &["c.x"], &rules(&["a=c", "b=c"]).unwrap(), None).unwrap_err();
        assert_eq!(error.to_string(), "the rules rename both `a.x` and `b.x` to `c.x`");
    }
}
