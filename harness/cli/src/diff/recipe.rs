//! The recipe of A, and what the tensors of B show about each of its nodes.

use std::collections::HashMap;

use super::side::DiffSide;
use mlx_parity_core::diagnose::StageRecipe;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::recipe::{Node, Op, Operand, Recipe};
use mlx_parity_core::text::error_chain;

/// The recipe of A, and where B agrees with it. A tensor of A is given by its position in the manifest's sequence.
pub(super) struct RecipeOfA<'s> {
    fixtures: &'s FixtureSet,
    recipe: Recipe,
    goldens: Vec<&'s str>,
    /// Whether a golden agrees with its counterpart in B; `None` without a counterpart.
    agrees: &'s [Option<bool>],
    is_sound: Vec<bool>,
    /// The first differing golden of a node.
    first_differing: HashMap<usize, usize>,
}

impl<'s> RecipeOfA<'s> {
    /// Reads the recipe of A, if A is a fixture set that has one. If the recipe cannot be read, prints why, and the search for
    /// causes works without it.
    pub(super) fn read(a: &'s DiffSide, agrees: &'s [Option<bool>]) -> Option<Self> {
        let fixtures = a.fixture_set()?;
        match fixtures.recipe() {
            Ok(recipe) => recipe.map(|recipe| Self::new(fixtures, recipe, a.goldens().collect(), agrees)),
            Err(error) => {
                eprintln!("causes are searched without the recipe: {}", error_chain(&error));
                None
            }
        }
    }

    fn new(
        fixtures: &'s FixtureSet,
        recipe: Recipe,
        goldens: Vec<&'s str>,
        agrees: &'s [Option<bool>],
    ) -> Self {
        // Whether all goldens of a node agree, as far as B has them.
        let mut compared: HashMap<usize, bool> = HashMap::new();
        let mut first_differing = HashMap::new();
        for (at, (golden, agrees)) in goldens.iter().zip(agrees).enumerate() {
            let (Some(&node), Some(agrees)) = (recipe.goldens.get(*golden), *agrees) else { continue };
            *compared.entry(node).or_insert(true) &= agrees;
            if !agrees {
                first_differing.entry(node).or_insert(at);
            }
        }
        let is_sound = sound(&recipe, &compared);
        Self { fixtures, recipe, goldens, agrees, is_sound, first_differing }
    }

    /// The name of a golden in the manifest.
    pub(super) fn golden(&self, at: usize) -> &'s str {
        self.goldens[at]
    }

    /// Whether a differing golden is computed only from values that are sound (see `sound`), so that the error arises in the
    /// golden's own stage.
    ///
    /// If two goldens of one node differ, the first in sequence has the error and the other repeats it. The answer is no for an
    /// unknown operation, because its inputs are not known.
    pub(super) fn inputs_agree(&self, at: usize) -> bool {
        let Some(&node) = self.recipe.goldens.get(self.goldens[at]) else { return false };
        let made_by = &self.recipe.nodes[node];
        self.first_differing.get(&node) == Some(&at)
            && !matches!(made_by.op, Op::Unknown { .. })
            && has_sound_operands(made_by, &self.is_sound)
    }

    /// How the reference made a golden. The replay starts at earlier goldens that agree, because B continued from them.
    /// `layout` is the order of the axes in B.
    pub(super) fn stage<'r>(&'r self, at: usize, layout: Option<&'r [usize]>) -> StageRecipe<'r> {
        let before = self.goldens.iter().zip(self.agrees).take(at);
        let agreeing = before.filter(|(_, agrees)| **agrees == Some(true));
        let tapped = agreeing.map(|(golden, _)| (*golden).to_owned()).collect();
        StageRecipe { recipe: &self.recipe, fixtures: self.fixtures, tapped, squeeze: &[], layout }
    }
}

/// Returns per node whether its value is sound. A value is sound if nothing in B shows that B computed it differently from the
/// reference.
///
/// - A node with goldens that B has is sound if all of these agree.
/// - Any other node is sound if its operation is known and all its operands are sound: it can be replayed from tensors that
///   agree. This includes goldens that B lacks. Inputs, weights and numbers need no operands, so they are sound.
fn sound(recipe: &Recipe, compared: &HashMap<usize, bool>) -> Vec<bool> {
    let mut is_sound: Vec<bool> = Vec::with_capacity(recipe.nodes.len());
    for (index, node) in recipe.nodes.iter().enumerate() {
        is_sound.push(match (compared.get(&index), &node.op) {
            (Some(agrees), _) => *agrees,
            (None, Op::Unknown { .. }) => false,
            (None, _) => has_sound_operands(node, &is_sound),
        });
    }
    is_sound
}

fn has_sound_operands(node: &Node, is_sound: &[bool]) -> bool {
    node.inputs.iter().all(|operand| match operand {
        Operand::Node(operand) => is_sound[*operand],
        Operand::Number(_) | Operand::Absent => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two branches from `x`, joined in `out`; `side` has a second branch that recipes do not know.
    const RECIPE: &str = r#"{"format": 1, "sources": [], "missing": {}, "nodes": [
        ["input", [], {"name": "x"}],
        ["exp", [0], {}],
        ["square", [1], {}],
        ["neg", [0], {}],
        ["add", [2, 3], {}],
        ["unknown", [], {"why": "`unique`"}],
        ["mul", [3, 5], {}]],
        "goldens": {"exp": 1, "square": 2, "neg": 3, "out": 4, "same": 4, "side": 6}}"#;

    /// Expects the nodes `expected` to be sound if the nodes `agree` agree and the nodes `differ` differ.
    #[track_caller]
    fn check(agree: &[usize], differ: &[usize], expected: &[usize]) {
        let recipe = Recipe::parse(RECIPE.as_bytes()).unwrap();
        let agree = agree.iter().map(|node| (*node, true));
        let compared = agree.chain(differ.iter().map(|node| (*node, false))).collect();
        let is_sound = sound(&recipe, &compared);
        let found: Vec<usize> = (0..is_sound.len()).filter(|node| is_sound[*node]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_value_is_sound_if_it_agrees_or_can_be_replayed_from_sound_ones() {
        check(&[], &[], &[0, 1, 2, 3, 4]);
        check(&[1, 2, 3, 4], &[], &[0, 1, 2, 3, 4]);
        // A value that is computed from a difference is not sound, unless it agrees all the same.
        check(&[], &[1], &[0, 3]);
        check(&[2], &[1], &[0, 2, 3, 4]);
        check(&[1, 3], &[2], &[0, 1, 3]);
        // A tensor that is computed from an unknown value is sound only if it agrees.
        check(&[6], &[], &[0, 1, 2, 3, 4, 6]);
    }
}
