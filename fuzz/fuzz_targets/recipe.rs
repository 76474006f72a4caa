#![no_main]

use std::collections::BTreeSet;

use mlx_parity_core::recipe::{Leaf, Recipe};
use mlx_parity_core::replay::{Array, Leaves, Replay, ReplayError, Work};

/// Every tensor of the set is the same small one.
struct Small;

impl Leaves for Small {
    fn leaf(&self, _: &Leaf, _: &Work) -> Result<Array, ReplayError> {
        Ok(Array::new(vec![2, 3], vec![0.0, 1.0, 2.0, -1.0, 0.5, f64::NAN]).unwrap())
    }

    fn cut(&self, _: usize, _: &Work) -> Result<Array, ReplayError> {
        Ok(Array::scalar(1.0))
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(recipe) = Recipe::parse(bytes) else { return };
    let work = Work::new(1 << 26, 1 << 24);
    // From the last node, then from the middle with the first half known.
    for (target, cut) in [
        (recipe.nodes.len().saturating_sub(1), BTreeSet::new()),
        (recipe.nodes.len() / 2, (0..recipe.nodes.len() / 4).collect()),
    ] {
        if let Ok(replay) = Replay::new(&recipe, target, cut, &Small, &work) {
            let _ = replay.target();
        }
    }
    assert_eq!(work.bytes_left(), 1 << 24);
});
