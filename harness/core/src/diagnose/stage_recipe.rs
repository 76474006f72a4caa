//! How the reference made a failing golden, as a diagnosis is given it.

use std::collections::BTreeSet;

use crate::golden::FixtureSet;
use crate::recipe::Recipe;

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
}
