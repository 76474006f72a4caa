//! Checkpoints that a spec declares in another order than the reference computes them.

use std::collections::{HashMap, HashSet};

use super::LintInput;
use super::finding::Finding;
use super::names::lines;
use mlx_parity_core::golden::{FixtureSet, Role};
use mlx_parity_core::spec::Spec;

/// Expansions of a line that are compared with those of another. More would take long in a large spec, and loops repeat.
const COMPARED: usize = 50;

/// One expansion of a line: its name, and its place in the order of the reference's calls.
type Called<'a> = (&'a str, u64);

/// The lines of a spec that the reference computes before a line above them; one per line above.
///
/// Specs declare the stages of a loop one after another, and the reference computes them in turn. So only expansions of the
/// same iteration are compared, and all of them must be in the other order. Goldens of a set that cannot be read are
/// reported elsewhere.
pub(super) fn out_of_order(input: &LintInput, spec: &Spec) -> Vec<Finding> {
    let Ok(set) = FixtureSet::open(&input.fixture_root, &spec.fixtures) else { return Vec::new() };
    let sequences: HashMap<&str, u64> =
        set.entries(Role::Golden).filter_map(|entry| Some((entry.name.as_str(), entry.sequence?))).collect();
    let mut above: Vec<Vec<Called>> = Vec::new();
    let mut passed = HashSet::new();
    let mut found = Vec::new();
    for (line, checkpoints) in lines(spec) {
        let goldens = checkpoints.iter().filter(|checkpoint| checkpoint.needs_golden());
        let called = goldens.filter_map(|checkpoint| {
            Some((checkpoint.name.as_str(), *sequences.get(checkpoint.name.as_str())?))
        });
        let own: Vec<Called> = called.take(COMPARED).collect();
        let late = above.iter().enumerate().rev().find(|(_, other)| is_before(&own, other));
        if let (Some((at, other)), Some((name, _))) = (late, own.first())
            && passed.insert(at)
        {
            let before = other.first().map_or("", |(name, _)| name);
            let place = set.entries(Role::Golden).find(|entry| entry.name == *name);
            let place = place.and_then(|entry| entry.place.as_ref());
            found.push(Finding {
                is_error: false,
                message: format!("`{name}` is declared after `{before}`, but the reference computes it before"),
                path: spec.path.clone(),
                line: Some(line),
                notes: place.map(|place| format!("the reference computes it at {place}")).into_iter().collect(),
                help: Some(
                    "declare checkpoints in the order of execution, in which people read them when one is red".to_owned(),
                ),
            });
        }
        above.push(own);
    }
    found
}

/// Whether the reference computes every expansion of the one line before those of the other in the same iteration.
fn is_before(own: &[Called], other: &[Called]) -> bool {
    let mut any = false;
    for (name, sequence) in own {
        for (_, other_sequence) in other.iter().filter(|(other, _)| is_same_iteration(name, other)) {
            if sequence > other_sequence {
                return false;
            }
            any = true;
        }
    }
    any
}

/// Whether two names belong to the same iteration of each loop around both: the first parts that differ are not two numbers.
fn is_same_iteration(one: &str, other: &str) -> bool {
    let differ = one.split('.').zip(other.split('.')).find(|(one, other)| one != other);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    !differ.is_some_and(|(one, other)| is_number(one) && is_number(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_iteration_is_compared() {
        for (one, other, same) in [
            ("norm", "out", true),
            ("blocks.0.norm", "blocks.0.out", true),
            ("blocks.0.norm", "blocks.1.norm", false),
            ("blocks.0.attn.1.q", "blocks.0.out", true),
            ("step.1.blocks.0.out", "step.0.blocks.0.out", false),
            ("blocks.0.out", "final", true),
        ] {
            assert_eq!(is_same_iteration(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn a_stage_that_only_some_iterations_have_is_in_order() {
        let windows = [("blocks.1.windows", 11), ("blocks.2.windows", 21)];
        let out = [("blocks.0.out", 5), ("blocks.1.out", 15), ("blocks.2.out", 25)];
        assert!(!is_before(&out, &windows));
        assert!(is_before(&windows, &out));
        assert!(!is_before(&[("blocks.0.out", 5)], &windows), "no iteration has both");
        assert!(is_before(&[("norm", 0)], &[("gated", 1)]) && !is_before(&[("gated", 1)], &[("norm", 0)]));
    }
}
