//! How the reference made a failing golden, as a diagnosis is given it.

use std::collections::BTreeSet;

use super::MadeFrom;
use crate::golden::FixtureSet;
use crate::recipe::{Leaf, Node, Op, Operand, Recipe};

/// How the reference made a failing golden.
pub struct StageRecipe<'a> {
    /// The recipe of the fixture set.
    pub recipe: &'a Recipe,
    /// The fixture set.
    pub fixtures: &'a FixtureSet,
    /// Goldens that the port tapped before this one, as the manifest names them. The replay starts at them.
    pub tapped: BTreeSet<String>,
    /// Axes of the golden that the spec drops.
    pub squeeze: &'a [usize],
    /// The order of the remaining axes in the port.
    pub layout: Option<&'a [usize]>,
}

impl<'a> StageRecipe<'a> {
    /// The same for another recipe.
    pub(super) fn with<'s>(&self, recipe: &'s Recipe) -> StageRecipe<'s>
    where
        'a: 's,
    {
        StageRecipe { recipe, tapped: self.tapped.clone(), ..*self }
    }

    /// The node that makes a golden.
    pub(super) fn target(&self, golden: &str) -> Option<usize> {
        self.recipe.goldens.get(golden).copied()
    }

    /// The nodes that make tapped goldens.
    pub(super) fn cut(&self) -> BTreeSet<usize> {
        self.tapped.iter().filter_map(|name| self.target(name)).collect()
    }

    /// The tapped goldens and the inputs that a golden was made from; `None` if its recipe is unknown.
    pub(super) fn made_from(&self, golden: &str) -> Option<MadeFrom> {
        let target = self.target(golden)?;
        let cut = self.cut();
        let (mut needed, mut open) = (BTreeSet::new(), vec![target]);
        while let Some(node) = open.pop() {
            let is_known = node != target && cut.contains(&node);
            if !needed.insert(node) || is_known {
                continue;
            }
            let Node { op, inputs, .. } = &self.recipe.nodes[node];
            if let Op::Unknown { .. } = op {
                return None;
            }
            open.extend(inputs.iter().filter_map(|operand| match operand {
                Operand::Node(node) => Some(*node),
                Operand::Number(_) | Operand::Absent => None,
            }));
        }
        needed.remove(&target);
        let mut from = MadeFrom::default();
        for node in needed {
            let golden = self.recipe.goldens_of(node).find(|name| self.tapped.contains(*name));
            match (golden, &self.recipe.nodes[node].op) {
                (Some(golden), _) => from.goldens.push(golden.to_owned()),
                (None, Op::Leaf(Leaf::Input { name })) => from.inputs.push(name.clone()),
                _ => {}
            }
        }
        Some(from)
    }
}
